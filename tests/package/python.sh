#!/bin/bash
# python.sh WORK BUILD CMAKE PYTHON SOURCE: installs the component that the wheel
# is made of, beside the package's Python files, as the wheel has them, and uses
# it from another folder with an empty environment.
set -euo pipefail

work=$1 build=$2 cmake=$3 python=$4 source=$5
rm -rf "$work"
"$cmake" --install "$build" --component python --prefix "$work/first" >"$work.log"
cp -r "$source/python/gradnn/." "$work/first/gradnn"
mv "$work/first" "$work/site"
cd "$work/site/gradnn/lib"
find .. -type f -name '*.so*' | sort

fail() {
    echo "$*" >&2
    exit 1
}

# Every library that is needed is at hand or the system's own, under a soname
# that no other package has; no path of the build tree is left.
for file in *.so*; do
    runpath=$(readelf -d "$file" | sed -n 's/.*RUNPATH.*\[\(.*\)\]/\1/p')
    case $runpath in
    "" | '$ORIGIN') ;;
    *) fail "$file has the RUNPATH $runpath" ;;
    esac
    for needed in $(readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do
        case $needed in
        libc.so.6 | libm.so.6 | libdl.so.2 | librt.so.1 | libpthread.so.0) ;;
        libstdc++.so.6 | libgcc_s.so.1 | libgomp.so.1 | ld-linux-*) ;;
        libgradnn*.so*) [[ -f $needed ]] || fail "$file needs $needed" ;;
        *) fail "$file needs $needed, which the wheel does not bring" ;;
        esac
    done
done

cd /
env -i PYTHONPATH="$work/site" "$python" - "$work/site" <<'END'
import ctypes
import sys

import gradnn
from gradnn import _core
from gradnn._core import TensorDescription as Description

assert gradnn.__file__.startswith(sys.argv[1]), gradnn.__file__
op = _core.Op("ConvBackward", dict(strides=[1], pads_begin=[0], pads_end=[0],
    dilations=[1], data_format="NCX", weights_format="OIX"))
source = Description("f32", (1, 1, 4), (4, 4, 1))
weight = Description("f32", (1, 1, 2), (2, 2, 1))
grad = Description("f32", (1, 1, 3), (3, 3, 1))
compiled = op.compile(_core.engine("cpu"), [grad, source, weight], [source])
print(gradnn.version(), "oneDNN", gradnn.onednn_version(), compiled.steps)
values = [(ctypes.c_float * 3)(1, 2, 3), (ctypes.c_float * 4)(),
    (ctypes.c_float * 2)(1, 10), (ctypes.c_float * 4)()]
workspace = ctypes.create_string_buffer(compiled.workspace_size + 64)
addresses = [ctypes.addressof(each) for each in values]
compiled.execute(addresses[:3], addresses[3:],
    (ctypes.addressof(workspace) + 63) // 64 * 64)
assert list(values[3]) == [1, 12, 23, 30], list(values[3])
with open("/proc/self/maps") as maps:
    loaded = {line.split()[-1] for line in maps if "gradnn" in line}
assert all(each.startswith(sys.argv[1]) for each in loaded), loaded
END
rm -rf "$work"
