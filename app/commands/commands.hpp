// SPDX-License-Identifier: Apache-2.0
// One function a command: it adds itself to the command line; what it returns to `action` runs once all is parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "failure.hpp"

namespace dhyan::app {

using Action = std::function<Exit()>;

void add_info(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_lab(CLI::App& app, Action& action);

}  // namespace dhyan::app
