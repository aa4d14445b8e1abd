set -e
cd /tmp/helper_b; bash make_emu.sh
sed 's/    const depthwise_taps of\[3\]/    ++::emu_exact;\n    const depthwise_taps of[3]/; s/^namespace gradnn::gpu {/extern long emu_exact;\nnamespace gradnn::gpu {/' src/gpu/convolution_depthwise.cuh > emu/gpu/convolution_depthwise.cuh
F="-std=c++20 -O2 -g -ffp-contract=off -w -include emu/emu.h -Iemu -Isrc -I/work/main/src -I/work/main/include -isystem /usr/local/cuda/include"
for f in volume_data volume_weights walk_data walk_weights; do g++ $F -x c++ -c src/gpu/convolution_depthwise_$f.cu -o emu/$f.o & done; wait
for f in volume walk shape; do g++ $F -c src/gpu/convolution_depthwise_$f.cpp -o emu/$f.o; done
g++ $F -c emu/test.cpp -o emu/test.o
g++ emu/*.o -o emu/test
