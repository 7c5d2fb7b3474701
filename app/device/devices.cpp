// SPDX-License-Identifier: Apache-2.0
#include "device/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "arguments.hpp"

namespace dhyan::app {

Device default_device() {
  const nlohmann::json machine = nlohmann::json::parse(info());
  for (const auto& found : machine.at("devices")) {
    if (found.at("type") != "cuda") continue;
    const Device device = cuda(found.at("index").get<std::int32_t>());
    if (std::ranges::any_of(implementations, [&](Implementation i) { return !unavailable(i, device); })) return device;
  }
  return cpu;
}

std::string device_name(Device device) {
  const nlohmann::json machine = nlohmann::json::parse(info());
  for (const auto& found : machine.at("devices")) {
    const bool same = found.at("type") == (on_host(device) ? "cpu" : "cuda") && found.at("index") == device.index;
    if (same && found.at("name").is_string() && found["name"] != "") return found["name"].get<std::string>();
  }
  return "unknown";
}

std::string name_of(Device device) { return on_host(device) ? "cpu" : fmt::format("cuda:{}", device.index); }

std::string title_of(Device device) { return fmt::format("{}, {}", name_of(device), device_name(device)); }

}  // namespace dhyan::app
