// SPDX-License-Identifier: Apache-2.0
#include "api/info.hpp"

#include <hwy/targets.h>

#include <nlohmann/json.hpp>

#include "api/choose.hpp"
#include "api/device.hpp"
#include "core/loaded_file.hpp"
#include "core/parallel.hpp"
#include "cpu/target.hpp"
#include "cuda/device.hpp"

#ifndef DHYAN_STD_THREADS
#include <tbb/version.h>
#endif

namespace dhyan::api {
namespace {

using Json = nlohmann::ordered_json;

// null rather than an empty text.
Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json row_of(const cuda::Library& library) {
  return {{"name", library.name},
          {"available", library.reason.empty()},
          {"version", text_or_null(library.version)},
          {"path", text_or_null(library.path)},
          {"reason", text_or_null(library.reason)}};
}

Json libraries() {
  Json all = Json::array();
#ifdef DHYAN_STD_THREADS
  all.push_back(row_of({"oneTBB", "", "", "not built: threads are std::thread"}));
#else
  all.push_back(
      row_of({"oneTBB", TBB_runtime_version(), core::loaded_file_of(reinterpret_cast<const void*>(&TBB_runtime_version)), ""}));
#endif
  all.push_back(row_of(
      {"Highway", DHYAN_HIGHWAY_VERSION, core::loaded_file_of(reinterpret_cast<const void*>(&hwy::SupportedTargets)), ""}));
  for (const cuda::Library& library : cuda::libraries()) all.push_back(row_of(library));
  return all;
}

#ifdef __clang__
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "g++ " __VERSION__;
#endif

Json features() {
  struct Feature {
    const char* name;
    int supported;
  };
  const Feature all[] = {
      {"sse4.2", __builtin_cpu_supports("sse4.2")},
      {"avx", __builtin_cpu_supports("avx")},
      {"avx2", __builtin_cpu_supports("avx2")},
      {"fma", __builtin_cpu_supports("fma")},
      {"avx512f", __builtin_cpu_supports("avx512f")},
      {"avx512bw", __builtin_cpu_supports("avx512bw")},
      {"avx512dq", __builtin_cpu_supports("avx512dq")},
      {"avx512vl", __builtin_cpu_supports("avx512vl")},
      {"avx512vnni", __builtin_cpu_supports("avx512vnni")},
      {"avx512bf16", __builtin_cpu_supports("avx512bf16")},
  };
  Json names = Json::array();
  for (const Feature& feature : all) {
    if (feature.supported) names.push_back(feature.name);
  }
  return names;
}

Json targets() {
  Json rows = Json::array();
  for (const cpu::TargetRow& row : cpu::target_rows()) {
    rows.push_back({{"name", row.name}, {"available", row.available}, {"reason", text_or_null(row.reason)}});
  }
  return rows;
}

// Why no GPU of this machine can run it; empty when the first usable one can.
std::string unavailable_on_gpus(const core::ImplementationEntry& entry) {
  std::string reason = cuda::unavailable();
  for (const cuda::Device& gpu : cuda::devices()) {
    reason = cuda::refusal(gpu.index);
    if (reason.empty()) return entry.unavailable(describe_device(DHYAN_CUDA, gpu.index));
  }
  return reason;
}

}  // namespace

std::string info() {
  const dhyan_device_description device = describe_device(DHYAN_CPU, 0);
  Json info;
  info["version"] = dhyan_version();
  info["compiler"] = kCompiler;
  const cpu::Processor& processor = cpu::processor();
  info["cpu"] = {{"name", processor.name},
                 {"features", features()},
                 {"targets", targets()},
                 {"l2_bytes", processor.l2_bytes},
                 {"l3_bytes", processor.l3_bytes}};
  if (const std::string& error = cpu::target_error(); !error.empty()) info["cpu"]["error"] = error;
  info["threads"] = core::hardware_threads();
  info["devices"] = Json::array({{{"type", "cpu"},
                                  {"index", 0},
                                  {"name", processor.name},
                                  {"memory_bytes", device.memory_bytes},
                                  {"threads", device.threads}}});
  for (const cuda::Device& gpu : cuda::devices()) {
    info["devices"].push_back({{"type", "cuda"},
                               {"index", gpu.index},
                               {"name", gpu.name},
                               {"memory_bytes", gpu.memory_bytes},
                               {"compute_capability", std::to_string(gpu.major) + "." + std::to_string(gpu.minor)},
                               {"multiprocessors", gpu.multiprocessors},
                               {"reason", text_or_null(cuda::refusal(gpu.index))}});
  }
  info["implementations"] = Json::array();
  for (const core::ImplementationEntry* entry : implementations()) {
    const bool on_cpu = entry->device_type == DHYAN_CPU;
    const std::string reason = on_cpu ? entry->unavailable(device) : unavailable_on_gpus(*entry);
    info["implementations"].push_back({{"name", entry->name},
                                       {"device", on_cpu ? "cpu" : "cuda"},
                                       {"available", reason.empty()},
                                       {"reason", text_or_null(reason)}});
  }
  info["libraries"] = libraries();
  return info.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dhyan::api
