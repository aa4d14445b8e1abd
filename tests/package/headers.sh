#!/bin/bash
# headers.sh INCLUDE COMPILER...: compiles each public header alone, as C++17 and
# as C++20, with every one of the compilers that this machine has.
set -euo pipefail

include=$1
shift
tried=0
for compiler in "$@"; do
    command -v "$compiler" >/dev/null || continue
    for header in "$include"/gradnn/*.hpp; do
        for standard in c++17 c++20; do
            echo "#include <gradnn/$(basename "$header")>" |
                "$compiler" -std=$standard -Wall -Wextra -Wpedantic -Wshadow \
                    -Werror -I"$include" -x c++ -fsyntax-only -
        done
    done
    tried=$((tried + 1))
done
echo "$tried compilers"
[ "$tried" -gt 0 ]
