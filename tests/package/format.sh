#!/bin/bash
# format.sh ROOT: whether clang-format would leave every C++, CUDA and C source
# as it is. Releases of clang-format differ, so it is one release that decides
# (Debian 12's); exits with 77 where that is not on the machine, and where git
# has no list of the sources. And whether loops of device code that `if constexpr`
# may discard have braces around them: NVRTC 13.0 discards the statement behind one
# that has none, in a generic lambda.
set -euo pipefail
cd "$1"
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || exit 77

loops=$(git ls-files -z -- 'src/*.cu' 'src/*.cuh' |
    xargs -0 grep -EHn -A 1 'if constexpr .*\)$' |
    grep -E '^[^ ]+-[0-9]+- *(while|for) ' || true)
if [[ -n $loops ]]; then
    echo "loops behind 'if constexpr' without braces:"
    echo "$loops"
    exit 1
fi

release=14
for program in clang-format-$release clang-format; do
    if "$program" --version 2>/dev/null | grep -q " version $release\."; then
        git ls-files -z -- '*.cpp' '*.hpp' '*.h' '*.cu' '*.cuh' |
            xargs -0 "$program" --dry-run --Werror
        exit 0
    fi
done
echo "clang-format $release is not on this machine"
exit 77
