#!/bin/bash
# headers.sh INCLUDE COMPILER...: compiles each public header alone as C++17, those
# of the C API (*.h) as C99 and C17 too, and all of them as C++20 (header_test has
# each alone), with every one of the C++ compilers that this machine has.
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
    # compile STANDARD LANGUAGE HEADER...
    compile() {
        printf '#include <gradnn/%s>\n' "${@:3}" |
            "$compiler" -std="$1" -Wall -Wextra -Wpedantic -Wshadow -Werror \
                -I"$include" -x "$2" -fsyntax-only -
    }
    cd "$include/gradnn"
    for header in *.hpp *.h; do
        compile c++17 c++ "$header"
    done
    for header in *.h; do
        compile c99 c "$header"
        compile c17 c "$header"
    done
    compile c++20 c++ *.hpp *.h
    cd - >/dev/null
    tried=$((tried + 1))
done
echo "$tried compilers"
[ "$tried" -gt 0 ]
