// SPDX-License-Identifier: Apache-2.0
#include "measure/properties.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "arguments.hpp"
#include "measure/comparison.hpp"
#include "problem/random_call.hpp"

namespace dhyan::app {
namespace {

enum Property { conversions, plain_loop, forward, backward, repeatable, merging, any_threads, property_count };

constexpr const char* titles[property_count] = {
    "f16 and bf16 survive the way to f64 and back, all 65536 patterns",
    "the reference equals a plain loop",
    "forward: every implementation within its limits of float64",
    "backward: every implementation within its limits of float64",
    "the same bits on a second run",
    "two halves of the keys merge to the whole",
    "the same bits for one thread and for several",  // the last: a GPU has none
};

bool same_bytes(const Array& a, const Array& b) {
  return a.data.size() == b.data.size() && std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0;
}

bool same_results(const Outputs& a, const Outputs& b) {
  const auto x = named(a), y = named(b);
  return std::ranges::equal(x, y, [](const auto& p, const auto& q) { return same_bytes(*p.second, *q.second); });
}

// Forward, and backward if that is asked too.
Outputs run_all(const Call& call, Implementation implementation, bool backward) {
  Outputs outputs = make_outputs(call);
  poison(outputs);
  compute(forward_problem(call, outputs, implementation), false);
  if (backward) compute(backward_problem(call, outputs, implementation), true);
  fetch(outputs);
  return outputs;
}

bool can_run_backward(const Call& call, Implementation implementation) {
  if (!call.grad_out) return false;
  try {
    Plan::backward(backward_problem(call, make_outputs(call), implementation));
    return true;
  } catch (const Error& error) {
    if (error.status() != Status::unsupported) throw;
    return false;
  }
}

// softmax(scale Q Kᵀ) V of one head in the fewest words, to hold the reference against.
std::vector<double> plain_attention(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                                    std::int64_t queries, std::int64_t keys, std::int64_t width) {
  std::vector<double> out(static_cast<std::size_t>(queries * width)), weight(static_cast<std::size_t>(keys));
  for (std::int64_t t = 0; t < queries; ++t) {
    double sum = 0;
    for (std::int64_t s = 0; s < keys; ++s) {
      double score = 0;
      for (std::int64_t h = 0; h < width; ++h) score += q[t * width + h] * k[s * width + h];
      sum += weight[s] = std::exp(score / std::sqrt(static_cast<double>(width)));
    }
    for (std::int64_t s = 0; s < keys; ++s) {
      for (std::int64_t h = 0; h < width; ++h) out[t * width + h] += weight[s] / sum * v[s * width + h];
    }
  }
  return out;
}

void record_limit(PropertyReport& report, const std::string& what, const Difference& difference) {
  ++report.trials;
  report.worst = std::max(report.worst, difference.share);
  if (difference.ok()) return;
  report.failures.push_back(difference.misplaced
                                ? fmt::format("{}: {} values are infinite or NaN where others are expected, or the reverse",
                                              what, difference.misplaced)
                                : fmt::format("{}: {:.3g} times its limit", what, difference.share));
}

void record_exact(PropertyReport& report, const std::string& what, bool holds) {
  ++report.trials;
  if (!holds) report.failures.push_back(what);
}

// Keys [begin, end) of a dense call without options that speak of key positions.
Call keys_of(const Call& call, std::int64_t begin, std::int64_t end) {
  const auto cut = [&](const Array& array) {
    const std::int64_t batch = array.shape[0], length = array.shape[1];
    const std::size_t row = array.data.size() / static_cast<std::size_t>(batch * length);
    Array part(array.element, {batch, end - begin, array.shape[2], array.shape[3]});
    for (std::int64_t b = 0; b < batch; ++b) {
      std::memcpy(part.data.data() + static_cast<std::size_t>(b * (end - begin)) * row,
                  array.data.data() + static_cast<std::size_t>(b * length + begin) * row,
                  static_cast<std::size_t>(end - begin) * row);
    }
    return part;
  };
  Call part;
  part.query = convert_array(call.query, call.element());
  part.key = cut(call.key);
  part.value = cut(call.value);
  place(part, call.device);
  return part;
}

}  // namespace

PropertySuite::PropertySuite(Device device) : device_(device) {
  const int count = on_host(device) ? property_count : any_threads;
  for (int i = 0; i < count; ++i) reports.push_back({titles[i], 0, 0, {}});
}

void PropertySuite::run_fixed() {
  for (const Element element : {Element::f16, Element::bf16}) {
    Array patterns(element, {65536});
    for (std::uint32_t i = 0; i < 65536; ++i) patterns.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i);
    patterns.place(device_);
    const Array wide = convert_array(patterns, Element::f64, device_), back = convert_array(wide, element, device_);
    for (std::uint32_t i = 0; i < 65536; ++i) {
      const bool same = std::isnan(wide.as<double>()[i]) || back.as<std::uint16_t>()[i] == i;
      record_exact(reports[conversions], fmt::format("{} pattern {:#06x}", info_of(element).name, i), same);
    }
  }
}

void PropertySuite::run_random(std::uint64_t seed, std::int64_t index) {
  Random random(seed + 0x9E3779B97F4A7C15 * static_cast<std::uint64_t>(index));
  RandomCall problem = random_call(random, random.chance(0.5));
  Call& call = problem.call;
  place(call, device_);
  const std::string where = fmt::format("problem {} ({})", index, problem.description);

  const ComparedCall compared =
      compare_implementations(call, geometry_of(call), implementations, {0, 1, 1}, std::nullopt, [](const std::string&) {});
  for (const ComparedRow& row : compared.rows) {
    const bool is_forward = row.record.direction == "forward";
    for (const auto& [name, difference] : row.differences) {
      record_limit(reports[is_forward ? forward : backward],
                   fmt::format("{} {} of {}", name_of(row.implementation), name, where), difference);
    }
    if (!row.refusal.empty() || !is_forward || row.implementation == Implementation::reference) continue;
    try_repeating(call, row.implementation, random, fmt::format("{} of {}", name_of(row.implementation), where));
  }
  try_plain_loop(random, where);
  try_merge(random, where);
}

void PropertySuite::try_repeating(Call& call, Implementation implementation, Random& random, const std::string& what) {
  call.deterministic = true;
  if (on_host(device_)) call.threads = 1;
  const bool backward = can_run_backward(call, implementation);
  const Outputs one = run_all(call, implementation, backward);
  record_exact(reports[repeatable], what, same_results(one, run_all(call, implementation, backward)));
  if (on_host(device_)) {
    call.threads = static_cast<std::int32_t>(random.integer(2, 5));
    record_exact(reports[any_threads], fmt::format("{}, {} threads", what, call.threads),
                 same_results(one, run_all(call, implementation, backward)));
  }
  call.threads = 0;
  call.deterministic = false;
}

void PropertySuite::try_plain_loop(Random& random, const std::string& where) {
  const std::int64_t queries = random.integer(1, 20), keys = random.integer(1, 20), width = random.integer(1, 20);
  Call call;
  call.query = random_array(Element::f64, {1, queries, 1, width}, random);
  call.key = random_array(Element::f64, {1, keys, 1, width}, random);
  call.value = random_array(Element::f64, {1, keys, 1, width}, random);
  const Outputs outputs = run_all(call, Implementation::reference, false);
  const std::vector<double> expected =
      plain_attention(doubles_of(call.query), doubles_of(call.key), doubles_of(call.value), queries, keys, width);
  record_limit(reports[plain_loop], where,
               compare(outputs.out, {"out", expected, {}, 0, true}, LimitTable(call, geometry_of(call)).of("out")));
}

void PropertySuite::try_merge(Random& random, const std::string& where) {
  constexpr Element types[] = {Element::f32, Element::bf16, Element::f16};
  const Element element = random.pick(types);
  const std::int64_t keys = random.integer(2, 150), split = random.integer(1, keys - 1);
  Call call;
  call.query = random_array(element, {2, random.integer(1, 40), 2, 32}, random);
  call.key = random_array(element, {2, keys, 2, 32}, random);
  call.value = random_array(element, {2, keys, 2, 32}, random);
  place(call, device_);
  const Outputs first = run_all(keys_of(call, 0, split), Implementation::automatic, false);
  const Outputs second = run_all(keys_of(call, split, keys), Implementation::automatic, false);
  Outputs whole = make_outputs(call);
  const auto view = [&](const Array& array) { return array.view(device_); };
  merge(view(first.out), view(first.lse), view(second.out), view(second.lse), view(whole.out), view(whole.lse));
  fetch(whole);
  const Geometry geometry = geometry_of(call);
  const LimitTable table(call, geometry);
  for (const Expected& expected : forward_oracle(call, geometry).expected) {
    const Array& got = expected.name == "out" ? whole.out : whole.lse;
    Limits limits = table.of(expected.name);
    // The parts were rounded before they were joined.
    limits = {2 * limits.relative, 2 * limits.noise, 2 * limits.peak};
    record_limit(reports[merging], fmt::format("{} of {}, keys {} + {}", expected.name, where, split, keys - split),
                 compare(got, expected, limits));
  }
}

}  // namespace dhyan::app
