#!/bin/bash
# lengths.sh CHECKOUT: no source file of the project is longer than 400 lines.
set -euo pipefail
cd "$1"
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || exit 77
long=$(git ls-files -z -- '*.cpp' '*.hpp' '*.h' '*.cu' '*.cuh' '*.c' '*.py' \
    | xargs -0 wc -l | awk '$1 > 400 && $2 != "total"')
[[ -z $long ]] && exit 0
echo "These have more than 400 lines:"
echo "$long"
exit 1
