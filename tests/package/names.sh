#!/bin/bash
# names.sh BUILD CTEST: tests are called suite.test or instance/suite.test/parameter,
# without blanks, in fewer than 120 characters.
set -euo pipefail
mapfile -t names < <("$2" --test-dir "$1" -N | sed -n 's/^ *Test *#[0-9]*: //p')
if ((${#names[@]} == 0)); then
    echo "ctest lists no tests of $1"
    exit 1
fi
pattern='^([a-z0-9_]+/)?[a-z0-9_]+\.[A-Za-z0-9_]+(/[A-Za-z0-9_]+)?$'
status=0
for name in "${names[@]}"; do
    if ! [[ $name =~ $pattern ]] || ((${#name} >= 120)); then
        echo "no name for a test: $name"
        status=1
    fi
done
exit $status
