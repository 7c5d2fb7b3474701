// SPDX-License-Identifier: Apache-2.0
// Graphs that were built: building one takes up to seconds, whatever plan asks for it.
#include <algorithm>
#include <mutex>
#include <vector>

#include "cudnn/graph.hpp"

namespace dhyan::cudnn {
namespace {

constexpr std::size_t kMaxGraphs = 256;

struct Entry {
  Description description;
  std::uint64_t last_use;
  std::shared_ptr<const Graph> graph;
};
struct Cache {
  std::mutex guard;
  std::vector<Entry> entries;
  std::uint64_t clock = 0;
};

// Never destroyed: threads may still run plans while the process ends.
Cache& cache() {
  static Cache& graphs = *new Cache;
  return graphs;
}

std::shared_ptr<const Graph> find_locked(const Description& description) {
  for (Entry& entry : cache().entries) {
    if (entry.description != description) continue;
    entry.last_use = ++cache().clock;
    return entry.graph;
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const Graph> graph_of(const Description& description) {
  {
    const std::scoped_lock lock(cache().guard);
    if (auto found = find_locked(description)) return found;
  }
  auto graph = std::make_shared<const Graph>(description);
  std::shared_ptr<const Graph> dropped;  // destroyed after the lock is gone
  const std::scoped_lock lock(cache().guard);
  if (auto there = find_locked(description)) return there;  // another thread built it meanwhile
  auto& entries = cache().entries;
  if (entries.size() >= kMaxGraphs) {
    const auto oldest = std::ranges::min_element(entries, {}, &Entry::last_use);
    dropped = std::move(oldest->graph);
    *oldest = std::move(entries.back());
    entries.pop_back();
  }
  entries.push_back({description, ++cache().clock, graph});
  return graph;
}

bool has_graph(const Description& description) {
  const std::scoped_lock lock(cache().guard);
  return find_locked(description) != nullptr;
}

void trim_graphs() {
  std::vector<Entry> dropped;
  const std::scoped_lock lock(cache().guard);
  dropped.swap(cache().entries);
}

}  // namespace dhyan::cudnn
