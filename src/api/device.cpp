// SPDX-License-Identifier: Apache-2.0
#include "api/device.hpp"

#include <sys/sysinfo.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>

#include "api/abi.hpp"
#include "api/tensor.hpp"
#include "core/parallel.hpp"
#include "cuda/device.hpp"

namespace dhyan::api {
namespace {

// A control group's limit, or the most there can be: the file may be missing, or say "max".
std::int64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t bytes = 0;
  return file >> bytes && bytes > 0 ? bytes : INT64_MAX;
}

// The tightest memory limit of this process's control groups, version 1 or 2, from its own up to the root.
std::int64_t control_group_limit() {
  std::int64_t limit = INT64_MAX;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && ("," + controllers + ",").find(",memory,") == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string leaf = unified ? "/memory.max" : "/memory.limit_in_bytes";
    for (std::string path = line.substr(second + 1);;) {
      if (path == "/") path.clear();
      limit = std::min(limit, limit_in(std::string(root).append(path).append(leaf)));
      if (path.empty() || path[0] != '/') break;
      path.erase(path.rfind('/'));
    }
  }
  return limit;
}

std::int64_t memory_bytes() {
  struct sysinfo info;
  std::int64_t total = INT64_MAX;
  if (sysinfo(&info) == 0) total = static_cast<std::int64_t>(info.totalram) * info.mem_unit;
  return std::min(total, control_group_limit());
}

}  // namespace

dhyan_device_description describe_device(dhyan_device_type type, std::int32_t index) {
  if (type == DHYAN_CUDA) {
    if (const std::string reason = cuda::refusal(index); !reason.empty()) {
      throw core::Error(DHYAN_UNSUPPORTED, "device: " + device_text(type, index) + ", " + reason);
    }
    dhyan_device_description description = defaults<dhyan_device_description>();
    description.device_type = DHYAN_CUDA;
    description.device_index = index;
    const cuda::Device& gpu = cuda::devices()[static_cast<std::size_t>(index)];
    description.memory_bytes = gpu.memory_bytes;
    description.compute_major = gpu.major;
    description.compute_minor = gpu.minor;
    description.multiprocessors = gpu.multiprocessors;
    description.threads = 1;
    return description;
  }
  if (type != DHYAN_CPU) {
    throw core::Error(DHYAN_INVALID_ARGUMENT, "device: type " + std::to_string(type) + ", it must be DHYAN_CPU or DHYAN_CUDA");
  }
  if (index != 0) {
    throw core::Error(DHYAN_UNSUPPORTED, "device: cpu:" + std::to_string(index) + ", the CPU has index 0 only");
  }
  static const std::int64_t memory = memory_bytes();
  dhyan_device_description description = defaults<dhyan_device_description>();
  description.device_type = DHYAN_CPU;
  description.memory_bytes = memory;
  description.threads = core::hardware_threads();
  return description;
}

dhyan_device_description device_of(const dhyan_problem* problem) {
  const dhyan_problem p = read(problem, "problem");
  if (p.query == nullptr) return describe_device(DHYAN_CPU, 0);  // validation says what is missing
  const dhyan_tensor query = read(p.query, "query", offsetof(dhyan_tensor, alignment));
  check_device(query, "query");
  return describe_device(query.device_type, query.device_index);
}

dhyan_device_description device_or_default(const dhyan_device_description* device, const dhyan_problem* problem) {
  if (device == nullptr) return device_of(problem);
  dhyan_device_description d = read(device, "device", offsetof(dhyan_device_description, compute_major));
  const dhyan_device_description own = describe_device(d.device_type, d.device_index);
  const auto refuse = [](const char* member, std::int64_t value, const char* rule) {
    throw core::Error(DHYAN_INVALID_ARGUMENT, std::string("device: ") + member + " " + std::to_string(value) + ", " + rule);
  };
  if (d.memory_bytes <= 0) refuse("memory_bytes", d.memory_bytes, "it must be positive");
  if (d.threads < 1 || d.threads > 1024) refuse("threads", d.threads, "it must be 1 to 1024");
  if (d.reserved != 0) refuse("reserved", d.reserved, "it must be 0");
  if (d.reserved_too != 0) refuse("reserved_too", d.reserved_too, "it must be 0");
  if (d.compute_major < 0) refuse("compute_major", d.compute_major, "it must not be negative");
  if (d.compute_minor < 0) refuse("compute_minor", d.compute_minor, "it must not be negative");
  if (d.multiprocessors < 0) refuse("multiprocessors", d.multiprocessors, "it must not be negative");
  if (d.compute_major == 0 && d.compute_minor == 0) {
    d.compute_major = own.compute_major;
    d.compute_minor = own.compute_minor;
  }
  if (d.multiprocessors == 0) d.multiprocessors = own.multiprocessors;
  return d;
}

}  // namespace dhyan::api
