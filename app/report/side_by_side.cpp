// SPDX-License-Identifier: Apache-2.0
#include "report/side_by_side.hpp"

#include <algorithm>
#include <map>

namespace dhyan::report {
namespace {

bool same_words(const Text& a, const Text& b) { return a.en == b.en && a.hi == b.hi; }

bool same_heat(const Heat& a, const Heat& b) { return a.rows == b.rows && a.columns == b.columns && a.values == b.values; }

// Whether one block stands for both: the second is then not shown.
bool repeats(const Block& a, const Block& b) {
  if (a.index() != b.index()) return false;
  if (const auto* words = std::get_if<Paragraph>(&a)) return same_words(words->text, std::get<Paragraph>(b).text);
  if (const auto* code = std::get_if<Code>(&a)) return code->text == std::get<Code>(b).text;
  const auto* chart = std::get_if<Chart>(&a);
  if (chart == nullptr || chart->kind != ChartKind::heat) return false;
  const Chart& other = std::get<Chart>(b);
  return other.kind == ChartKind::heat && chart->key == other.key && same_heat(chart->heat, other.heat);
}

// Whether both go into one table or chart.
bool joins(const Block& a, const Block& b) {
  if (a.index() != b.index()) return false;
  if (const auto* table = std::get_if<Table>(&a)) return table->key == std::get<Table>(b).key;
  const auto* chart = std::get_if<Chart>(&a);
  if (chart == nullptr || chart->kind == ChartKind::heat) return false;
  const Chart& other = std::get<Chart>(b);
  return chart->key == other.key && chart->kind == other.kind && chart->unit == other.unit;
}

}  // namespace

Text titles_side_by_side(std::span<const Text> titles) {
  Text joined;
  for (std::size_t i = 0; i < titles.size(); ++i) {
    if (std::find(titles.begin(), titles.begin() + static_cast<std::ptrdiff_t>(i), titles[i]) !=
        titles.begin() + static_cast<std::ptrdiff_t>(i))
      continue;
    const std::string between = i == 0 ? "" : " / ";
    joined.en += between + titles[i].en;
    joined.hi += between + (titles[i].hi.empty() ? titles[i].en : titles[i].hi);
  }
  if (joined.hi == joined.en) joined.hi.clear();
  return joined;
}

std::vector<std::vector<RunStep>> steps_side_by_side(std::span<const Document> documents, std::span<const std::string> names) {
  std::map<int, std::vector<RunStep>> steps;
  for (std::size_t run = 0; run < documents.size(); ++run) {
    for (const Step& step : documents[run].steps) {
      steps[step.number].push_back({&step, documents.size() > 1 ? names[run] : ""});
    }
  }
  std::vector<std::vector<RunStep>> result;
  for (auto& [number, runs] : steps) result.push_back(std::move(runs));
  return result;
}

std::vector<BlockGroup> blocks_side_by_side(std::span<const RunStep> steps) {
  std::vector<BlockGroup> groups;
  for (const RunStep& run : steps) {
    std::size_t next = 0;  // where a block goes that no earlier run has
    for (const Block& block : run.step->blocks) {
      const auto group = std::find_if(groups.begin(), groups.end(), [&](const BlockGroup& g) {
        return g.front().run != run.run && (joins(*g.front().block, block) || repeats(*g.front().block, block));
      });
      if (group == groups.end()) {
        groups.insert(groups.begin() + static_cast<std::ptrdiff_t>(next), BlockGroup{{&block, run.run}});
        ++next;
        continue;
      }
      if (joins(*group->front().block, block)) {
        group->push_back({&block, run.run});
      } else {
        group->front().run.clear();  // true of more than one run
      }
      next = static_cast<std::size_t>(group - groups.begin()) + 1;
    }
  }
  return groups;
}

Table table_side_by_side(std::span<const RunBlock> tables) {
  const Table& first = std::get<Table>(*tables.front().block);
  std::vector<Text> titles;
  for (const RunBlock& run : tables) titles.push_back(std::get<Table>(*run.block).title);
  Table all = {first.key, titles_side_by_side(titles), {{"run", {"Run", "रन"}}}, {}};
  for (const RunBlock& run : tables) {
    for (const Column& column : std::get<Table>(*run.block).columns) {
      const bool known =
          std::any_of(all.columns.begin() + 1, all.columns.end(), [&](const Column& c) { return c.key == column.key; });
      if (!known) all.columns.push_back(column);
    }
  }
  for (const RunBlock& run : tables) {
    const Table& table = std::get<Table>(*run.block);
    for (const std::vector<Cell>& row : table.rows) {
      std::vector<Cell> cells(all.columns.size());
      cells[0].text = run.run;
      for (std::size_t i = 0; i < table.columns.size() && i < row.size(); ++i) {
        const auto at = std::find_if(all.columns.begin() + 1, all.columns.end(),
                                     [&](const Column& c) { return c.key == table.columns[i].key; });
        cells[static_cast<std::size_t>(at - all.columns.begin())] = row[i];
      }
      all.rows.push_back(std::move(cells));
    }
  }
  return all;
}

}  // namespace dhyan::report
