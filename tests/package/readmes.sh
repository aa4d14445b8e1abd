#!/bin/bash
# readmes.sh CHECKOUT: the README of each folder of src, or of the folder above
# it, names every source file of the folder, with its ending or without.
set -euo pipefail
cd "$1"
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || exit 77
status=0
while read -r file; do
    folder=${file%/*}
    [[ -e $folder/README.md ]] || continue
    name=${file##*/}
    readmes=("$folder/README.md")
    [[ -e ${folder%/*}/README.md ]] && readmes+=("${folder%/*}/README.md")
    if ! grep -qwF -e "${name%.*}" "${readmes[@]}"; then
        echo "$folder/README.md does not name $name"
        status=1
    fi
done < <(git ls-files 'src/*.cpp' 'src/*.hpp' 'src/*.h' 'src/*.cu' 'src/*.cuh')
exit $status
