// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace dhyan::app {

// A bar on standard error: on a terminal only, and only when the work lasts over a second. It leaves no trace.
class Progress {
 public:
  explicit Progress(std::int64_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is being done now.
  void say(std::string what);
  // One step more is done.
  void step();

 private:
  void draw();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::int64_t steps_, done_ = 0;
  std::string what_;
  bool ended_ = false;
  std::thread painter_;
};

}  // namespace dhyan::app
