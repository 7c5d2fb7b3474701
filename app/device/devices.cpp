// SPDX-License-Identifier: Apache-2.0
#include "device/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "arguments.hpp"

namespace dhyan::app {
namespace {

// The device's own entry in what the machine says; an empty object where it has none.
nlohmann::json entry_of(const nlohmann::json& machine, Device device) {
  for (const auto& entry : machine.at("devices")) {
    if (entry.at("type") == (on_host(device) ? "cpu" : "cuda") && entry.at("index") == device.index) return entry;
  }
  return nlohmann::json::object();
}

std::string text_of(const nlohmann::json& object, const char* key, const char* otherwise) {
  const std::string text = object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
  return text.empty() ? otherwise : text;
}

}  // namespace

Device default_device() {
  const nlohmann::json machine = nlohmann::json::parse(info());
  for (const auto& found : machine.at("devices")) {
    if (found.at("type") != "cuda") continue;
    const Device device = cuda(found.at("index").get<std::int32_t>());
    if (std::ranges::any_of(implementations, [&](Implementation i) { return !unavailable(i, device); })) return device;
  }
  return cpu;
}

std::string device_name(Device device) { return text_of(entry_of(nlohmann::json::parse(info()), device), "name", "unknown"); }

std::vector<std::pair<std::string, std::string>> facts_of(Device device) {
  const nlohmann::json machine = nlohmann::json::parse(info());
  const nlohmann::json entry = entry_of(machine, device);
  std::vector<std::pair<std::string, std::string>> facts = {{"device", name_of(device)},
                                                            {"device_name", text_of(entry, "name", "unknown")},
                                                            {"memory_bytes", entry.at("memory_bytes").dump()}};
  if (!on_host(device)) {
    facts.emplace_back("compute_capability", text_of(entry, "compute_capability", "unknown"));
    for (const auto& library : machine.at("libraries")) {
      if (library.at("name") == "NVIDIA driver") facts.emplace_back("driver", text_of(library, "version", "unknown"));
    }
  }
  facts.emplace_back("processor", text_of(machine.at("cpu"), "name", "unknown"));
  return facts;
}

std::string name_of(Device device) { return on_host(device) ? "cpu" : fmt::format("cuda:{}", device.index); }

std::string title_of(Device device) { return fmt::format("{}, {}", name_of(device), device_name(device)); }

}  // namespace dhyan::app
