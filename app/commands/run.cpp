// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>

#include "arguments.hpp"
#include "commands/call_options.hpp"
#include "commands/commands.hpp"
#include "io/load.hpp"
#include "io/save.hpp"
#include "measure/comparison.hpp"
#include "report/progress.hpp"
#include "report/table.hpp"
#include "report/terminal.hpp"

namespace dhyan::app {
namespace {

struct RunOptions : CallOptions {
  std::string implementation, out, expect, tolerance, warmup, repeats;
  bool explain = false, lse = false, compare = false, json = false;
};

void note(std::string_view sentence) { fmt::print(stderr, "dhyan: {}\n", sentence); }

std::string verdict(bool ok) { return ok ? painted(Colour::green, "yes") : painted(Colour::red, "NO"); }

std::string error_text(double value) { return std::isfinite(value) ? fmt::format("{:.2e}", value) : "inf or nan"; }

std::string heading(const Call& call, const Geometry& g) {
  const std::string shapes = call.packed()
                                 ? fmt::format("{} sequences, queries {} (longest {}), keys {} (longest {})", g.batch,
                                               call.query.shape[0], g.query_length, call.key.shape[0], g.key_length)
                                 : fmt::format("batch {}, queries {}, keys {}", g.batch, g.query_length, g.key_length);
  const std::string values = g.value_head_dim != g.head_dim ? fmt::format(" (values {})", g.value_head_dim) : "";
  const std::string causal = call.causal == Causal::off ? "" : fmt::format(", causal {}", name_of(call.causal));
  return fmt::format("{}\n{}: {}, heads {} of queries and {} of keys, head dimension {}{}{}", printable(title_of(call.device)),
                     info_of(call.element()).name, shapes, g.query_heads, g.key_heads, g.head_dim, values, causal);
}

std::optional<Stored> load_stored(const RunOptions& options, const Call& call) {
  if (options.expect.empty()) {
    if (!options.tolerance.empty()) refuse("--tolerance: it does nothing without --expect");
    return std::nullopt;
  }
  Shape shape = call.query.shape;
  shape.back() = call.value.shape.back();
  const Array array = load_array(options.expect, "--expect");
  if (!is_floating(array.element)) {
    refuse("--expect: {} holds {}; it must hold f64, f32, f16 or bf16", options.expect, info_of(array.element).name);
  }
  if (array.shape != shape) {
    refuse("--expect: {} has shape {}; the result has {}", options.expect, shape_text(array.shape), shape_text(shape));
  }
  Stored stored{.file = options.expect, .expected = {}, .tolerance = {}, .rounded = array.element != Element::f64};
  stored.expected.name = "out";
  stored.expected.values = doubles_of(array);
  if (!options.tolerance.empty()) {
    const std::vector<std::string> parts = split(options.tolerance, ',');
    if (parts.size() > 2)
      refuse("--tolerance: {} has over two numbers; give ABSOLUTE or ABSOLUTE,RELATIVE", shown(options.tolerance));
    const auto number = [](const std::string& text) {
      return parse_number(
          "--tolerance", text, [](double x) { return x >= 0; }, "a finite number, 0 or more");
    };
    stored.tolerance = {number(parts[0]), parts.size() > 1 ? number(parts[1]) : 0};
  }
  return stored;
}

Repeats repeats_of(const RunOptions& options, int warmup, int repeats) {
  constexpr int most = 1'000'000;
  Repeats result{warmup, repeats, 3};
  if (!options.warmup.empty()) result.warmup = static_cast<int>(parse_integer("--warmup", options.warmup, 0, most));
  if (!options.repeats.empty()) {
    result.repeats = static_cast<int>(parse_integer("--repeats", options.repeats, 1, most));
    result.most_seconds = INFINITY;
  }
  return result;
}

void explain(const RunOptions& options, const std::string& what, const Plan& plan) {
  // Standard output is JSON's alone when it is asked for.
  if (options.explain) fmt::print(options.json ? stderr : stdout, "{}: {}\n", what, plan.describe());
}

void print_comparison(const Call& call, const Geometry& g, const ComparedCall& compared, const std::optional<Stored>& stored) {
  const bool backward = call.grad_out.has_value();
  std::vector<Table::Column> columns = {{"implementation"}};
  if (backward) columns.push_back({"direction"});
  for (const char* title : {"time", "GFLOP/s", "max|Δ|", "relative"}) columns.push_back({title, Align::right});
  if (stored) columns.push_back({"max|Δ| stored", Align::right});
  columns.push_back({"ok"});
  Table table(columns);
  for (const ComparedRow& row : compared.rows) {
    std::vector<std::string> cells = {std::string(name_of(row.implementation))};
    if (backward) cells.emplace_back(row.record.direction);
    if (!row.refusal.empty()) {
      cells.insert(cells.end(), 4 + (stored ? 1 : 0), "–");
      cells.emplace_back("–");
    } else {
      const auto& check = *row.record.check;
      cells.insert(cells.end(), {milliseconds(row.record.wall_ms), gflops(row.record.tflops), error_text(check.max_abs_error),
                                 error_text(check.relative_error)});
      if (stored) cells.push_back(row.stored ? error_text(row.stored->misplaced ? NAN : row.stored->max_abs) : "");
      cells.push_back(verdict(check.ok && (!row.stored || row.stored->ok())));
    }
    table.add(std::move(cells));
  }
  fmt::print("{}\n\n{}\n", heading(call, g), table.text());
  fmt::print("Δ: difference from float64, {}.\n", compared.forward_extent);
  if (backward) {
    fmt::print("Backward: the worst of the gradients, each from the same out and lse, {}.\n", compared.backward_extent);
  }
  if (!on_host(call.device)) fmt::print("reference runs on the host; all else, and its time, on {}.\n", name_of(call.device));
  if (stored) fmt::print("stored: {}\n", stored->file);
}

void explain_all(const RunOptions& options, const Call& call, std::span<const Implementation> which) {
  if (!options.explain) return;
  const Outputs outputs = make_outputs(call);
  for (const Implementation implementation : which) {
    try {
      const std::string name(name_of(implementation));
      explain(options, name + " forward", Plan::forward(forward_problem(call, outputs, implementation)));
      if (call.grad_out) explain(options, name + " backward", Plan::backward(backward_problem(call, outputs, implementation)));
    } catch (const Error& error) {
      if (error.status() != Status::unsupported) throw;  // the comparison says why
    }
  }
}

// "cudnn did not run: …"; one line where a backward row has the reason of its forward row.
std::vector<std::string> refusals(const ComparedCall& compared) {
  std::vector<std::string> lines;
  for (const ComparedRow& row : compared.rows) {
    if (row.refusal.empty()) continue;
    std::string line = fmt::format("{} did not run: {}", name_of(row.implementation), row.refusal);
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  return lines;
}

Exit run_comparison(const RunOptions& options, const Call& call, const Geometry& g, const std::optional<Stored>& stored) {
  std::vector<Implementation> which(std::begin(implementations), std::end(implementations));
  if (!options.implementation.empty()) {
    const Implementation one = parse_implementation("--implementation", options.implementation);
    if (one == Implementation::automatic)
      refuse("--implementation: with --compare it must be a single one or left out, not auto");
    which = {one};
  }
  explain_all(options, call, which);
  ComparedCall compared;
  {
    Progress progress(static_cast<std::int64_t>(which.size() + 1) * (call.grad_out ? 2 : 1));
    bool first = true;
    compared = compare_implementations(call, g, which, repeats_of(options, 1, 20), stored, [&](const std::string& what) {
      if (!std::exchange(first, false)) progress.step();
      progress.say(what);
    });
  }
  std::vector<Record> records;
  for (const ComparedRow& row : compared.rows) {
    if (row.refusal.empty()) records.push_back(row.record);
  }
  if (options.json) {
    fmt::print("{}\n", report_json(records).dump(2));
  } else {
    print_comparison(call, g, compared, stored);
  }
  for (const std::string& line : refusals(compared)) {
    if (options.json) {
      note(line);
    } else {
      fmt::print("{}\n", painted(Colour::dim, line));
    }
  }
  for (const ComparedRow& row : compared.rows) {
    for (const auto& [name, d] : row.differences) {
      if (d.ok()) continue;
      note(fmt::format("{} {}: {} is wrong: {}", name_of(row.implementation), row.record.direction, name,
                       d.misplaced
                           ? fmt::format("{} values are infinite or NaN where others are expected, or the reverse", d.misplaced)
                           : fmt::format("the difference is {:.1f} times its limit", d.share)));
    }
  }
  if (records.empty()) refuse("--compare: no implementation can run this");
  return compared.ok ? exit_ok : exit_check_failed;
}

Exit run_once(const RunOptions& options, const Call& call, const Geometry& g, const std::optional<Stored>& stored) {
  const Implementation asked = options.implementation.empty()
                                   ? Implementation::automatic
                                   : parse_implementation("--implementation", options.implementation);
  if (asked == Implementation::reference && !on_host(call.device)) {
    refuse("--implementation: reference computes on the CPU, the tensors are on {}; give --device cpu", title_of(call.device));
  }
  Outputs outputs = make_outputs(call);
  Runner forward(forward_problem(call, outputs, asked), false);
  std::optional<Runner> backward;
  if (call.grad_out) backward.emplace(backward_problem(call, outputs, asked), true);
  explain(options, "forward", forward.plan());
  if (backward) explain(options, "backward", backward->plan());

  // The files to be written, and the results that go there.
  std::vector<std::string> names;
  std::vector<const Array*> arrays;
  for (const auto& [name, array] : named(outputs)) {
    if (name == "lse" && !options.lse) continue;
    names.push_back(name);
    arrays.push_back(array);
  }
  std::optional<ResultWriter> writer;
  if (!options.out.empty()) writer.emplace(options.out, "--out", names);

  std::vector<Record> records;
  {
    const Repeats repeats = repeats_of(options, 0, 1);
    Progress progress(backward ? 2 : 1);
    progress.say("forward");
    records.push_back(
        make_record(call, g, forward.plan().implementation(), false, time_calls([&] { forward.run(); }, repeats)));
    if (backward) {
      progress.step();
      progress.say("backward");
      records.push_back(
          make_record(call, g, backward->plan().implementation(), true, time_calls([&] { backward->run(); }, repeats)));
    }
  }
  fetch(outputs);
  std::optional<Difference> difference;
  if (stored) {
    difference = compare_stored(outputs.out, *stored, LimitTable(call, g));
    const double shown = difference->misplaced ? NAN : 1;
    records[0].check = Record::Check{difference->max_abs * shown, difference->relative * shown, difference->ok()};
  }
  if (writer) {
    Metadata metadata = facts_of(call.device);
    metadata.insert(metadata.begin(), {{"dhyan", dhyan_version()}, {"implementation", records[0].implementation}});
    writer->write(arrays, metadata);
    if (writer->widened()) note("bf16 was widened to f32: .npy has no bf16 (.safetensors has)");
  }

  if (options.json) {
    fmt::print("{}\n", report_json(records).dump(2));
  } else {
    fmt::print("{}\n", heading(call, g));
    for (const Record& r : records) {
      fmt::print("{} {}: {}, {} GFLOP/s\n", r.implementation, r.direction, milliseconds(r.wall_ms), gflops(r.tflops));
    }
    if (difference) {
      fmt::print("{}: max|Δ| {}, relative {}, ok: {}\n", stored->file, error_text(records[0].check->max_abs_error),
                 error_text(records[0].check->relative_error), verdict(difference->ok()));
    }
    if (writer) {
      for (const std::string& path : writer->paths()) fmt::print("written: {}\n", path);
    }
  }
  return difference && !difference->ok() ? exit_check_failed : exit_ok;
}

Exit run(const RunOptions& options) {
  if (options.compare && !options.out.empty()) {
    refuse("--out: --compare makes several results; run one implementation to write its result");
  }
  if (options.lse && options.out.empty()) refuse("--lse: it is written beside --out, which is not given");
  std::vector<std::string> notes;
  const Call call = options.load(notes);
  for (const std::string& n : notes) note(n);
  const Geometry geometry = geometry_of(call);
  const std::optional<Stored> stored = load_stored(options, call);
  return options.compare ? run_comparison(options, call, geometry, stored) : run_once(options, call, geometry, stored);
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("run", "Attention of tensors in files");
  const auto options = std::make_shared<RunOptions>();
  options->add_to(*command);
  command->add_option("--implementation", options->implementation, "auto, reference, naive, fused or cudnn")->type_name("NAME");
  command->add_flag("--explain", options->explain, "Print what was chosen and why");
  command->add_option("--out", options->out, "Write the result, and gradients beside it, to .npy or .safetensors")
      ->type_name("F");
  command->add_flag("--lse", options->lse, "Write lse beside --out");
  command->add_flag("--compare", options->compare, "Run every implementation and hold it against float64");
  command->add_option("--expect", options->expect, "Compare the result with a stored one")->type_name("F");
  command->add_option("--tolerance", options->tolerance, "For --expect: |Δ| <= A + R |stored|; default from type and sizes")
      ->type_name("A[,R]");
  command->add_option("--warmup", options->warmup, "Calls before timing")->type_name("N");
  command->add_option("--repeats", options->repeats, "Timed calls")->type_name("N");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "F is file.npy, file.npz:name or file.safetensors:name. Gradients and lse go to the same .safetensors file,\n"
      "or for --out result.npy to result.lse.npy, result.grad_query.npy and so on.\n\n"
      "Examples:\n"
      "  dhyan run --query q.npy --key k.npy --value v.npy --causal --out out.npy\n"
      "  dhyan run --query x.safetensors:query --key x.safetensors:key --value x.safetensors:value \\\n"
      "            --key-lengths 256,173,37 --compare\n"
      "  dhyan run --query a.npz:q --key a.npz:k --value a.npz:v --dtype bf16 --window 128,0 --explain\n"
      "  dhyan run --query q.npy --key k.npy --value v.npy --query-offsets 0,5,12 --key-offsets 0,5,12 \\\n"
      "            --grad-out do.npy --out result.safetensors --lse");
  command->callback([=, &action] { action = [=] { return run(*options); }; });
}

}  // namespace dhyan::app
