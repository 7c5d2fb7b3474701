// SPDX-License-Identifier: Apache-2.0
// A graph of cuDNN's with its plan, compiled for one device. No cuDNN type stands here.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "cudnn/description.hpp"

namespace dhyan::cudnn {

// What a run binds, in the order of cuDNN's unique identifiers.
enum Slot : std::size_t {
  kQuery,
  kKey,
  kValue,
  kOut,
  kStats,
  kBias,
  kSink,
  kQueryLengths,  // int32 [batch]
  kKeyLengths,
  kGradOut,
  kGradQuery,
  kGradKey,
  kGradValue,
  kGradBias,
  kGradSink,
  // Ragged: where each sequence begins in elements of the tensor, int64 [batch + 1].
  kQueryOffsets,
  kKeyOffsets,
  kValueOffsets,
  kOutOffsets,
  kGradOutOffsets,
  kGradQueryOffsets,
  kGradKeyOffsets,
  kGradValueOffsets,
  kSlots
};
using Pointers = std::array<void*, kSlots>;

// Immutable and safe to run from many threads.
class Graph {
 public:
  // Builds and compiles, which takes up to seconds. Throws Error.
  explicit Graph(const Description& description);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // The engine that cuDNN chose.
  const std::string& plan() const { return plan_; }
  // Launches on a stream of the description's device, which is current.
  void run(const Pointers& pointers, void* workspace, void* stream) const;

 private:
  struct Built;
  std::unique_ptr<const Built> built_;
  std::size_t workspace_bytes_ = 0;
  std::string plan_;
};

// Why cuDNN has no plan for the description, found out without compiling it; empty when it has one.
std::string unsupported(const Description& description);
// The same for a device that need not be here, described by the JSON text that cuDNN knows it by.
std::string unsupported_on(const std::string& device, const Description& description);
// The graph of the description, built or from the cache of those built before.
std::shared_ptr<const Graph> graph_of(const Description& description);
// Whether it was built before.
bool has_graph(const Description& description);
// Forgets all that no plan holds.
void trim_graphs();

}  // namespace dhyan::cudnn
