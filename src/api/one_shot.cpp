// SPDX-License-Identifier: Apache-2.0
#include "api/one_shot.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "api/device.hpp"
#include "api/plan.hpp"

namespace dhyan::api {
namespace {

using SharedPlan = std::shared_ptr<const dhyan_plan>;

// Mixes what most often tells problems apart; equality has the last word.
std::uint64_t hash_of(const core::Problem& p) {
  std::uint64_t hash = 0xCBF29CE484222325;
  const auto mix = [&](std::uint64_t x) {
    hash = (hash ^ x) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  };
  mix(static_cast<std::uint64_t>(p.direction) << 32 | static_cast<std::uint64_t>(p.requested) << 16 |
      static_cast<std::uint64_t>(p.dtype) << 8 | static_cast<std::uint64_t>(p.device_type) << 48 |
      static_cast<std::uint64_t>(p.device_index) << 40 | static_cast<std::uint64_t>(p.causal));
  for (const std::int64_t x : {p.batch, p.query_length, p.key_length, p.query_tokens, p.key_tokens, p.query_heads, p.key_heads,
                               p.head_dim, p.value_head_dim, p.window_left, p.window_right, p.query_origin, p.key_origin,
                               p.query.strides[1], p.key.strides[1], p.out.strides[1]}) {
    mix(static_cast<std::uint64_t>(x));
  }
  mix(p.dropout.key);
  return hash;
}

// The least recently used plan goes when a new one comes. A few dozen entries: a scan is faster than any tree.
class PlanCache {
 public:
  SharedPlan find(std::uint64_t hash, const core::Problem& problem, const std::array<Layout, kSlots>& layouts) {
    const std::scoped_lock lock(guard_);
    return find_locked(hash, problem, layouts);
  }

  // Two threads may make the same plan at once; the first one stays.
  SharedPlan insert(std::uint64_t hash, SharedPlan plan) {
    SharedPlan dropped;  // destroyed after the lock is gone
    const std::scoped_lock lock(guard_);
    ++made_;
    if (SharedPlan there = find_locked(hash, plan->problem, plan->layouts)) return there;
    if (entries_.size() >= kMaxCachedPlans) {
      const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                           [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; });
      dropped = std::move(oldest->plan);
      *oldest = std::move(entries_.back());
      entries_.pop_back();
    }
    entries_.push_back({hash, ++clock_, plan});
    return plan;
  }

  void clear() {
    std::vector<Entry> dropped;
    const std::scoped_lock lock(guard_);
    dropped.swap(entries_);
  }

  std::size_t size() {
    const std::scoped_lock lock(guard_);
    return entries_.size();
  }
  std::size_t made() {
    const std::scoped_lock lock(guard_);
    return made_;
  }

 private:
  struct Entry {
    std::uint64_t hash;
    std::uint64_t last_use;
    SharedPlan plan;
  };

  // Layouts too: a problem does not tell a mask without elements from one that broadcasts.
  SharedPlan find_locked(std::uint64_t hash, const core::Problem& problem, const std::array<Layout, kSlots>& layouts) {
    for (Entry& entry : entries_) {
      if (entry.hash != hash || entry.plan->problem != problem || entry.plan->layouts != layouts) continue;
      entry.last_use = ++clock_;
      return entry.plan;
    }
    return nullptr;
  }

  std::mutex guard_;
  std::vector<Entry> entries_;
  std::uint64_t clock_ = 0;
  std::size_t made_ = 0;
};

// Never destroyed: threads may still call while the process ends.
PlanCache& cache() {
  static PlanCache& plans = *new PlanCache;
  return plans;
}

}  // namespace

void run_once(const dhyan_problem* problem, dhyan_direction direction, void* stream) {
  const dhyan_device_description device = device_of(problem);
  const Validated validated = validate(problem, direction, device, true);
  const std::uint64_t hash = hash_of(validated.problem);
  SharedPlan plan = cache().find(hash, validated.problem, validated.layouts);
  if (plan == nullptr) plan = cache().insert(hash, make_plan(validated, device, true));
  run_plan(*plan, buffers_of(validated.pointers), nullptr, 0, stream, true);
}

void trim_plans() { cache().clear(); }
std::size_t cached_plans() { return cache().size(); }
std::size_t made_plans() { return cache().made(); }

}  // namespace dhyan::api
