#!/bin/bash
# Shadow headers and sources for the host.
cd /tmp/helper_b
S=src/gpu; O=emu/gpu
python3 - <<'P'
import re
S='/tmp/helper_b/src/gpu/'; O='/tmp/helper_b/emu/gpu/'
s=open(S+'dtype.cuh').read()
s=s.replace('''        return {*reinterpret_cast<const word_type *>(from)};
''','''        emu_check(from, sizeof(word_type), false);
        return {*reinterpret_cast<const word_type *>(from)};
''')
s=s.replace('''        return {__ldg(reinterpret_cast<const word_type *>(from))};
''','''        return load(from);
''')
s=s.replace('''        __stcs(reinterpret_cast<word_type *>(to), bits);
''','''        emu_check(to, sizeof(word_type), true);
        *reinterpret_cast<word_type *>(to) = bits;
''')
open(O+'dtype.cuh','w').write(s)
s=open(S+'convolution_depthwise_walk.cuh').read()
a=s.index('    Type *next = nullptr;'); b=s.index('    return next;')
s=s[:a]+'    Type *next = reinterpret_cast<Type *>(reinterpret_cast<uintptr_t>(pointer) + static_cast<int64_t>(stride) * sizeof(Type));\n'+s[b:]
open(O+'convolution_depthwise_walk.cuh','w').write(s)
open(O+'early_start.cuh','w').write('#pragma once\nnamespace gradnn::gpu { inline void wait_for_earlier_work() {} inline void let_later_work_start() {} }\n')
open(O+'launch.hpp','w').write('''#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <cuda_runtime_api.h>
#include "emu.h"
namespace gradnn::gpu {
struct launch_stream { int n = 0; operator cudaStream_t() const { return nullptr; } };
template <typename... P, typename... A>
void launch_early(const char *, void (*kernel)(P...), unsigned grid, unsigned block, size_t, const launch_stream &, A &&...a) {
    emu_run(grid, block, [&] { kernel(a...); });
}
}
''')
P
