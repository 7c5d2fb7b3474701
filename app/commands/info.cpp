// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands/commands.hpp"
#include "dhyan/dhyan.hpp"
#include "report/table.hpp"
#include "report/terminal.hpp"

namespace dhyan::app {
namespace {

using nlohmann::ordered_json;

std::string text_or(const ordered_json& value, const std::string& otherwise) {
  return value.is_string() ? value.get<std::string>() : otherwise;
}

std::string tick(const ordered_json& available) {
  return available.get<bool>() ? painted(Colour::green, "yes") : painted(Colour::yellow, "no");
}

void print_rows(const ordered_json& rows, const std::vector<std::string>& columns) {
  std::vector<Table::Column> titles;
  for (const std::string& column : columns) titles.push_back({column, Align::left});
  Table table(std::move(titles));
  for (const ordered_json& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& column : columns) {
      const ordered_json& value = row.at(column);
      cells.push_back(value.is_boolean() ? tick(value) : value.is_number() ? value.dump() : text_or(value, ""));
    }
    table.add(std::move(cells));
  }
  fmt::print("{}\n", table.text());
}

Exit print_info(bool as_json) {
  const std::string text = info();
  if (as_json) {
    fmt::print("{}\n", text);
    return exit_ok;
  }
  const ordered_json j = ordered_json::parse(text);
  const ordered_json& cpu = j.at("cpu");
  fmt::print("{} {}, compiled by {}\n", painted(Colour::bold, "dhyan"), text_or(j.at("version"), ""),
             text_or(j.at("compiler"), ""));
  fmt::print("{}, {} threads\n", text_or(cpu.at("name"), "unknown processor"), j.at("threads").dump());
  fmt::print("features: {}\n", fmt::join(cpu.at("features").get<std::vector<std::string>>(), " "));
  if (cpu.contains("error")) fmt::print("{}\n", painted(Colour::red, text_or(cpu["error"], "")));
  fmt::print("\nInstruction sets\n");
  print_rows(cpu.at("targets"), {"name", "available", "reason"});
  Table devices(
      {{"device"}, {"name"}, {"memory", Align::right}, {"threads", Align::right}, {"compute capability"}, {"reason"}});
  for (const ordered_json& d : j.at("devices")) {
    devices.add({fmt::format("{}:{}", text_or(d.at("type"), ""), d.at("index").dump()), text_or(d.at("name"), ""),
                 fmt::format("{:.1f} GiB", d.at("memory_bytes").get<double>() / (1 << 30)),
                 d.value("threads", 0) > 0 ? d.at("threads").dump() : "", d.value("compute_capability", ""),
                 d.contains("reason") ? text_or(d["reason"], "") : ""});
  }
  fmt::print("Devices\n{}\n", devices.text());
  fmt::print("Implementations\n");
  print_rows(j.at("implementations"), {"name", "device", "available", "reason"});
  fmt::print("Libraries\n");
  print_rows(j.at("libraries"), {"name", "available", "version", "path", "reason"});
  return exit_ok;
}

}  // namespace

void add_info(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("info", "What this build and this machine offer");
  const auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  dhyan info\n"
      "  dhyan info --json | python3 -m json.tool");
  command->callback([=, &action] { action = [=] { return print_info(*as_json); }; });
}

}  // namespace dhyan::app
