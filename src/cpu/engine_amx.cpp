// SPDX-License-Identifier: Apache-2.0
// Products of bf16 tiles by AMX: one TDPBF16PS adds a 16 x 32 by 32 x 16 product to 16 x 16 sums. Two by two tiles of sums
// share two tiles of each operand.
#include "cpu/bf16_pack.hpp"
#include "cpu/engine.hpp"
#include "cpu/target.hpp"

#define DHYAN_TARGET_AMX __attribute__((target("avx512f,amx-tile,amx-bf16")))

namespace dhyan::cpu {
namespace {

using bf16::Form;

constexpr int kTile = 16;   // rows of a tile, and its columns of f32 or of pairs
constexpr int kDepth = 32;  // bf16 elements of a tile's row
constexpr int kTileBytes = 1024;
constexpr int kTilePairs = kDepth / 2;

int tiles_of(int n) { return (n + kTile - 1) / kTile; }
int depth_tiles_of(int k) { return (k + kDepth - 1) / kDepth; }

std::size_t left_bytes(int m, int k) { return static_cast<std::size_t>(m * bf16::padded_row(k) * 2); }

std::size_t right_bytes(int k, int n) {
  return static_cast<std::size_t>(std::int64_t{tiles_of(n)} * depth_tiles_of(k) * kTileBytes);
}

// A Left is rows of bf16; its row stride is in bytes.
Left left(const Source& source, int m, int k, void* storage) {
  const Form form = bf16::form_of(source);
  const bool whole_lines = reinterpret_cast<std::uintptr_t>(source.data) % 64 == 0 && source.stride % kDepth == 0;
  if (form == Form::bf16 && k % kDepth == 0 && whole_lines) return {source.data, source.stride * 2, 64};
  bf16::kPackRows[static_cast<int>(form)](source, m, k, storage);
  return {storage, bf16::padded_row(k) * 2, 64};
}

// A[m][k] = source(k, m): pairs of source rows are interleaved, then 16 x 16 of them transposed.
template <Form F>
DHYAN_TARGET_BF16 void pack_rows_transposed(const Source& source, int m, int k, void* storage) {
  const __m512 factor = _mm512_set1_ps(source.factor);
  const std::int64_t row_vectors = bf16::padded_row(k) / 32;
  auto* out = static_cast<__m512i*>(storage);
  for (int row = 0; row < m; row += 2 * kTile) {
    for (int i = 0; i < k; i += kDepth) {
      __m512i low[kTilePairs], high[kTilePairs];
      for (int pair = 0; pair < kTilePairs; ++pair) {
        __m512i rows[2];
        for (int half = 0; half < 2; ++half) {
          const int depth = i + 2 * pair + half;
          rows[half] =
              depth < k ? bf16::load32<F>(bf16::element<F>(source, depth, row), m - row, factor) : _mm512_setzero_si512();
        }
        bf16::interleave(rows[0], rows[1], low[pair], high[pair]);
      }
      bf16::transpose(low);
      bf16::transpose(high);
      __m512i* const at = out + row * row_vectors + i / kDepth;
      for (int r = 0; r < std::min(kTile, m - row); ++r) _mm512_store_si512(at + r * row_vectors, low[r]);
      for (int r = 0; r < std::min(kTile, m - row - kTile); ++r) {
        _mm512_store_si512(at + (kTile + r) * row_vectors, high[r]);
      }
    }
  }
}

constexpr bf16::PackRows kPackRowsTransposed[bf16::kForms] = {pack_rows_transposed<Form::bf16>,
                                                              pack_rows_transposed<Form::scaled_bf16>,
                                                              pack_rows_transposed<Form::f16>, pack_rows_transposed<Form::f32>};

Left left_transposed(const Source& source, int m, int k, void* storage) {
  kPackRowsTransposed[static_cast<int>(bf16::form_of(source))](source, m, k, storage);
  return {storage, bf16::padded_row(k) * 2, 64};
}

// Panels of one vector whose pairs fill whole tiles: each tile is 1 KiB in one piece.
void right(const Source& source, int k, int n, void* storage) {
  bf16::kPack[static_cast<int>(bf16::form_of(source))](source, k, n, depth_tiles_of(k) * kTilePairs, 1, storage);
}

void right_transposed(const Source& source, int k, int n, void* storage) {
  bf16::kPackTransposed[static_cast<int>(bf16::form_of(source))](source, k, n, depth_tiles_of(k) * kTilePairs, 1, storage);
}

// The operand of LDTILECFG. Tiles 0-3 are sums (2 * row + column), 4 and 5 rows of A, 6 and 7 columns of B.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

constexpr TileConfig config_of(int first, int second) {
  TileConfig config;
  for (const int tile : {0, 1, 4}) config.rows[tile] = static_cast<std::uint8_t>(first);
  for (const int tile : {2, 3, 5}) config.rows[tile] = static_cast<std::uint8_t>(second);
  for (const int tile : {6, 7}) config.rows[tile] = kTile;
  return config;
}

// Loading a configuration takes some 200 cycles and storing one 20: a thread's tiles are left as the last product had them, and
// looked at, not trusted, by the next. The instructions are written out because GCC 12's intrinsics tell the compiler of 8 of
// the 64 bytes.
DHYAN_TARGET_AMX void configure(const TileConfig& config) {
  TileConfig now;
  __asm__ volatile("sttilecfg %0" : "=m"(now));
  const __mmask16 differs = _mm512_cmpneq_epi32_mask(_mm512_load_si512(&now), _mm512_load_si512(&config));
  if (differs) __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

DHYAN_TARGET_AMX void release() { _tile_release(); }

struct Operands {
  const std::byte* a;
  std::int64_t row_bytes;
  const std::byte* b;
  std::int64_t column_bytes;  // from one column of B's tiles to the next
  float* c;
  std::int64_t stride_bytes;
  int depth_tiles;
  bool accumulate;
};

template <bool kTwoRows, bool kTwoColumns>
DHYAN_TARGET_AMX void block(const Operands& o) {
  float* const right_c = o.c + kTile;
  auto* const lower_c = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(o.c) + kTile * o.stride_bytes);
  float* const corner_c = lower_c + kTile;
  if (o.accumulate) {
    _tile_loadd(0, o.c, o.stride_bytes);
    if constexpr (kTwoColumns) _tile_loadd(1, right_c, o.stride_bytes);
    if constexpr (kTwoRows) _tile_loadd(2, lower_c, o.stride_bytes);
    if constexpr (kTwoRows && kTwoColumns) _tile_loadd(3, corner_c, o.stride_bytes);
  } else {
    _tile_zero(0);
    if constexpr (kTwoColumns) _tile_zero(1);
    if constexpr (kTwoRows) _tile_zero(2);
    if constexpr (kTwoRows && kTwoColumns) _tile_zero(3);
  }
  const std::byte* a = o.a;
  const std::byte* b = o.b;
  for (int i = 0; i < o.depth_tiles; ++i, a += 64, b += kTileBytes) {
    _tile_loadd(4, a, o.row_bytes);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kTwoColumns) {
      _tile_loadd(7, b + o.column_bytes, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kTwoRows) {
      _tile_loadd(5, a + kTile * o.row_bytes, o.row_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kTwoColumns) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, o.c, o.stride_bytes);
  if constexpr (kTwoColumns) _tile_stored(1, right_c, o.stride_bytes);
  if constexpr (kTwoRows) _tile_stored(2, lower_c, o.stride_bytes);
  if constexpr (kTwoRows && kTwoColumns) _tile_stored(3, corner_c, o.stride_bytes);
}

// All columns of `pairs` pairs of row tiles; with two_rows false, of one row tile.
void multiply_rows(Operands o, int row_pairs, bool two_rows, int columns) {
  using Block = void (*)(const Operands&);
  constexpr Block kBlocks[2][2] = {{block<false, false>, block<false, true>}, {block<true, false>, block<true, true>}};
  const std::byte* const a = o.a;
  float* const c = o.c;
  for (int column = 0; column < columns; column += 2) {
    const Block run = kBlocks[two_rows][column + 1 < columns];
    o.a = a;
    o.c = c + column * kTile;
    for (int i = 0; i < row_pairs; ++i) {
      run(o);
      o.a += 2 * kTile * o.row_bytes;
      o.c += 2 * kTile * o.stride_bytes / static_cast<std::int64_t>(sizeof(float));
    }
    o.b += 2 * o.column_bytes;
  }
}

void multiply(const Left& left, const void* right, float* c, std::int64_t stride, int m, int n, int k, bool accumulate) {
  __asm__ volatile("" : : : "memory");  // the tile intrinsics do not say that they read memory
  const int depth_tiles = depth_tiles_of(k);
  const int pairs = m / (2 * kTile);
  const int rest = m % (2 * kTile);
  Operands o{static_cast<const std::byte*>(left.data),
             left.row_stride,
             static_cast<const std::byte*>(right),
             std::int64_t{depth_tiles} * kTileBytes,
             c,
             stride * static_cast<std::int64_t>(sizeof(float)),
             depth_tiles,
             accumulate};
  static constexpr TileConfig kFull = config_of(kTile, kTile);
  if (pairs > 0) {
    configure(kFull);
    multiply_rows(o, pairs, true, tiles_of(n));
  }
  if (rest > 0) {
    const bool two_rows = rest > kTile;
    configure(config_of(std::min(rest, kTile), two_rows ? rest - kTile : kTile));
    o.a += std::int64_t{2} * kTile * pairs * left.row_stride;
    o.c += std::int64_t{2} * kTile * pairs * stride;
    multiply_rows(o, 1, two_rows, tiles_of(n));
  }
}

constexpr Engine kEngine = {
    .name = "amx_bf16",
    .operand = DHYAN_BF16,
    .rows = 2 * kTile,
    .columns = 2 * kTile,
    .depth = kDepth,
    .left_bytes = left_bytes,
    .right_bytes = right_bytes,
    .left = left,
    .left_transposed = left_transposed,
    .right = right,
    .right_transposed = right_transposed,
    .multiply = multiply,
    .release = release,
};

}  // namespace

const Engine* amx_engine() { return has_amx_bf16() ? &kEngine : nullptr; }

}  // namespace dhyan::cpu
