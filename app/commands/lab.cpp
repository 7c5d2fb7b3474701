// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <memory>
#include <set>

#include "arguments.hpp"
#include "commands/commands.hpp"
#include "io/load.hpp"
#include "io/save.hpp"
#include "lab/run.hpp"
#include "lab/steps.hpp"
#include "report/console.hpp"
#include "report/folder.hpp"
#include "report/terminal.hpp"
#include "signals.hpp"

namespace dhyan::app {
namespace {

struct LabOptions {
  std::string device = "auto", steps, repeats, max_seq, out = "lab-report", query, key, value;
  bool quick = false;
};

volatile std::sig_atomic_t stop_asked = 0;

// The first time the lab stops between two calls and writes what it has; the second time it leaves at once. A terminal that is
// gone cannot be told.
void ask_to_stop(int) {
  if (stop_asked) {
    remove_temporary_files();
    _exit(exit_interrupted);
  }
  stop_asked = 1;
  constexpr char sentence[] = "\r\033[Kdhyan: stopping after the call at hand; interrupt again to leave without a report\n";
  constexpr std::size_t escape = 4;  // not for a file or a pipe
  const std::size_t from = isatty(STDERR_FILENO) ? 0 : escape;
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, sentence + from, sizeof sentence - 1 - from);
  errno = error;
}

// Where the reader of a pipe has left, the run goes on for its report; main() says at the end that this failed.
void show(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int parse_step(const std::string& text) {
  const int last = lab::steps().back().number;
  if (text.empty() || text.size() > 2 || !std::ranges::all_of(text, [](unsigned char c) { return c >= '0' && c <= '9'; }) ||
      std::stoi(text) > last) {
    refuse("--steps: {} is no step of the lab; there are 0 to {}, as in 0-6,9", shown(text), last);
  }
  return std::stoi(text);
}

std::vector<int> parse_steps(const std::string& text) {
  std::set<int> chosen;
  if (text.empty()) {
    for (const lab::StepEntry& step : lab::steps()) chosen.insert(step.number);
    return {chosen.begin(), chosen.end()};
  }
  for (const std::string& part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    const int first = parse_step(part.substr(0, dash));
    const int last = dash == std::string::npos ? first : parse_step(part.substr(dash + 1));
    if (first > last) refuse("--steps: the range {} ends before it begins", shown(part));
    for (int number = first; number <= last; ++number) chosen.insert(number);
  }
  return {chosen.begin(), chosen.end()};
}

std::optional<lab::Inputs> load_inputs(const LabOptions& options) {
  const std::pair<const char*, const std::string&> files[] = {
      {"--query", options.query}, {"--key", options.key}, {"--value", options.value}};
  const auto given = std::ranges::count_if(files, [](const auto& f) { return !f.second.empty(); });
  if (given == 0) return std::nullopt;
  for (const auto& [argument, file] : files) {
    if (file.empty()) refuse("{}: it is missing; --query, --key and --value go together", argument);
  }
  lab::Inputs inputs{load_array(options.query, "--query"), load_array(options.key, "--key"),
                     load_array(options.value, "--value")};
  const std::pair<const char*, const Array*> arrays[] = {
      {"--query", &inputs.query}, {"--key", &inputs.key}, {"--value", &inputs.value}};
  for (const auto& [argument, array] : arrays) {
    if (!is_floating(array->element)) {
      refuse("{}: it holds {}; it must hold f64, f32, f16 or bf16", argument, info_of(array->element).name);
    }
    if (array->shape.size() != 4) {
      refuse("{}: its shape is {}; the lab needs 4 dimensions, (B, T, N, H)", argument, shape_text(array->shape));
    }
    if (array->count() == 0)
      refuse("{}: its shape is {}; the lab needs at least one element", argument, shape_text(array->shape));
  }
  // The library's own words for shapes and types that do not go together.
  Call call;
  call.query = std::move(inputs.query);
  call.key = std::move(inputs.key);
  call.value = std::move(inputs.value);
  const Outputs outputs = make_outputs(call);
  Plan::forward(forward_problem(call, outputs, Implementation::automatic));
  return lab::Inputs{std::move(call.query), std::move(call.key), std::move(call.value)};
}

lab::Settings settings_from(const LabOptions& options) {
  constexpr std::int64_t most_repeats = 10'000, shortest = 64, longest = 16384;
  lab::Settings settings;
  settings.device = parse_device("--device", options.device);
  settings.steps = parse_steps(options.steps);
  settings.quick = options.quick;
  if (!options.repeats.empty()) {
    settings.repeats = static_cast<int>(parse_integer("--repeats", options.repeats, 1, most_repeats));
  }
  if (!options.max_seq.empty()) settings.max_seq = parse_integer("--max-seq", options.max_seq, shortest, longest);
  settings.given = load_inputs(options);
  return settings;
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

report::Document head_of(const LabOptions& options, const lab::Settings& settings) {
  report::Document document;
  document.created = utc_now();
  document.version = dhyan_version();
  document.device = name_of(settings.device);
  document.device_name = device_name(settings.device);
  document.machine = nlohmann::ordered_json::parse(info());
  if (const auto& processor = document.machine.at("cpu"); processor.contains("error")) {
    refuse("{}", processor["error"].get<std::string>());  // an unknown DHYAN_CPU_TARGET, say: no step could run
  }
  document.settings = {{"device", options.device}, {"steps", options.steps.empty() ? "all" : options.steps}};
  // These change what runs as much as any option.
  for (const char* name : {"DHYAN_CPU_TARGET", "DHYAN_AMX", "DHYAN_THREADS"}) {
    if (const char* value = std::getenv(name)) document.settings.emplace_back(name, value);
  }
  if (options.quick) document.settings.emplace_back("quick", "yes");
  for (const auto& [name, text] : {std::pair{"repeats", options.repeats},
                                   {"max_seq", options.max_seq},
                                   {"query", options.query},
                                   {"key", options.key},
                                   {"value", options.value}}) {
    if (!text.empty()) document.settings.emplace_back(name, text);
  }
  return document;
}

// Codelab tables are made for 80 columns; a wider terminal gives charts no more than this.
int lab_width() {
  constexpr int usual = 80, widest = 120;
  return isatty(STDOUT_FILENO) ? std::min(terminal_width(), widest) : usual;
}

Exit run_lab(const LabOptions& options) {
  const lab::Settings settings = settings_from(options);
  const report::Folder folder(options.out, "--out");
  report::Document document = head_of(options, settings);
  handle(SIGINT, ask_to_stop);
  handle(SIGTERM, ask_to_stop);
  if (!is_ignored(SIGHUP)) handle(SIGHUP, ask_to_stop);
  std::signal(SIGPIPE, SIG_IGN);
  const int width = lab_width();
  lab::run_steps(
      settings, document, [&](const report::Step& step) { show(report::console_text(step, width) + "\n"); },
      [] { return stop_asked != 0; });
  const std::string where = folder.write(document);
  const report::Tally tally = report::tally_of(document);
  show(fmt::format("{}\n{:.1f} s; the report: {}/report.html\n", report::verdict_of(document).en, document.seconds,
                   printable(where)));
  if (!document.complete) return exit_interrupted;
  return tally.failed > 0 ? exit_check_failed : exit_ok;
}

}  // namespace

void add_lab(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("lab", "Attention step by step on this machine: checks, timings, a report");
  const auto o = std::make_shared<LabOptions>();
  const auto filled = [](const std::string& text) { return std::string(text.empty() ? "it is empty" : ""); };
  command->add_option("--device", o->device, std::string(device_help))->type_name("DEVICE")->capture_default_str();
  command->add_option("--steps", o->steps, "Only these steps, as in 0-6,9; default all")->type_name("LIST")->check(filled);
  command->add_flag("--quick", o->quick, "Smaller sweeps and fewer repeats");
  command->add_option("--repeats", o->repeats, "Timed calls a row, up to 10000; default 50 or 20, as the step says")
      ->type_name("N")
      ->check(filled);
  command
      ->add_option("--max-seq", o->max_seq, "Longest sequence of the sweep in step 7, 64 to 16384; default 1024, on a GPU 4096")
      ->type_name("N")
      ->check(filled);
  command->add_option("--out", o->out, "Folder of the report")->type_name("DIR")->capture_default_str();
  command->add_option("--query", o->query, "Your own queries (B, T, N, H), with --key and --value")
      ->type_name("F")
      ->check(filled);
  command->add_option("--key", o->key, "Your own keys (B, S, K, H)")->type_name("F")->check(filled);
  command->add_option("--value", o->value, "Your own values (B, S, K, H)")->type_name("F")->check(filled);
  command->footer(
      "F is file.npy, file.npz:name or file.safetensors:name. DIR receives report.html, results.json and tables/*.csv.\n\n"
      "Examples:\n"
      "  dhyan lab\n"
      "  dhyan lab --quick --steps 0-6 --out first-look\n"
      "  dhyan lab --max-seq 8192\n"
      "  dhyan lab --query x.safetensors:query --key x.safetensors:key --value x.safetensors:value");
  command->callback([=, &action] {
    action = [=] {
      for (const CLI::Option* option : command->get_options()) {
        if (!option->empty() && option->results().front().empty()) refuse("{}: its value is empty", option->get_name());
      }
      return run_lab(*o);
    };
  });
}

}  // namespace dhyan::app
