// SPDX-License-Identifier: Apache-2.0
// Several runs as one: steps with the same number, and in them blocks that show the same thing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/document.hpp"

namespace dhyan::report {

// The name is empty where there is one run only.
struct RunStep {
  const Step* step = nullptr;
  std::string run;
};

// The same block of one or more runs: tables or charts of one key, or words that differ from those of other runs.
struct RunBlock {
  const Block* block = nullptr;
  std::string run;
};
using BlockGroup = std::vector<RunBlock>;

// Titles that name a device differ between runs: each once, "… on cpu / … on cuda:0".
Text titles_side_by_side(std::span<const Text> titles);
// By rising number; within a step in the order of the runs.
std::vector<std::vector<RunStep>> steps_side_by_side(std::span<const Document> documents, std::span<const std::string> names);
// In the order of the first run; what only a later run has follows what it follows there.
std::vector<BlockGroup> blocks_side_by_side(std::span<const RunStep> steps);
// One table with the columns of all, and a first column with the name of the run.
Table table_side_by_side(std::span<const RunBlock> tables);

}  // namespace dhyan::report
