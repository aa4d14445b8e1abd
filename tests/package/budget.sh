#!/bin/bash
# budget.sh CHECKOUT [--lower]: the tree has no more than budget.txt says of
#
#   rows FILE      rows of a kernel list
#   files FOLDER   files of a folder and those below it
#   lines FOLDER   their lines
#   folders FILE   rows of the table of src/README.md
#   words FILE     words of a document outside code
#   tried FOLDER   lines of the section Tried of a README below it, of the longest
#
# With --lower, numbers that are larger than what the tree has become that, but for
# words and tried, whose numbers are limits that documents may come near.
set -euo pipefail
cd "$1"
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || exit 77
table=tests/package/budget.txt
status=0
checked=0
while read -r what of most; do
    [[ $what != "#"* ]] || continue
    case $what in
    rows) has=$(grep -cE '^ *\{"[a-z]+\.[a-z0-9_]+",' "$of") ;;
    files) has=$(git ls-files -- "$of" | wc -l) ;;
    lines) has=$(git ls-files -z -- "$of" | xargs -0 cat | wc -l) ;;
    folders) has=$(grep -c '^| \[' "$of") ;;
    words) has=$(awk '/^```/ { code = !code; next } !code' "$of" | wc -w) ;;
    tried)
        has=$(git ls-files -z -- "$of/*README.md" | xargs -0 awk '
            FNR == 1 { tried = 0 }
            /^## / { tried = /^## Tried/; if (tried) lines = 0; next }
            tried && NF { if (++lines > most) most = lines }
            END { print most + 0 }') ;;
    *)
        echo "$table: $what is none of rows, files, lines, folders, words, tried"
        exit 1
        ;;
    esac
    checked=$((checked + 1))
    if ((has > most)); then
        echo "$of has $has $what, and $table allows $most. Its numbers only" \
            "fall: make room by deleting (a kernel that another serves as" \
            "fast, a family that became a setting, a paragraph), then commit" \
            "that first."
        status=1
    elif ((has < most)); then
        echo "$of has $has $what, $table allows $most"
        if [[ ${2-} == --lower && $what != @(words|tried) ]]; then
            sed -i "s|^$what $of $most\$|$what $of $has|" "$table"
        fi
    fi
done <"$table"
if ((checked == 0)); then
    echo "$table has no line"
    exit 1
fi
exit $status
