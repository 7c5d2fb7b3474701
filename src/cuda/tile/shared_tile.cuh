// SPDX-License-Identifier: Apache-2.0
// Tiles of 16-bit elements in shared memory: rows of kColumns elements, 16-byte chunks exchanged within a row so that the same
// chunk of eight consecutive rows lies in eight different groups of banks.
#pragma once

#include <cstdint>

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/shared.cuh"

namespace dhyan::cuda::tile {

inline constexpr int kChunk = 8;  // elements of 16 bits in 16 bytes
inline constexpr int kChunkBytes = 16;

template <int kColumns>
struct SharedTile {
  static_assert(kColumns % 64 == 0, "eight chunks to exchange");
  static constexpr int kPitch = kColumns * 2;  // bytes of a row
  static constexpr int bytes(int rows) { return rows * kPitch; }

  // Of a chunk, from the tile's start. Rows a multiple of 8 apart, and chunks that differ in a bit, keep one another's pattern:
  // offset(row + 8 i, chunk ^ c) == (offset(row, chunk) ^ 16 c) + 8 i kPitch.
  __device__ __forceinline__ static std::uint32_t offset(int row, int chunk) {
    return static_cast<std::uint32_t>(row * kPitch + ((chunk ^ (row & 7)) * kChunkBytes));
  }
};

// Where a lane's ldmatrix address lies for a 16x16 block at the tile's first row and chunk. `Left` operands and transposed
// right ones have their rows first, then the second 8 columns; right operands stored by column have columns first.
template <int kColumns>
__device__ __forceinline__ std::uint32_t rows_first(int lane) {
  return SharedTile<kColumns>::offset(lane % 16, lane / 16);
}
template <int kColumns>
__device__ __forceinline__ std::uint32_t columns_first(int lane) {
  return SharedTile<kColumns>::offset(lane / 16 * 8 + lane % 8, lane / 8 % 2);
}

// Rows in global memory that become a tile.
template <class T>
struct GlobalRows {
  const T* first;
  std::int64_t stride;  // elements
  int count;            // rows there are; the tile's others become 0
  int width;            // elements of a row; the tile's other columns become 0
};

// One block's threads copy kRows rows by cp.async; the caller commits. Rows are aligned to 16 bytes.
template <int kRows, int kColumns, int kThreads, class T>
__device__ __forceinline__ void load_tile(std::uint32_t tile, const GlobalRows<T>& rows, int thread) {
  constexpr int kChunks = kColumns / kChunk;
  static_assert(kThreads % kChunks == 0 && kRows * kChunks % kThreads == 0);
  constexpr int kStep = kThreads / kChunks;  // rows between a thread's chunks
  const int chunk = thread % kChunks;
  const int row = thread / kChunks;
  const int left = (rows.width - chunk * kChunk) * 2;
  const int whole = left < 0 ? 0 : (left > kChunkBytes ? kChunkBytes : left);
  const T* from = rows.first + row * rows.stride + chunk * kChunk;
  if (rows.count >= kRows && rows.width == kColumns) {  // no predicates, one address
    const std::uint32_t to = tile + SharedTile<kColumns>::offset(row, chunk);
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i) {
      ptx::cp_async((to ^ (i * kStep % 8 * kChunkBytes)) + i * kStep * SharedTile<kColumns>::kPitch, from);
      from += kStep * rows.stride;
    }
    return;
  }
#pragma unroll 4
  for (int i = 0; i < kRows / kStep; ++i) {
    const int bytes = row + i * kStep < rows.count ? whole : 0;
    ptx::cp_async(tile + SharedTile<kColumns>::offset(row + i * kStep, chunk), bytes > 0 ? from : rows.first, bytes);
    from += kStep * rows.stride;
  }
}

// The first `count` elements of a chunk, the rest 0, by loads of one element.
template <class T>
__device__ __forceinline__ uint4 chunk_by_element(const T* from, int count) {
  std::uint32_t pairs[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const auto bits = [&](int k) { return k < count ? std::uint32_t{reinterpret_cast<const std::uint16_t*>(from)[k]} : 0u; };
    pairs[j] = bits(2 * j) | bits(2 * j + 1) << 16;
  }
  return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

// The same as load_tile for rows aligned to their elements only; done when it returns (for this thread's part).
template <int kRows, int kColumns, int kThreads, class T>
__device__ __forceinline__ void load_tile_by_element(std::uint32_t tile, const GlobalRows<T>& rows, int thread) {
  constexpr int kChunks = kColumns / kChunk;
  for (int i = thread; i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const T* from = rows.first + row * rows.stride + chunk * kChunk;
    const int count = row < rows.count ? rows.width - chunk * kChunk : 0;
    ptx::store_shared(tile + SharedTile<kColumns>::offset(row, chunk), chunk_by_element(from, count));
  }
}

}  // namespace dhyan::cuda::tile
