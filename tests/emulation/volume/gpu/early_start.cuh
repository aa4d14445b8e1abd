#pragma once
namespace gradnn::gpu { inline void wait_for_earlier_work() {} inline void let_later_work_start() {} }
