// SPDX-License-Identifier: Apache-2.0
#include "cpu/naive.hpp"

#include <cstdint>
#include <cstdio>
#include <limits>

#include "core/convert.hpp"
#include "cpu/engine.hpp"
#include "cpu/naive_passes.hpp"
#include "cpu/target.hpp"

namespace dhyan::cpu {
namespace {

template <class Real>
class Naive final : public core::Executable {
 public:
  Naive(const core::Problem& problem, const naive::Steps<Real>& steps, std::string description)
      : problem_(problem),
        steps_(steps),
        description_(std::move(description)),
        scratch_bytes_(naive::scratch_bytes(problem_, steps_)) {}

  void run(const core::Buffers& buffers, void* scratch, void*) const override {
    problem_.direction == DHYAN_FORWARD ? naive::forward(problem_, steps_, buffers, scratch)
                                        : naive::backward(problem_, steps_, buffers, scratch);
  }
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string describe() const override { return description_; }

 private:
  core::Problem problem_;
  const naive::Steps<Real>& steps_;
  std::string description_;
  std::size_t scratch_bytes_;
};

std::string unavailable(const dhyan_device_description&) { return target_error(); }

std::optional<std::string> refuse(const core::Problem& p, const dhyan_device_description& device) {
  if (p.dtype != DHYAN_F64 && p.dtype != DHYAN_F32 && p.dtype != DHYAN_F16 && p.dtype != DHYAN_BF16) {
    return std::string("naive computes f64, f32, f16 and bf16, not ") + core::name_of(p.dtype);
  }
  if (p.precision != DHYAN_PRECISION_DEFAULT) return "naive on a CPU computes f32 as f32; precision tf32 needs a CUDA device";
  constexpr std::int64_t longest = std::numeric_limits<std::int32_t>::max();
  if (p.query_length > longest || p.key_length > longest) {
    return "naive takes at most 2147483647 queries and keys; fused takes more";
  }
  constexpr double share = 0.8;
  const double bytes = naive::matrix_bytes(p);
  if (bytes > share * static_cast<double>(device.memory_bytes)) {
    char sentence[320];
    std::snprintf(sentence, sizeof sentence,
                  "naive needs %.0f bytes for its matrices of scores, more than 80 %% of the device's %lld; fused needs none%s",
                  bytes, static_cast<long long>(device.memory_bytes), p.dtype == DHYAN_F64 ? " (in f32, f16 or bf16)" : "");
    return sentence;
  }
  return std::nullopt;
}

std::unique_ptr<core::Executable> plan(const core::Problem& p, const dhyan_device_description&) {
  char text[128];
  const double mebibytes = naive::matrix_bytes(p) / (1 << 20);
  if (p.dtype == DHYAN_F64) {
    std::snprintf(text, sizeof text, "matrix of scores in memory (%.1f MiB), plain loops in f64", mebibytes);
    return std::make_unique<Naive<double>>(p, naive::double_steps, text);
  }
  std::snprintf(text, sizeof text, "matrix of scores in memory (%.1f MiB), f32 on %s", mebibytes, f32_engine().name);
  return std::make_unique<Naive<float>>(p, naive::float_steps, text);
}

}  // namespace

const core::ImplementationEntry naive_entry{DHYAN_NAIVE, "naive", DHYAN_CPU, unavailable, refuse, plan};

}  // namespace dhyan::cpu
