// SPDX-License-Identifier: Apache-2.0
#include "report/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "report/table.hpp"
#include "report/terminal.hpp"

namespace dhyan::app {

using namespace std::chrono_literals;

Progress::Progress(std::int64_t steps) : steps_(std::max<std::int64_t>(steps, 1)) {
  if (error_is_terminal()) painter_ = std::thread([this] { draw(); });
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  if (painter_.joinable()) painter_.join();
}

void Progress::say(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void Progress::step() {
  const std::lock_guard lock(mutex_);
  ++done_;
}

void Progress::draw() {
  constexpr int width = 30;
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  bool drawn = false;
  for (auto pause = 1000ms; !wake_.wait_for(lock, pause, [this] { return ended_; }); pause = 100ms) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::string filled = bar(static_cast<double>(done_), static_cast<double>(steps_), width);
    const std::string line = fmt::format("\r\033[K▕{}{:{}}▏ {}/{}  {:.0f} s  {}", filled, "",
                                         width - static_cast<int>(display_width(filled)), done_, steps_, seconds, what_);
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
    drawn = true;
  }
  if (drawn) std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

}  // namespace dhyan::app
