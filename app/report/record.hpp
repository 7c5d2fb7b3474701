// SPDX-License-Identifier: Apache-2.0
// One measured call, as JSON and CSV hold it. Keys are added, never renamed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dhyan/dhyan.hpp"

namespace dhyan::app {

struct Record {
  std::string implementation;
  std::string device = "cpu";
  std::string dtype;
  std::string direction;  // forward, backward
  Causal causal = Causal::off;
  std::int64_t batch = 0;
  std::int64_t query_length = 0;
  std::int64_t key_length = 0;
  std::int64_t query_heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_dim = 0;
  double wall_ms = 0;  // median, of a call and the wait for its result; p10 and p90 below
  std::optional<double> device_us;
  double tflops = 0;  // by device_us where there is one, else by wall_ms
  double p10_ms = 0;
  double p90_ms = 0;
  // Of calls timed on a GPU: medians and spread in microseconds, inputs read and outputs written once per second, and the
  // percentage of what the device reached in the same run.
  std::optional<double> device_p10_us, device_p90_us, host_us, gb_per_s, percent_of_matmul, percent_of_copy;

  // Where results were compared; an error that is no number (other infinities or NaN than expected) is null.
  struct Check {
    double max_abs_error = 0;
    double relative_error = 0;
    bool ok = false;
  };
  std::optional<Check> check;
};

nlohmann::ordered_json to_json(const Record& record);
// {"machine": {…}, "records": […]}
nlohmann::ordered_json report_json(const std::vector<Record>& records);
std::string to_csv(const std::vector<Record>& records);

// The records of a stored report; `file` names it in messages.
std::vector<Record> load_records(const std::string& file, std::string_view argument);
// Whether two records measure the same call.
bool same_case(const Record& a, const Record& b);

// "1.23 ms" and the like, with three or four digits.
std::string milliseconds(double ms);
std::string gflops(double tflops);

}  // namespace dhyan::app
