// Which instruction sets the SIMD kernels are compiled for and run on.
//
// To be included before any header of Highway: it names the targets that
// Highway must not generate. What is left is AVX-512 (AVX3), AVX2 and the
// baseline (SSE2; scalar with a Highway before 1.0.5) on x86, NEON on Arm.
#pragma once

#include <string>
#include <vector>

// By bit, because not every version has a name for all of them: 0 to 7 are
// x86 targets above AVX3; 11 and 12 are SSE4 and SSSE3; 15 to 27 are Arm's SVE
// and variants of NEON that are narrower in use.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (0xFFLL | 3LL << 11 | 0x1FFFLL << 15)
#endif

namespace gradnn::cpu {

/// The target that plans made from now on use, as Highway calls it ("AVX3").
std::string simd_target();

/// All that this build has and this machine can run, best first.
std::vector<std::string> simd_targets();

/// Restricts plans made from now on to one of simd_targets(); an empty name
/// lifts the restriction. Any other name lifts it too and gives false. For
/// tests and measurements: process-wide.
bool set_simd_target(const std::string &name);

} // namespace gradnn::cpu
