// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "arguments.hpp"
#include "commands/commands.hpp"
#include "device/rates.hpp"
#include "device/stopwatch.hpp"
#include "measure/comparison.hpp"
#include "measure/statistics.hpp"
#include "problem/random.hpp"
#include "report/progress.hpp"
#include "report/table.hpp"
#include "report/terminal.hpp"

namespace dhyan::app {
namespace {

struct BenchOptions {
  std::string batch = "1", seq = "128:2048:x2", key_seq, heads = "8", key_heads, head_dim = "64", dtype = "f32", causal = "off",
              implementation, threads, warmup = "2", repeats = "20", seconds = "2", device = "auto", baseline;
  bool backward = false, flush = false, csv = false, json = false;
};

struct Case {
  std::int64_t batch, query_length, key_length, query_heads, key_heads, head_dim;
  Element dtype;
  Causal causal;
};

struct Grid {
  std::vector<Case> cases;
  std::vector<Implementation> implementations;
  bool chosen = false;  // implementations were named
  Repeats repeats;
  std::int32_t threads = 0;
  Device device = cpu;
  Cache cache = Cache::as_it_is;
};

std::vector<Causal> parse_causals(const std::string& text) {
  std::vector<Causal> result;
  for (const std::string& part : split(text, ',')) {
    if (part == "both") {
      result.insert(result.end(), {Causal::off, Causal::top_left});
    } else if (part == "off" || part == "top-left" || part == "bottom-right") {
      result.push_back(parse_causal("--causal", part));
    } else {
      refuse("--causal: {} is none of off, top-left, bottom-right, both", shown(part));
    }
  }
  return result;
}

Grid parse_grid(const BenchOptions& o) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  constexpr std::int64_t most_heads = 1 << 16, widest_head = 512, most_repeats = 1'000'000, most_threads = 4096;
  constexpr std::size_t most_cases = 10'000;
  Grid grid;
  grid.device = parse_device("--device", o.device);
  grid.repeats.warmup = static_cast<int>(parse_integer("--warmup", o.warmup, 0, most_repeats));
  grid.repeats.repeats = static_cast<int>(parse_integer("--repeats", o.repeats, 1, most_repeats));
  grid.repeats.most_seconds = parse_number(
      "--seconds", o.seconds, [](double s) { return s > 0; }, "a number above 0");
  if (o.flush && on_host(grid.device)) refuse("--flush: it is of GPUs; the device is {}", title_of(grid.device));
  if (o.flush) grid.cache = Cache::flushed;
  if (!on_host(grid.device) && !o.threads.empty()) {
    refuse("--threads: it is of the CPU; the device is {}", title_of(grid.device));
  }
  if (!o.threads.empty()) grid.threads = static_cast<std::int32_t>(parse_integer("--threads", o.threads, 1, most_threads));
  grid.chosen = !o.implementation.empty() && o.implementation != "all";
  if (grid.chosen) {
    for (const std::string& name : split(o.implementation, ',')) {
      grid.implementations.push_back(parse_implementation("--implementation", name));
      if (grid.implementations.back() == Implementation::reference && !on_host(grid.device)) {
        refuse("--implementation: reference computes on the CPU, the device is {}; give --device cpu", title_of(grid.device));
      }
    }
  } else {
    std::ranges::copy_if(implementations, std::back_inserter(grid.implementations),
                         [&](Implementation i) { return !unavailable(i, grid.device).has_value(); });
  }

  const auto axis = [](std::string_view argument, const std::string& text, std::int64_t highest) {
    return parse_axis(argument, text, 1, highest);
  };
  // An axis left out follows another one: marked 0 here.
  const std::vector<std::int64_t> follow = {0};
  const auto key_lengths = o.key_seq.empty() ? follow : axis("--key-seq", o.key_seq, most);
  const auto key_heads = o.key_heads.empty() ? follow : axis("--key-heads", o.key_heads, most_heads);
  std::vector<Element> dtypes;
  for (const std::string& part : split(o.dtype, ',')) dtypes.push_back(parse_dtype("--dtype", part));
  const auto causals = parse_causals(o.causal);
  for (const Element dtype : dtypes)
    for (const Causal causal : causals)
      for (const std::int64_t head_dim : axis("--head-dim", o.head_dim, widest_head))
        for (const std::int64_t heads : axis("--heads", o.heads, most_heads))
          for (const std::int64_t shared : key_heads)
            for (const std::int64_t batch : axis("--batch", o.batch, most))
              for (const std::int64_t length : axis("--seq", o.seq, most))
                for (const std::int64_t key_length : key_lengths) {
                  const std::int64_t k = shared ? shared : heads;
                  if (heads % k != 0) {
                    refuse("--key-heads: {} does not divide --heads {}; every key head serves as many query heads", k, heads);
                  }
                  if (grid.cases.size() == most_cases) refuse("--seq: the axes make over {} cases", most_cases);
                  grid.cases.push_back({batch, length, key_length ? key_length : length, heads, k, head_dim, dtype, causal});
                }
  return grid;
}

void check_memory(const Case& c, bool backward, Device device) {
  const double queries = static_cast<double>(c.batch) * static_cast<double>(c.query_length) *
                         static_cast<double>(c.query_heads) * static_cast<double>(c.head_dim);
  const double keys = static_cast<double>(c.batch) * static_cast<double>(c.key_length) * static_cast<double>(c.key_heads) *
                      static_cast<double>(c.head_dim);
  // Query and out, key and value; backward the gradients of all four; and one f32 copy while they are made.
  const double bytes =
      (2 * queries + 2 * keys) * static_cast<double>(info_of(c.dtype).size) * (backward ? 2 : 1) + std::max(queries, keys) * 4;
  for (const Device place : {cpu, device}) {  // a GPU's tensors have mirrors on the host
    const double memory = static_cast<double>(describe(place).memory_bytes);
    if (bytes > 0.8 * memory) {
      fail("batch {} × length {} × {} heads × {} needs {:.1f} GiB; {} has {:.1f} GiB", c.batch, c.query_length, c.query_heads,
           c.head_dim, bytes / (1 << 30), name_of(place), memory / (1 << 30));
    }
  }
}

Call make_call(const Case& c, bool backward, const Grid& grid) {
  Random random(1);
  Call call;
  call.query = random_array(c.dtype, {c.batch, c.query_length, c.query_heads, c.head_dim}, random);
  call.key = random_array(c.dtype, {c.batch, c.key_length, c.key_heads, c.head_dim}, random);
  call.value = random_array(c.dtype, {c.batch, c.key_length, c.key_heads, c.head_dim}, random);
  if (backward) call.grad_out = random_array(c.dtype, {c.batch, c.query_length, c.query_heads, c.head_dim}, random);
  call.causal = c.causal;
  call.threads = grid.threads;
  place(call, grid.device);
  return call;
}

class Bench {
 public:
  // `rates`: of a GPU.
  Bench(const Grid& grid, bool backward, const std::optional<DeviceRates>& rates)
      : grid_(grid), backward_(backward), rates_(rates) {}

  std::vector<Record> run() {
    Progress progress(static_cast<std::int64_t>(grid_.cases.size() * grid_.implementations.size()) * (backward_ ? 2 : 1));
    for (const Case& c : grid_.cases) {
      check_memory(c, backward_, grid_.device);
      const Call call = make_call(c, backward_, grid_);
      const Geometry geometry = geometry_of(call);
      const Outputs outputs = make_outputs(call);
      for (const bool backward : {false, true}) {
        if (backward && !backward_) continue;
        // Gradients need the result and lse of a forward pass.
        if (backward) compute(forward_problem(call, outputs, Implementation::automatic), false);
        for (const Implementation implementation : grid_.implementations) {
          progress.say(fmt::format("{} {} {}×{}×{}×{}", name_of(implementation), info_of(c.dtype).name, c.batch, c.query_length,
                                   c.query_heads, c.head_dim));
          measure(call, geometry, outputs, implementation, backward);
          progress.step();
        }
      }
    }
    return std::move(records_);
  }
  // What was left out, and why.
  const std::map<std::string, int>& left_out() const { return left_out_; }

 private:
  void measure(const Call& call, const Geometry& g, const Outputs& outputs, Implementation implementation, bool backward) {
    if (!grid_.chosen && implementation == Implementation::reference && flop_count(call, g, backward) > sampling_limit_flop) {
      ++left_out_["reference: over 2 GFLOP it is timed only when --implementation names it"];
      return;
    }
    try {
      Runner runner(backward ? backward_problem(call, outputs, implementation) : forward_problem(call, outputs, implementation),
                    backward);
      const std::vector<double> times = time_calls([&] { runner.run(); }, grid_.repeats);
      const Implementation ran = runner.plan().implementation();
      records_.push_back(make_record(call, g, ran, backward, times));
      if (rates_) add_device_times(records_.back(), runner, call, g, backward);
    } catch (const Error& error) {
      if (grid_.chosen || error.status() != Status::unsupported) throw;
      ++left_out_[fmt::format("{}: {}", name_of(implementation), error.what())];
    }
  }

  void add_device_times(Record& record, Runner& runner, const Call& call, const Geometry& g, bool backward) const {
    const DeviceTimes times =
        time_on_device([&](void* stream) { runner.launch(stream); }, grid_.device, grid_.repeats, grid_.cache);
    const Statistics device = statistics_of(times.device_us);
    record.device_us = device.median;
    record.device_p10_us = device.p10;
    record.device_p90_us = device.p90;
    record.host_us = statistics_of(times.host_us).median;
    record.tflops = flop_count(call, g, backward) / device.median / 1e6;
    record.gb_per_s = byte_count(call, backward) / device.median / 1e3;
    if (rates_->matmul_missing.empty()) record.percent_of_matmul = 100 * record.tflops / rates_->matmul_tflops;
    record.percent_of_copy = 100 * *record.gb_per_s / rates_->copy_gb_per_s;
  }

  const Grid& grid_;
  bool backward_;
  const std::optional<DeviceRates>& rates_;
  std::vector<Record> records_;
  std::map<std::string, int> left_out_;
};

const Record* find(const std::vector<Record>& baseline, const Record& record) {
  const auto found = std::ranges::find_if(baseline, [&](const Record& b) { return same_case(b, record); });
  return found == baseline.end() ? nullptr : &*found;
}

Statistics device_times(const Record& r) {
  return {*r.device_us, r.device_p10_us.value_or(*r.device_us), r.device_p90_us.value_or(*r.device_us)};
}

// "1.25× faster"; within the spread of either nothing is claimed.
std::string change(const Record& now, const Record* before) {
  if (!before) return "–";
  const bool on_device = now.device_us && before->device_us;
  const Statistics a = on_device ? device_times(now) : Statistics{now.wall_ms, now.p10_ms, now.p90_ms};
  const Statistics b = on_device ? device_times(*before) : Statistics{before->wall_ms, before->p10_ms, before->p90_ms};
  if (!(a.median > 0) || !(b.median > 0)) return "–";
  const double ratio = b.median / a.median;
  if (a.p10 <= b.p90 && b.p10 <= a.p90) return fmt::format("{:.2f}× within spread", ratio);
  return ratio >= 1 ? painted(Colour::green, fmt::format("{:.2f}× faster", ratio))
                    : painted(Colour::red, fmt::format("{:.2f}× slower", 1 / ratio));
}

void print_table(const std::vector<Record>& records, const std::vector<Record>& baseline) {
  const bool on_gpu = !records.empty() && records.front().device_us;
  std::vector<Table::Column> columns = {{"implementation"}, {"dtype"}, {"direction"}, {"causal"}};
  for (const char* title : {"B", "T", "S", "N", "K", "H"}) columns.push_back({title, Align::right});
  const std::vector<const char*> measured =
      on_gpu ? std::vector{"device", "p10", "p90", "host", "call", "TFLOP/s", "GB/s", "of matmul", "of copy"}
             : std::vector{"median", "p10", "p90", "GFLOP/s"};
  for (const char* title : measured) columns.push_back({title, Align::right});
  if (!baseline.empty()) columns.push_back({"baseline"});
  Table table(columns);
  for (const Record& r : records) {
    std::vector<std::string> cells = {r.implementation, r.dtype, r.direction, std::string(name_of(r.causal))};
    for (const std::int64_t n : {r.batch, r.query_length, r.key_length, r.query_heads, r.key_heads, r.head_dim}) {
      cells.push_back(std::to_string(n));
    }
    if (on_gpu) {
      const Statistics times = device_times(r);
      for (const double us : {times.median, times.p10, times.p90, *r.host_us}) cells.push_back(milliseconds(us / 1e3));
      const auto percent = [](std::optional<double> value) {
        return value ? fmt::format("{:.{}f} %", *value, *value < 10 ? 1 : 0) : "–";
      };
      cells.insert(cells.end(), {milliseconds(r.wall_ms), fmt::format("{:.2f}", r.tflops), fmt::format("{:.1f}", *r.gb_per_s),
                                 percent(r.percent_of_matmul), percent(r.percent_of_copy)});
    } else {
      cells.insert(cells.end(), {milliseconds(r.wall_ms), milliseconds(r.p10_ms), milliseconds(r.p90_ms), gflops(r.tflops)});
    }
    if (!baseline.empty()) cells.push_back(change(r, find(baseline, r)));
    table.add(std::move(cells));
  }
  fmt::print("{}\n", table.text());
}

void print_bars(const std::vector<Record>& records) {
  std::map<std::string, std::vector<Bar>> charts;
  std::vector<std::string> order;
  for (const Record& r : records) {
    const std::string title = fmt::format("{} {}{}, GFLOP/s, higher is better", r.dtype, r.direction,
                                          r.causal == Causal::off ? "" : fmt::format(" causal {}", name_of(r.causal)));
    if (!charts.contains(title)) order.push_back(title);
    const std::string keys = r.key_length == r.query_length ? "" : fmt::format(" S{}", r.key_length);
    const std::string groups = r.key_heads == r.query_heads ? "" : fmt::format(" K{}", r.key_heads);
    charts[title].push_back({fmt::format("B{} T{}{} N{}{} H{} {}", r.batch, r.query_length, keys, r.query_heads, groups,
                                         r.head_dim, r.implementation),
                             r.tflops * 1e3});
  }
  for (const std::string& title : order) fmt::print("{}\n", bar_chart(title, "", charts[title]));
}

void print_rates(const DeviceRates& rates, Cache cache) {
  if (rates.matmul_missing.empty()) {
    fmt::print("matmul of this device: {:.1f} TFLOP/s, bf16 by cuBLASLt; ", rates.matmul_tflops);
  } else {
    fmt::print("matmul of this device: not measured, {}; ", printable(rates.matmul_missing));
  }
  fmt::print("copy: {:.0f} GB/s read and written; both just now.\n", rates.copy_gb_per_s);
  fmt::print(
      "device: a call on the device, {}; host: until a call has been started; call: until its result is there.\n\n",
      cache == Cache::flushed ? "its second-level cache flushed before each" : "one after the other in a captured graph");
}

Exit run_bench(const BenchOptions& options) {
  if (options.csv && options.json) refuse("--csv: --json is given too; standard output can be only one of them");
  const Grid grid = parse_grid(options);
  std::vector<Record> baseline;
  if (!options.baseline.empty()) baseline = load_records(options.baseline, "--baseline");
  std::optional<DeviceRates> rates;
  if (!on_host(grid.device)) rates = measure_rates(grid.device);
  Bench bench(grid, options.backward, rates);
  const std::vector<Record> records = bench.run();
  for (const auto& [why, times] : bench.left_out()) {
    fmt::print(stderr, "dhyan: left out{}: {}\n", times > 1 ? fmt::format(" {} times", times) : "", why);
  }
  if (records.empty()) refuse("--implementation: none can run any of these cases");
  if (options.json) {
    nlohmann::ordered_json report = report_json(records);
    if (rates) {
      report["rates"] = {
          {"matmul_tflops", rates->matmul_missing.empty() ? nlohmann::ordered_json(rates->matmul_tflops) : nullptr},
          {"copy_gb_per_s", rates->copy_gb_per_s},
          {"flushed", options.flush}};
    }
    fmt::print("{}\n", report.dump(2));
  } else if (options.csv) {
    fmt::print("{}", to_csv(records));
  } else {
    fmt::print("{}\n\n", printable(title_of(grid.device)));
    if (rates) print_rates(*rates, grid.cache);
    print_table(records, baseline);
    print_bars(records);
    return exit_ok;
  }
  if (!baseline.empty()) {
    for (const Record& r : records) {
      fmt::print(stderr, "{} {} {} T{}: {}\n", r.implementation, r.dtype, r.direction, r.query_length,
                 change(r, find(baseline, r)));
    }
  }
  return exit_ok;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("bench", "Time implementations over grids of sizes");
  const auto o = std::make_shared<BenchOptions>();
  const auto axis = [&](const char* name, std::string& target, const char* text) {
    command->add_option(name, target, text)->type_name("AXIS")->capture_default_str();
  };
  axis("--batch", o->batch, "Batch sizes");
  axis("--seq", o->seq, "Query lengths, and key lengths unless --key-seq is given");
  axis("--key-seq", o->key_seq, "Key lengths");
  axis("--heads", o->heads, "Query heads");
  axis("--key-heads", o->key_heads, "Key and value heads; default as many as query heads");
  axis("--head-dim", o->head_dim, "Head dimensions");
  command->add_option("--dtype", o->dtype, "f64, f32, f16, bf16; a list")->type_name("LIST")->capture_default_str();
  command->add_option("--causal", o->causal, "off, top-left, bottom-right, both (off and top-left); a list")
      ->type_name("LIST")
      ->capture_default_str();
  command
      ->add_option("--implementation", o->implementation,
                   "all (the default), or a list of auto, reference, naive, fused, cudnn")
      ->type_name("LIST");
  command->add_flag("--backward", o->backward, "Time the backward pass too");
  command->add_option("--warmup", o->warmup, "Calls before timing")->type_name("N")->capture_default_str();
  command->add_option("--repeats", o->repeats, "Timed calls, at most")->type_name("N")->capture_default_str();
  command->add_option("--seconds", o->seconds, "Seconds for one row, at most (one timed call at least)")
      ->type_name("X")
      ->capture_default_str();
  command->add_option("--threads", o->threads, "CPU threads, default all")->type_name("N");
  command->add_option("--device", o->device, std::string(device_help))->type_name("DEVICE")->capture_default_str();
  command->add_option("--baseline", o->baseline, "Show the change against an earlier --json")->type_name("FILE");
  command->add_flag("--flush", o->flush, "On a GPU: flush its second-level cache before each call that the device times");
  command->add_flag("--csv", o->csv, "Print CSV");
  command->add_flag("--json", o->json, "Print JSON");
  command->footer(
      "AXIS is a list or range: 64,128 or 64:4096:x2 or 64:512:+64, also joined by commas.\n\n"
      "Examples:\n"
      "  dhyan bench\n"
      "  dhyan bench --seq 64:4096:x2 --head-dim 64,128 --dtype bf16,f32 --causal both --backward\n"
      "  dhyan bench --seq 1 --key-seq 4096 --heads 32 --key-heads 8 --head-dim 128 --implementation fused\n"
      "  dhyan bench --device cuda:0 --dtype bf16 --seq 1 --key-seq 65536 --flush\n"
      "  dhyan bench --json > old.json; dhyan bench --baseline old.json");
  command->callback([=, &action] { action = [=] { return run_bench(*o); }; });
}

}  // namespace dhyan::app
