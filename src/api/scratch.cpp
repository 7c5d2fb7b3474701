// SPDX-License-Identifier: Apache-2.0
#include "api/scratch.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace dhyan::api {
namespace {

struct Block {
  void* data;
  std::size_t size;
};

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kGranule = std::size_t{4} << 10;
constexpr std::size_t kMaxKeptBytes = std::size_t{256} << 20;  // a larger matrix of weights is not worth holding on to
constexpr std::size_t kMaxKeptBlocks = 64;

struct Cache {
  std::mutex guard;
  std::vector<Block> blocks;  // the last one given back comes last
  std::size_t bytes = 0;
};

// Never destroyed: threads may still run plans while the process ends.
Cache& cache() {
  static Cache& kept = *new Cache;
  return kept;
}

Block allocate(std::size_t bytes) {
  const bool large = bytes >= 2 * kHugePage;
  const std::size_t unit = large ? kHugePage : kGranule;
  if (bytes > SIZE_MAX / 2)
    throw core::Error(DHYAN_OUT_OF_MEMORY, "scratch: " + std::to_string(bytes) + " bytes, out of memory");
  const std::size_t size = (bytes + unit - 1) / unit * unit;
  void* data = std::aligned_alloc(large ? kHugePage : kScratchAlignment, size);
  if (data == nullptr) throw core::Error(DHYAN_OUT_OF_MEMORY, "scratch: " + std::to_string(bytes) + " bytes, out of memory");
  if (large) madvise(data, size, MADV_HUGEPAGE);  // fewer TLB misses where the kernel grants it
  return {data, size};
}

}  // namespace

Scratch::Scratch(std::size_t bytes) {
  if (bytes == 0) return;
  {
    Cache& c = cache();
    const std::scoped_lock lock(c.guard);
    auto best = c.blocks.end();
    for (auto block = c.blocks.begin(); block != c.blocks.end(); ++block) {
      if (block->size >= bytes && (best == c.blocks.end() || block->size <= best->size)) best = block;
    }
    if (best != c.blocks.end()) {
      data_ = best->data;
      size_ = best->size;
      c.bytes -= best->size;
      c.blocks.erase(best);
      return;
    }
  }
  const Block block = allocate(bytes);
  data_ = block.data;
  size_ = block.size;
}

Scratch::~Scratch() {
  if (data_ == nullptr) return;
  std::vector<Block> dropped;
  {
    Cache& c = cache();
    const std::scoped_lock lock(c.guard);
    if (size_ > kMaxKeptBytes) {
      dropped.push_back({data_, size_});
    } else {
      while (!c.blocks.empty() && (c.blocks.size() >= kMaxKeptBlocks || c.bytes + size_ > kMaxKeptBytes)) {
        dropped.push_back(c.blocks.front());
        c.bytes -= c.blocks.front().size;
        c.blocks.erase(c.blocks.begin());
      }
      c.blocks.push_back({data_, size_});
      c.bytes += size_;
    }
  }
  for (const Block& block : dropped) std::free(block.data);
}

void trim_scratch() {
  std::vector<Block> dropped;
  {
    Cache& c = cache();
    const std::scoped_lock lock(c.guard);
    dropped.swap(c.blocks);
    c.bytes = 0;
  }
  for (const Block& block : dropped) std::free(block.data);
}

std::size_t kept_scratch_bytes() {
  const std::scoped_lock lock(cache().guard);
  return cache().bytes;
}

}  // namespace dhyan::api
