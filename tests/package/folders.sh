#!/bin/bash
# folders.sh CHECKOUT: each folder of src includes only the folders that stand above
# it in the table of src/README.md, which names them all; and the engines are
# included by themselves and the driver alone. The core, which knows engines as rows of
# src/backends.cpp, names no kind or namespace of them: what differs is a field of the
# row. Device code that kernels share includes device code, CUDA's headers, and the
# small ones of the standard library; that of convolutions nothing of the host. Their
# launches may, and kernels by CUTLASS, which are classes of the host.
set -euo pipefail
cd "$1/src"
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || exit 77
mapfile -t folders < <(sed -n 's/^| \[\([a-z_]*\)\](.*/\1/p' README.md)
status=0
if [[ $(git ls-files | grep / | cut -d/ -f1 | sort -u | paste -sd' ') \
    != $(printf '%s\n' "${folders[@]}" | sort | paste -sd' ') ]]; then
    echo "src/README.md does not list the folders of src, but ${folders[*]}"
    status=1
fi
below=("${folders[@]}")
for folder in "${folders[@]}"; do
    below=("${below[@]:1}")
    forbidden=$(IFS='|'; echo "${below[*]}")
    [[ $folder == @(cpu|driver) ]] || forbidden+='|cpu'
    [[ $folder == @(gpu|driver) ]] || forbidden+='|gpu'
    if grep -nrE "^ *# *include \"($forbidden)/" "$folder"; then
        echo "src/$folder may not include these: src/README.md"
        status=1
    fi
done
if grep -nrE '\b(kind::(cpu|gpu)|(cpu|gpu)::|namespace gradnn::(cpu|gpu))\b' \
    base kernel tensor op compile execute graph; then
    echo "the core may not name these: src/kernel/backend.hpp has a row for each"
    status=1
fi
if grep -nE '^ *# *include' gpu/device/* \
    | grep -vE '"gpu/device/|<(cstdint|type_traits|limits|utility|bit|algorithm)>|<cuda_'; then
    echo "src/gpu/device may not include these: src/gpu/device/README.md"
    status=1
fi
if git ls-files 'gpu/convolution/*.cuh' 'gpu/convolution/*shape.hpp' |
    grep -vE '_launcher|implicit_gemm/' |
    xargs grep -nE '^ *# *include ("(base|kernel|gpu/runtime)/|<gradnn/)'; then
    echo "headers of device code may not include these of the host"
    status=1
fi
exit $status
