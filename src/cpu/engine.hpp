// SPDX-License-Identifier: Apache-2.0
// Products of tiles: one engine per instruction set and operand type, the same five functions each. Drivers (forward, backward,
// naive) know only this; which engine serves a problem is decided once, when the plan is made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dhyan/dhyan.h"

namespace dhyan::cpu {

// Rows of numbers in memory: row r starts at data + r * stride elements. `factor` multiplies each as it is read (1: untouched).
struct Source {
  const void* data;
  dhyan_dtype dtype;  // f32, f16 or bf16
  std::int64_t stride;
  float factor = 1;
};

// A left operand in the engine's own form; the strides are in units of the engine's choosing.
struct Left {
  const void* data;
  std::int64_t row_stride;
  std::int64_t depth_stride;
};

struct Engine {
  const char* name;     // instruction set, as `info` prints it
  dhyan_dtype operand;  // what operands are rounded to before a product: f32 or bf16
  int rows;             // products run best with m a multiple of this
  int columns;          // and n a multiple of this
  int depth;            // k is padded to a multiple of this inside packed operands

  std::size_t (*left_bytes)(int m, int k);
  std::size_t (*right_bytes)(int k, int n);

  // A[m][k] = source(m, k). May return a view of the source itself when nothing needs to change.
  Left (*left)(const Source& source, int m, int k, void* storage);
  // A[m][k] = source(k, m).
  Left (*left_transposed)(const Source& source, int m, int k, void* storage);
  // B[k][n] = source(k, n).
  void (*right)(const Source& source, int k, int n, void* storage);
  // B[k][n] = source(n, k).
  void (*right_transposed)(const Source& source, int k, int n, void* storage);

  // C[m][n] = A B, or += with accumulate; f32 sums. Writes m rows of n columns rounded up to 16; `c` is 64-byte aligned and
  // `stride` a multiple of 16. Storage for operands is 64-byte aligned.
  void (*multiply)(const Left& left, const void* right, float* c, std::int64_t stride, int m, int n, int k, bool accumulate);

  // Gives back what multiply leaves in the calling thread (AMX keeps its tiles configured); a driver calls it after the last
  // product of a task. Null where there is nothing.
  void (*release)() = nullptr;
};

// The f32 engine of the best instruction set this processor has (or the one a test forced).
const Engine& f32_engine();
// The same for the best of these HWY_* bits.
const Engine& f32_engine_on(std::int64_t targets);
// Engines whose operands are bf16; nullptr where the processor (or, for AMX, the kernel's permission) lacks them.
const Engine* bf16_dot_engine();
const Engine* amx_engine();

}  // namespace dhyan::cpu
