// SPDX-License-Identifier: Apache-2.0
// The one way this library uses threads.
#pragma once

#include <cstdint>
#include <functional>

namespace dhyan::core {

// Calls body(task, worker) for every task of [0, tasks), worker in [0, threads); tasks are claimed in ascending order, each
// worker runs one at a time. One thread or one task runs in the caller without touching the pool. An exception ends the loop
// and is rethrown here.
void parallel_for(std::int64_t tasks, int threads, const std::function<void(std::int64_t task, int worker)>& body);

// Threads this process may run on (its affinity mask, and DHYAN_THREADS when set).
int hardware_threads();

}  // namespace dhyan::core
