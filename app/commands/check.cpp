// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <memory>
#include <random>

#include "arguments.hpp"
#include "commands/commands.hpp"
#include "measure/properties.hpp"
#include "report/progress.hpp"
#include "report/record.hpp"
#include "report/table.hpp"
#include "report/terminal.hpp"

namespace dhyan::app {
namespace {

struct CheckOptions {
  std::string seconds, seed, only, device = "auto";
  bool json = false;
};

std::uint64_t fresh_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) >> 16;  // short enough to type
}

void print_report(const PropertySuite& suite, Device device, std::uint64_t seed, std::int64_t problems, double seconds,
                  bool ok) {
  Table table({{"property"}, {"checks", Align::right}, {"nearest to limit", Align::right}, {"holds"}});
  for (const PropertyReport& r : suite.reports) {
    table.add({r.name, std::to_string(r.trials), r.worst > 0 ? fmt::format("{:.0f} %", r.worst * 100) : "",
               r.trials == 0        ? painted(Colour::yellow, "not tried")
               : r.failures.empty() ? painted(Colour::green, "yes")
                                    : painted(Colour::red, fmt::format("NO, {} times", r.failures.size()))});
  }
  fmt::print("{}\n{} random problems in {:.1f} s, seed {}\n\n{}\n", printable(title_of(device)), problems, seconds, seed,
             table.text());
  fmt::print("{}\n", ok ? painted(Colour::green, "All hold: this build computes attention rightly on this machine.")
                        : painted(Colour::red, "Something is wrong with this build on this machine."));
}

Exit check(const CheckOptions& options) {
  using Clock = std::chrono::steady_clock;
  if (!options.only.empty() && !options.seconds.empty())
    refuse("--seconds: it does nothing with --only, which runs one problem");
  constexpr double default_seconds = 20;
  const double seconds =
      options.seconds.empty()
          ? default_seconds
          : parse_number(
                "--seconds", options.seconds, [](double s) { return s > 0 && s <= 3600; }, "a number above 0, at most 3600");
  const std::uint64_t seed = options.seed.empty() ? fresh_seed() : parse_seed("--seed", options.seed);
  if (!options.only.empty() && options.seed.empty()) refuse("--only: it needs --seed; a number means a problem of one seed");
  const std::int64_t first = options.only.empty() ? 0 : parse_integer("--only", options.only, 0, INT64_MAX - 1);

  const Device device = parse_device("--device", options.device);
  PropertySuite suite(device);
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::int64_t problems = 0;
  {
    constexpr std::int64_t steps = 100;
    Progress progress(steps);
    suite.run_fixed();
    for (std::int64_t done = 0; problems == 0 || (options.only.empty() && elapsed() < seconds); ++problems) {
      progress.say(fmt::format("problem {}", problems));
      suite.run_random(seed, first + problems);
      for (; done < std::min<std::int64_t>(steps, static_cast<std::int64_t>(elapsed() / seconds * steps)); ++done)
        progress.step();
    }
  }
  const bool ok = std::ranges::all_of(suite.reports, [](const PropertyReport& r) { return r.failures.empty(); });

  if (options.json) {
    nlohmann::ordered_json properties = nlohmann::ordered_json::array();
    for (const PropertyReport& r : suite.reports) {
      properties.push_back({{"property", r.name}, {"checks", r.trials}, {"share_of_limit", r.worst}, {"failures", r.failures}});
    }
    const nlohmann::ordered_json report = {{"machine", nlohmann::ordered_json::parse(info())},
                                           {"device", name_of(device)},
                                           {"seed", seed},
                                           {"problems", problems},
                                           {"seconds", elapsed()},
                                           {"properties", properties},
                                           {"ok", ok}};
    fmt::print("{}\n", report.dump(2));
  } else {
    print_report(suite, device, seed, problems, elapsed(), ok);
  }
  constexpr std::size_t most_shown = 10;
  for (const PropertyReport& r : suite.reports) {
    for (std::size_t i = 0; i < std::min(most_shown, r.failures.size()); ++i) {
      fmt::print(stderr, "dhyan: {}: {}\n", r.name, r.failures[i]);
    }
    if (r.failures.size() > most_shown) fmt::print(stderr, "dhyan: {}: {} more\n", r.name, r.failures.size() - most_shown);
  }
  if (!ok) fmt::print(stderr, "dhyan: `dhyan check --seed {} --only NUMBER` runs one of these problems again\n", seed);
  return ok ? exit_ok : exit_check_failed;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("check", "Whether this build computes rightly on this machine, by random problems");
  const auto options = std::make_shared<CheckOptions>();
  command->add_option("--seconds", options->seconds, "How long to go on, default 20")->type_name("X");
  command->add_option("--seed", options->seed, "Seed of the problems; default: another one each time")->type_name("N");
  command->add_option("--only", options->only, "Run this problem of --seed alone")->type_name("NUMBER");
  command->add_option("--device", options->device, std::string(device_help))->type_name("DEVICE")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  dhyan check\n"
      "  dhyan check --seconds 50\n"
      "  dhyan check --device cpu\n"
      "  dhyan check --seed 7 --only 123");
  command->callback([=, &action] { action = [=] { return check(*options); }; });
}

}  // namespace dhyan::app
