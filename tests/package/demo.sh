#!/bin/bash
# demo.sh CHECKOUT PROGRAM WORK: scripts/demo with a program that is there: on the
# CPU alone, and with a program that says it has a GPU (whose graphs run on the CPU),
# both engines.
set -euo pipefail
checkout=$1 program=$2 work=$3
rm -rf "$work"
mkdir -p "$work"

# want COUNT TEXT FILE: so many lines have the text.
want() {
    local found
    found=$(grep -cF -- "$2" "$3") || true
    if ((found != $1)); then
        echo "\"$2\" is in $found lines of this, and should be in $1:"
        cat "$3"
        exit 1
    fi
}

"$program" info | sed 's/^gpu engines .*/gpu engines  0/' >"$work/info_without"
cat >"$work/without" <<END
#!/bin/bash
if [[ \$1 == info ]]; then exec cat "$work/info_without"; fi
exec "$program" "\$@"
END
sed 's/^gpu engines .*/gpu engines  1/' "$work/info_without" >"$work/info_with"
cat >"$work/with" <<END
#!/bin/bash
if [[ \$1 == info ]]; then exec cat "$work/info_with"; fi
echo "\$*" >>"$work/calls"
exec "$program" "\${@/#gpu/cpu}"
END
chmod +x "$work/without" "$work/with"

rm -f "$checkout"/build/demo_upsample_diff_*.png
"$checkout/scripts/demo" --program "$work/without" >"$work/out" 2>"$work/err"
want 1 "8 of 8 outputs are ok" "$work/out"
want 1 "On the GPU: " "$work/out"
want 0 "u*S" "$work/out"
for name in dst src; do
    want 1 "wrote build/demo_upsample_diff_$name.png" "$work/err"
    [[ -s $checkout/build/demo_upsample_diff_$name.png ]]
done

"$checkout/scripts/demo" --program "$work/with" --details >"$work/out" 2>"$work/err"
want 2 "8 of 8 outputs are ok" "$work/out"
want 0 "On the GPU: " "$work/out"
want 1 "--engine cpu" "$work/calls"
want 1 "--engine gpu" "$work/calls"
want 2 "u*S: " "$work/out"

if "$checkout/scripts/demo" --detail 2>"$work/err"; then exit 1; fi
want 1 "unknown argument --detail;" "$work/err"
