#!/bin/bash
# state.sh BIN: no test program has state of the library's of its own. A program
# and libgradnn_testing.so each have a copy of an inline function that both use:
# one with a static variable belongs into a source file. Those that execute device code
# on the CPU have what it keeps between launches, and nobody else has.
set -euo pipefail
status=0
for program in "$1"/*; do
    case ${program##*/} in
        # The program and those of bench have the library in them.
        gradnn | onednn_peer | onednn_versions | *_emulated_test) continue ;;
    esac
    found=$(nm -C "$program" | grep -E 'guard variable for gradnn::' \
        | grep -vE 'gradnn::(test|sweep|fuzz|fake_cuda|emulated)::|anonymous' || true)
    [[ -n $found ]] || continue
    echo "${program##*/} has its own"
    echo "$found"
    status=1
done
exit $status
