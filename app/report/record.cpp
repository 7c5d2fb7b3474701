// SPDX-License-Identifier: Apache-2.0
#include "report/record.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>

#include "failure.hpp"

namespace dhyan::app {
namespace {

using nlohmann::ordered_json;

ordered_json causal_json(Causal causal) {
  if (causal == Causal::off) return false;
  return causal == Causal::top_left ? "top_left" : "bottom_right";
}

Causal causal_from(const ordered_json& value) {
  if (value == false) return Causal::off;
  if (value == "top_left") return Causal::top_left;
  if (value == "bottom_right") return Causal::bottom_right;
  throw std::invalid_argument("causal is none of false, \"top_left\", \"bottom_right\"");
}

constexpr std::pair<const char*, std::optional<double> Record::*> on_gpus[] = {
    {"device_p10_us", &Record::device_p10_us},
    {"device_p90_us", &Record::device_p90_us},
    {"host_us", &Record::host_us},
    {"gb_per_s", &Record::gb_per_s},
    {"percent_of_matmul", &Record::percent_of_matmul},
    {"percent_of_copy", &Record::percent_of_copy}};

ordered_json or_null(std::optional<double> value) { return value ? ordered_json(*value) : ordered_json(nullptr); }

// Absent from the reports of earlier versions.
std::optional<double> number_or_nothing(const ordered_json& j, const char* key) {
  return j.contains(key) && !j[key].is_null() ? std::optional(j[key].get<double>()) : std::nullopt;
}

ordered_json finite_or_null(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }

Record record_from(const ordered_json& j) {
  Record r;
  r.implementation = j.at("implementation").get<std::string>();
  r.device = j.at("device").get<std::string>();
  r.dtype = j.at("dtype").get<std::string>();
  r.direction = j.at("direction").get<std::string>();
  r.causal = causal_from(j.at("causal"));
  for (const auto& [key, member] : {std::pair{"batch", &Record::batch},
                                    {"query_length", &Record::query_length},
                                    {"key_length", &Record::key_length},
                                    {"query_heads", &Record::query_heads},
                                    {"key_heads", &Record::key_heads},
                                    {"head_dim", &Record::head_dim}}) {
    r.*member = j.at(key).get<std::int64_t>();
  }
  for (const auto& [key, member] : {std::pair{"wall_ms", &Record::wall_ms},
                                    {"tflops", &Record::tflops},
                                    {"p10_ms", &Record::p10_ms},
                                    {"p90_ms", &Record::p90_ms}}) {
    r.*member = j.at(key).get<double>();
  }
  r.device_us = number_or_nothing(j, "device_us");
  for (const auto& [key, member] : on_gpus) r.*member = number_or_nothing(j, key);
  return r;
}

}  // namespace

ordered_json to_json(const Record& r) {
  ordered_json j = {{"implementation", r.implementation},
                    {"device", r.device},
                    {"dtype", r.dtype},
                    {"direction", r.direction},
                    {"causal", causal_json(r.causal)},
                    {"batch", r.batch},
                    {"query_length", r.query_length},
                    {"key_length", r.key_length},
                    {"query_heads", r.query_heads},
                    {"key_heads", r.key_heads},
                    {"head_dim", r.head_dim},
                    {"wall_ms", r.wall_ms},
                    {"device_us", or_null(r.device_us)},
                    {"tflops", r.tflops},
                    {"p10_ms", r.p10_ms},
                    {"p90_ms", r.p90_ms}};
  for (const auto& [key, member] : on_gpus) j[key] = or_null(r.*member);
  if (r.check) {
    j["max_abs_error"] = finite_or_null(r.check->max_abs_error);
    j["relative_error"] = finite_or_null(r.check->relative_error);
    j["ok"] = r.check->ok;
  }
  return j;
}

ordered_json report_json(const std::vector<Record>& records) {
  ordered_json list = ordered_json::array();
  for (const Record& r : records) list.push_back(to_json(r));
  return {{"machine", ordered_json::parse(info())}, {"records", std::move(list)}};
}

std::string to_csv(const std::vector<Record>& records) {
  std::string text;
  for (const Record& r : records) {
    const ordered_json j = to_json(r);
    std::string names, values;
    for (const auto& [key, value] : j.items()) {
      names += (names.empty() ? "" : ",") + key;
      if (!values.empty()) values += ',';
      if (value.is_string()) {
        values += value.get<std::string>();  // none of ours holds a comma or a quote
      } else if (!value.is_null()) {
        values += value.dump();
      }
    }
    if (text.empty()) text = names + "\n";
    text += values + "\n";
  }
  return text;
}

std::vector<Record> load_records(const std::string& file, std::string_view argument) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) refuse("{}: {} cannot be read", argument, file);
  std::vector<Record> records;
  try {
    const ordered_json report = ordered_json::parse(stream);
    for (const ordered_json& j : report.at("records")) records.push_back(record_from(j));
  } catch (const std::exception& error) {
    refuse("{}: {} is not a report of dhyan bench --json: {}", argument, file, error.what());
  }
  return records;
}

bool same_case(const Record& a, const Record& b) {
  return a.implementation == b.implementation && a.device == b.device && a.dtype == b.dtype && a.direction == b.direction &&
         a.causal == b.causal && a.batch == b.batch && a.query_length == b.query_length && a.key_length == b.key_length &&
         a.query_heads == b.query_heads && a.key_heads == b.key_heads && a.head_dim == b.head_dim;
}

std::string milliseconds(double ms) {
  if (ms < 0.1) return fmt::format("{:.2f} µs", ms * 1e3);
  if (ms < 1e4) return fmt::format("{:.{}f} ms", ms, ms < 10 ? 3 : ms < 100 ? 2 : 1);
  return fmt::format("{:.2f} s", ms / 1e3);
}

std::string gflops(double tflops) { return fmt::format("{:.1f}", tflops * 1e3); }

}  // namespace dhyan::app
