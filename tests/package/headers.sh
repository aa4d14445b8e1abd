#!/bin/bash
# headers.sh INCLUDE COMPILER...: compiles each public header alone, as C++17 and
# as C++20, those of the C API (*.h) as C99 and C17 too, with every one of the
# C++ compilers that this machine has.
set -euo pipefail

include=$1
shift
tried=0
known=
for compiler in "$@"; do
    path=$(command -v "$compiler") || continue
    path=$(realpath "$path") # c++ may be g++
    [[ $known != *" $path "* ]] || continue
    known+=" $path "
    for header in "$include"/gradnn/*.hpp "$include"/gradnn/*.h; do
        standards=(c++17 c++20)
        [[ $header == *.hpp ]] || standards+=(c99 c17)
        for standard in "${standards[@]}"; do
            language=c
            [[ $standard != c++* ]] || language=c++
            echo "#include <gradnn/$(basename "$header")>" |
                "$compiler" -std="$standard" -Wall -Wextra -Wpedantic -Wshadow \
                    -Werror -I"$include" -x $language -fsyntax-only -
        done
    done
    tried=$((tried + 1))
done
echo "$tried compilers"
[ "$tried" -gt 0 ]
