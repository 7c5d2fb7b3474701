// SPDX-License-Identifier: Apache-2.0
#include "api/preferences.hpp"

#include <limits>

namespace dhyan::api {
namespace {

constexpr double kAny = std::numeric_limits<double>::infinity();

constexpr dhyan_implementation kOursFirst[] = {DHYAN_FUSED, DHYAN_CUDNN, DHYAN_NAIVE};
constexpr dhyan_implementation kCudnnFirst[] = {DHYAN_CUDNN, DHYAN_FUSED, DHYAN_NAIVE};
constexpr dhyan_implementation kNaiveFirst[] = {DHYAN_NAIVE, DHYAN_FUSED, DHYAN_CUDNN};
constexpr dhyan_implementation kOnCpu[] = {DHYAN_FUSED, DHYAN_NAIVE, DHYAN_REFERENCE};

enum class Kind { few_rows, forward, backward };

// The first rule that holds decides. f32 and f64 have none: cuDNN has no such kernels.
struct Rule {
  Kind kind;
  double least, below;  // few_rows: bytes of keys and values; else multiply-adds of both products, masks aside
  std::span<const dhyan_implementation> order;
};

// Other devices take the rules of the nearest measured, of which there is one so far.
constexpr const char* kDevice = "an NVIDIA H200, 2026-12-01";
constexpr Rule kRules[] = {
    {Kind::few_rows, 0, 8e6, kOursFirst},       // B 1, S 512, N 32, K 8, H 128: 7.3 against 7.6 us
    {Kind::few_rows, 8e6, 1.5e8, kCudnnFirst},  // B 1, S 8192: 12.0 against 11.1 us
    {Kind::few_rows, 1.5e8, kAny, kOursFirst},  // equal within 2 %, and nothing to compile
    {Kind::forward, 0, 5e8, kOursFirst},        // B 4, N 8, H 64, T 256: 5.6 against 7.0 us
    {Kind::forward, 5e8, kAny, kCudnnFirst},    // T 512: 14.4 against 9.6 us; 16384: 0.5 to 0.67 of its rate
    {Kind::backward, 0, kAny, kCudnnFirst},     // T 512 and more: 0.4 to 0.98 of its rate; smaller ones were not timed
};

double work(const core::Problem& p, Kind kind) {
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  const double widths = real(p.head_dim) + real(p.value_head_dim);
  if (kind == Kind::few_rows) return 2 * real(p.batch) * real(p.key_heads) * real(p.key_length) * widths;
  return real(p.batch) * real(p.query_heads) * real(p.query_length) * real(p.key_length) * widths;
}

}  // namespace

Preference preference(const core::Problem& p, dhyan_device_type device_type) {
  if (device_type == DHYAN_CPU) return {kOnCpu, nullptr};
  if (p.dtype == DHYAN_F64) return {kNaiveFirst, nullptr};                                   // the only one
  if (p.dtype == DHYAN_F32 && p.direction == DHYAN_BACKWARD) return {kNaiveFirst, nullptr};  // fused was never timed there
  if (p.dtype == DHYAN_F32) return {kOursFirst, kDevice};
  constexpr std::int64_t kFewRows = 16;
  Kind kind = p.group() * p.query_length <= kFewRows ? Kind::few_rows : Kind::forward;
  if (p.direction == DHYAN_BACKWARD) kind = Kind::backward;
  if (kind == Kind::few_rows && p.key_lengths.present()) return {kOursFirst, kDevice};  // cuDNN does not split such keys
  const double amount = work(p, kind);
  for (const Rule& rule : kRules) {
    if (rule.kind == kind && amount >= rule.least && amount < rule.below) return {rule.order, kDevice};
  }
  return {kOursFirst, kDevice};
}

}  // namespace dhyan::api
