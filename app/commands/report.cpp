// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <set>

#include "commands/commands.hpp"
#include "failure.hpp"
#include "io/save.hpp"
#include "report/html.hpp"
#include "report/json.hpp"
#include "report/terminal.hpp"

namespace dhyan::app {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string out = "report.html";
};

bool distinct(const std::vector<std::string>& names) {
  return std::set<std::string>(names.begin(), names.end()).size() == names.size() &&
         std::find(names.begin(), names.end(), "") == names.end();
}

// What tells the runs apart: the names of their files, unless the lab gave them; else of their devices; else of files and, for
// the lab's own name, folders; else numbers do.
std::vector<std::string> names_of(const std::vector<std::string>& files, const std::vector<report::Document>& documents) {
  std::vector<std::string> stems, devices, places;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::error_code error;  // the working folder may be gone
    const std::filesystem::path whole = std::filesystem::absolute(files[i], error);
    const std::filesystem::path path = (error ? std::filesystem::path(files[i]) : whole).lexically_normal();
    const std::string folder = path.parent_path().filename().string();
    stems.push_back(path.filename() == "results.json" ? "" : path.stem().string());
    devices.push_back(documents[i].device_name);
    places.push_back(!stems.back().empty() ? stems.back() : folder.empty() ? "results" : folder);
  }
  for (const auto* names : {&stems, &devices, &places}) {
    if (distinct(*names)) return *names;
  }
  for (std::size_t i = 0; i < places.size(); ++i) places[i] += fmt::format(" ({})", i + 1);
  return places;
}

Exit write_report(const Options& options) {
  if (options.out.empty()) refuse("--out: the name of the page is empty");
  std::vector<report::Document> documents;
  for (const std::string& file : options.files) documents.push_back(report::load_results(file, "results"));
  const std::string page = report::html_page(documents, names_of(options.files, documents));
  try {
    OutputFile out(options.out);
    out.write(page);
    out.commit();
  } catch (const Failure& failure) {
    throw Failure(failure.code(), std::string("--out: ") + failure.what());
  }
  fmt::print("{}\n", printable(options.out));
  if (!report::html_has_charts()) fmt::print("It has tables and no charts: dhyan was built without Vega.\n");
  return exit_ok;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("report", "Make a page of stored results of the lab; several runs stand side by side");
  const auto options = std::make_shared<Options>();
  command->add_option("results", options->files, "results.json of a run, or of several")->required()->type_name("FILE");
  command->add_option("--out", options->out, "The page; it replaces an older one only once it is whole")
      ->type_name("FILE.html")
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  dhyan report lab-report/results.json\n"
      "  dhyan report cpu.json l4.json h200.json --out machines.html    # the same charts, a series per run");
  command->callback([=, &action] { action = [=] { return write_report(*options); }; });
}

}  // namespace dhyan::app
