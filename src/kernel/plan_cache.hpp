// Which kernels measurements found fastest.
#pragma once

#include <optional>
#include <string>

namespace gradnn::detail {

/// The kernel that was kept for a problem (both without tabs and line ends; what
/// measures writes them), by this process or in a file. The name of the
/// file is empty where there is none. The file need not exist; where it cannot
/// be read or holds other text, throws invalid_arguments with its name and
/// line. Thread-safe.
std::optional<std::string> find_in_plan_cache(
        const std::string &problem, const std::string &file);

/// Whether find_in_plan_cache may find anything: this process has kept a kernel, or
/// there is a file.
bool may_find_in_plan_cache(const std::string &file);

/// Keeps it for this process and, unless the name of the file is empty, adds it
/// to the file, which is replaced as a whole, so that a reader never sees half
/// of it. Throws runtime_error where it cannot be written. Thread-safe.
void keep_in_plan_cache(const std::string &problem, const std::string &kernel,
        const std::string &file);

/// Forgets what was kept and which files were read, as a new process: for tests.
void forget_plans();

} // namespace gradnn::detail
