// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <functional>

#include "arguments.hpp"
#include "lab/show.hpp"
#include "lab/steps.hpp"

namespace dhyan::lab {
namespace {

using nlohmann::ordered_json;

std::string device_line(const ordered_json& device) {
  return fmt::format("{}:{} {}", device.at("type").get<std::string>(), device.at("index").dump(),
                     device.at("name").is_string() ? device["name"].get<std::string>() : "without a name");
}

// What the machine says of a GPU; its memory is said elsewhere.
void add_gpu(const ordered_json& machine, std::int32_t index, const std::function<void(std::string, std::string)>& add) {
  for (const ordered_json& device : machine.at("devices")) {
    if (device.at("type") != "cuda" || device.at("index") != index) continue;
    add("GPU", device.at("name").get<std::string>());
    add("Compute capability", device.at("compute_capability").get<std::string>());
    add("Multiprocessors", device.at("multiprocessors").dump());
  }
  for (const ordered_json& library : machine.at("libraries")) {
    const auto name = library.at("name").get<std::string>();
    if (name != "NVIDIA driver" && name != "CUDA runtime" && name != "cuBLASLt" && name != "cuDNN") continue;
    const bool there = library.at("available").get<bool>();
    const ordered_json& said = library.at(there ? "version" : "reason");
    add(name,
        fmt::format("{}{}", there ? "" : "not available: ", said.is_string() ? said.get<std::string>() : "version unknown"));
  }
}

void run(Lab& lab, report::Step& step) {
  const ordered_json machine = ordered_json::parse(info());
  const ordered_json& processor = machine.at("cpu");
  report::Table table{.key = "01_environment",
                      .title = {"Environment", "परिवेश"},
                      .columns = {{"item", {"Item", "मद"}}, {"value", {"Value", "मान"}}},
                      .rows = {}};
  const auto add = [&](std::string item, std::string value) {
    table.rows.push_back({word(std::move(item)), word(std::move(value))});
  };
  std::vector<std::string> devices;
  for (const ordered_json& d : machine.at("devices")) devices.push_back(device_line(d));
  const std::string in_use = app::name_of(lab.settings().device);
  add("dhyan", machine.at("version").get<std::string>());
  add("Compiler", machine.at("compiler").get<std::string>());
  add("Default device", app::name_of(app::default_device()));
  add("Devices", fmt::format("{}", fmt::join(devices, "; ")));
  add("Device in use", in_use);
  if (lab.on_gpu()) add_gpu(machine, lab.settings().device.index, add);
  add("Processor", processor.at("name").is_string() ? processor["name"].get<std::string>() : "unknown");
  add("CPU features", fmt::format("{}", fmt::join(processor.at("features").get<std::vector<std::string>>(), " ")));
  std::vector<std::string> targets;
  for (const ordered_json& target : processor.at("targets")) {
    if (target.at("available").get<bool>()) targets.push_back(target.at("name").get<std::string>());
  }
  add("Kernels for", fmt::format("{}", fmt::join(targets, " ")));
  add("Threads", machine.at("threads").dump());
  for (const Device device : lab.on_gpu() ? std::vector{cpu, lab.settings().device} : std::vector{cpu}) {
    add(fmt::format("Memory of {}", app::name_of(device)), bytes(static_cast<double>(describe(device).memory_bytes)).text);
  }
  for (const Implementation implementation : app::implementations) {
    const auto reason = unavailable(implementation, lab.settings().device);
    add(std::string(app::name_of(implementation)), reason ? "not available: " + *reason : "available");
  }
  step.blocks.emplace_back(std::move(table));
  const auto& list = machine.at("devices");
  const auto found = std::find_if(list.begin(), list.end(), [&](const ordered_json& d) {
    return device_line(d).starts_with(in_use == "cpu" ? "cpu:" : in_use + " ");
  });
  const std::string expected = found != list.end() ? in_use : fmt::format("one of {}", fmt::join(devices, "; "));
  add_check(step, "01_device", {"The device in use is one of those found", "प्रयुक्त डिवाइस उपलब्ध डिवाइसों में है"}, word(in_use), "=",
            word(expected), found != list.end());
}

}  // namespace

StepEntry environment() {
  return {1,
          {"Environment", "परिवेश"},
          {"Which library, which machine, and which ways of computing attention it offers. Numbers from another machine mean "
           "little without these lines, so they stand at the top of the report too.",
           "कौन-सी लाइब्रेरी, कौन-सी मशीन, और उस पर अटेंशन की गणना के कौन-से तरीक़े उपलब्ध हैं। इन पंक्तियों के बिना किसी दूसरी मशीन के आँकड़ों का "
           "अर्थ नहीं निकलता; इसलिए ये रिपोर्ट के आरंभ में भी दी गई हैं।"},
          {},
          run};
}

}  // namespace dhyan::lab
