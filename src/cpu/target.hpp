// SPDX-License-Identifier: Apache-2.0
// What this process may use of its processor: the hardware, what the operating system saves, and the two environment variables
// DHYAN_CPU_TARGET=sse4|avx2|avx3 (exactly that level, no bf16 units) and DHYAN_AMX=0, read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dhyan::cpu {

enum class Vendor { other, intel, amd };

struct Processor {
  Vendor vendor = Vendor::other;
  int family = 0;  // extended fields added, as vendors print them
  int model = 0;
  std::string name;
  std::size_t l2_bytes = 0;  // of one core; 0: unknown
  std::size_t l3_bytes = 0;
};

const Processor& processor();

// Why no plan can be made: an environment variable's value that is unknown or asks for what the hardware lacks, or a processor
// below SSE4.2. One sentence; empty when all is well.
const std::string& target_error();

// The targets that f32 kernels may run, as Highway's mask of HWY_* bits. To dispatch without Highway's process-wide state:
//   hwy::ChosenTarget chosen; chosen.Update(highway_targets()); HWY_DISPATCH_TABLE(Kernel)[chosen.GetIndex()](...)
std::int64_t highway_targets();

// VDPBF16PS with all of AVX3 beside it.
bool has_avx512_bf16();

// AMX tiles and their bf16 product, with AVX-512 BF16 beside them. The first call on such a processor asks the kernel for
// permission to use tiles, once for the whole process; a refusal makes this false for good.
bool has_amx_bf16();

struct TargetRow {
  std::string name;    // sse4, avx2, avx3, avx512_bf16, amx_bf16
  bool available;      // usable by this process
  std::string reason;  // why not, or what is still to happen; may be empty
};

// Every target, weakest first, for `info`. Asks for nothing.
std::vector<TargetRow> target_rows();

}  // namespace dhyan::cpu
