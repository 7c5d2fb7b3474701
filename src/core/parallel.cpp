// SPDX-License-Identifier: Apache-2.0
#include "core/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#ifndef DHYAN_STD_THREADS
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#endif

namespace dhyan::core {
namespace {

// Runs work(worker) for every worker; which threads serve them is the only thing that differs between the two builds.
template <class Work>
void on_workers(int workers, const Work& work) {
#ifdef DHYAN_STD_THREADS
  std::vector<std::thread> pool;
  pool.reserve(static_cast<std::size_t>(workers - 1));
  for (int w = 1; w < workers; ++w) pool.emplace_back([&work, w] { work(w); });
  work(0);
  for (auto& thread : pool) thread.join();
#else
  // In the caller's own arena, which outlives the call: making one costs tens of microseconds. As many iterations as workers
  // bound the threads; isolation keeps the caller from picking up a task of somebody else's while it waits.
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        0, workers, [&](int w) { work(w); }, tbb::simple_partitioner{});
  });
#endif
}

}  // namespace

void parallel_for(std::int64_t tasks, int threads, const std::function<void(std::int64_t task, int worker)>& body) {
  const int workers = static_cast<int>(std::min<std::int64_t>(threads, tasks));
  if (workers <= 1) {
    for (std::int64_t task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_guard;
  on_workers(workers, [&](int worker) {
    try {
      for (std::int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) body(task, worker);
    } catch (...) {
      next.store(tasks, std::memory_order_relaxed);
      const std::scoped_lock lock(failure_guard);
      if (!failure) failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

int hardware_threads() {
  static const int threads = [] {
    if (const char* text = std::getenv("DHYAN_THREADS")) {
      const int asked = std::atoi(text);
      if (asked > 0) return std::min(asked, 1024);
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 1024);
  }();
  return threads;
}

}  // namespace dhyan::core
