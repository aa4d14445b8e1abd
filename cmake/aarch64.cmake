# Toolchain: for 64-bit Arm on another machine that has Debian or Ubuntu, with
# libraries of the architecture arm64 installed beside its own (CONTRIBUTING.md
# names the packages). ctest runs the tests in qemu's emulator.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
