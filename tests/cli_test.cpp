// SPDX-License-Identifier: Apache-2.0
// The command as a black box: what it prints, writes and returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/bytes.hpp"
#include "io/load.hpp"
#include "problem/random.hpp"
#include "support/files.hpp"
#include "support/program.hpp"
#include "support/random.hpp"

namespace dhyan::app {
namespace {

using ::dhyan::testing::npy_file;
using ::dhyan::testing::ProgramOptions;
using ::dhyan::testing::ProgramResult;
using ::dhyan::testing::read_file;
using ::dhyan::testing::run_program;
using ::dhyan::testing::TemporaryFolder;
using ::dhyan::testing::write_file;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Words = std::vector<std::string>;

const std::string real_data = DHYAN_TEST_DATA "/minilm.safetensors";

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Words real_run() {
  return {"run",
          "--query",
          real_data + ":query",
          "--key",
          real_data + ":key",
          "--value",
          real_data + ":value",
          "--key-lengths",
          real_data + ":key_lengths"};
}

// q.npy, k.npy, v.npy and more of a small random problem in a fresh folder.
class CommandFiles : public ::testing::Test {
 protected:
  CommandFiles() : random_(::dhyan::testing::Random(::testing::UnitTest::GetInstance()->current_test_info()->name()).bits()) {}

  void put(const std::string& name, Element element, Shape shape) {
    write_file(folder_.file(name), npy_file(random_array(element, std::move(shape), random_)));
  }
  void put_problem(std::int64_t b = 2, std::int64_t t = 9, std::int64_t s = 13, std::int64_t n = 4, std::int64_t k = 2,
                   std::int64_t h = 16) {
    put("q.npy", Element::f32, {b, t, n, h});
    put("k.npy", Element::f32, {b, s, k, h});
    put("v.npy", Element::f32, {b, s, k, h});
    put("do.npy", Element::f32, {b, t, n, h});
  }
  ProgramResult run(const Words& more, ProgramOptions options = {}) {
    options.folder = folder_.path();
    return run_program(Words{"run", "--query", "q.npy", "--key", "k.npy", "--value", "v.npy"} + more, options);
  }
  Array load(const std::string& name) { return load_array(folder_.file(name), "--out"); }

  TemporaryFolder folder_;
  Random random_;
};

TEST(Command, HelpShowsExamplesAndExitCodes) {
  EXPECT_THAT(run_program({"--help"}).out, AllOf(HasSubstr("info"), HasSubstr("bench"), HasSubstr("130 interrupted")));
  for (const char* command : {"info", "run", "bench", "check"}) {
    const ProgramResult help = run_program({command, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, AllOf(HasSubstr("Examples:"), HasSubstr(std::string("dhyan ") + command)));
    EXPECT_THAT(help.error, IsEmpty());
  }
  EXPECT_EQ(run_program({"--version"}).out, std::string("dhyan ") + dhyan_version() + "\n");
}

TEST(Command, InfoIsTheLibrarysOwn) {
  const ProgramResult result = run_program({"info", "--json"});
  EXPECT_EQ(result.status, 0);
  const json info = json::parse(result.out);
  for (const char* key : {"version", "compiler", "cpu", "threads", "devices", "implementations", "libraries"}) {
    EXPECT_TRUE(info.contains(key)) << key;
  }
  const std::string text = run_program({"info"}).out;
  EXPECT_THAT(text, HasSubstr(info["cpu"]["name"].get<std::string>()));
  for (const json& i : info["implementations"]) EXPECT_THAT(text, HasSubstr(i["name"].get<std::string>()));
}

struct Refused {
  const char* name;
  Words arguments;
  const char* says;
};

void PrintTo(const Refused& r, std::ostream* stream) { *stream << r.name; }

class RefusedUse : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedUse, ExitsWith2AndOneSentence) {
  const ProgramResult result = run_program(GetParam().arguments);
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.error, HasSubstr(GetParam().says));
  EXPECT_THAT(result.error, ::testing::StartsWith("dhyan: "));
  EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
}

INSTANTIATE_TEST_SUITE_P(
    Command, RefusedUse,
    ::testing::Values(
        Refused{"nothing", {}, "subcommand is required"}, Refused{"unknown_command", {"walk"}, "walk"},
        Refused{"unknown_option", {"info", "--fast"}, "--fast"}, Refused{"missing_files", {"run"}, "--query is required"},
        Refused{"missing_file", real_run() + Words{"--bias", "absent.npy"}, "absent.npy cannot be read"},
        Refused{"folder_for_file", real_run() + Words{"--bias", "/.npy"}, "cannot be read"},
        Refused{"wrong_extension", real_run() + Words{"--bias", "bias.txt"}, "none of file.npy"},
        Refused{"no_name", real_run() + Words{"--bias", real_data}, "a name must follow"},
        Refused{"unknown_name", real_run() + Words{"--bias", real_data + ":nothing"}, "there is no tensor \"nothing\""},
        Refused{"threads", real_run() + Words{"--threads", "0"}, "--threads: \"0\" is not a whole number from 1"},
        Refused{"threads_text", real_run() + Words{"--threads", "two"}, "--threads: \"two\""},
        Refused{"scale", real_run() + Words{"--scale", "nan"}, "--scale: \"nan\" is not a finite number"},
        Refused{"softcap", real_run() + Words{"--softcap", "-1"}, "--softcap: \"-1\" is not a finite number above 0"},
        Refused{"dropout", real_run() + Words{"--dropout", "1"}, "--dropout: \"1\" is not"},
        Refused{"seed", real_run() + Words{"--dropout", "0.1", "--seed", "-1"}, "--seed: \"-1\""},
        Refused{"seed_alone", real_run() + Words{"--seed", "1"}, "does nothing without --dropout"},
        Refused{"dropout_offset_alone", real_run() + Words{"--dropout-offset", "1"}, "--dropout-offset: it does nothing"},
        Refused{"window", real_run() + Words{"--window", "3"}, "--window: \"3\" must be 2 whole numbers"},
        Refused{"window_minus_two", real_run() + Words{"--window", "-2,0"}, "--window: \"-2\""},
        Refused{"causal", real_run() + Words{"--causal=top"}, "--causal: \"top\" is none of off, top-left, bottom-right"},
        Refused{"dtype", real_run() + Words{"--dtype", "fp8"}, "--dtype: \"fp8\""},
        Refused{"origin", real_run() + Words{"--origin", "1,2,3"}, "--origin"},
        Refused{"warmup", real_run() + Words{"--warmup", "-1"}, "--warmup"},
        Refused{"repeats", real_run() + Words{"--repeats", "0"}, "--repeats"},
        Refused{"implementation", real_run() + Words{"--implementation", "magic"}, "none of auto, reference"},
        Refused{"implementation_cannot", real_run() + Words{"--implementation", "cudnn"}, "NVIDIA"},
        Refused{"device_cuda", real_run() + Words{"--device", "cuda"}, "--device: cuda cannot be used"},
        Refused{"device_bench", {"bench", "--seq", "8", "--device", "cuda:63"}, "--device: cuda:63 cannot be used"},
        Refused{"device_check", {"check", "--seconds", "1", "--device", "cuda:63"}, "--device: cuda:63 cannot be used"},
        Refused{"device_unknown", real_run() + Words{"--device", "tpu"}, "--device: \"tpu\""},
        Refused{"lengths_count", real_run() + Words{"--query-lengths", "1,2"}, "there must be 3 numbers"},
        Refused{"lengths_text", real_run() + Words{"--query-lengths", "1,2,"}, "--query-lengths: \"\""},
        Refused{"offsets_alone", real_run() + Words{"--query-offsets", "0,1"}, "needs --key-offsets"},
        Refused{"grad_lse_alone", real_run() + Words{"--grad-lse", "x.npy"}, "needs --grad-out"},
        Refused{"mask_type", real_run() + Words{"--mask", real_data + ":query"}, "must hold bool or u8"},
        Refused{"bias_type", real_run() + Words{"--bias", real_data + ":key_lengths"}, "must hold f64, f32, f16 or bf16"},
        Refused{"lse_alone", real_run() + Words{"--lse"}, "written beside --out"},
        Refused{"out_npz", real_run() + Words{"--out", "x.npz"}, "results are written to .npy or .safetensors"},
        Refused{"out_and_compare", real_run() + Words{"--out", "x.npy", "--compare"}, "--out"},
        Refused{"compare_auto", real_run() + Words{"--compare", "--implementation", "auto"}, "--implementation"},
        Refused{"expect_shape", real_run() + Words{"--expect", real_data + ":lse_float64"}, "the result has [3, 64, 12, 32]"},
        Refused{"tolerance_alone", real_run() + Words{"--tolerance", "1"}, "does nothing without --expect"},
        Refused{"tolerance", real_run() + Words{"--expect", real_data + ":out_float64", "--tolerance", "-1"}, "--tolerance"},
        Refused{"bias_shape", real_run() + Words{"--bias", real_data + ":out_float64"}, "bias"},
        Refused{"bench_axis", {"bench", "--seq", "64:32:x2"}, "--seq: the range \"64:32:x2\" ends before it begins"},
        Refused{"bench_dtype", {"bench", "--dtype", "f32,int8"}, "--dtype: \"int8\""},
        Refused{"bench_causal", {"bench", "--causal", "maybe"}, "--causal: \"maybe\""},
        Refused{"bench_heads", {"bench", "--heads", "8", "--key-heads", "3"}, "--key-heads: 3 does not divide --heads 8"},
        Refused{"bench_head_dim", {"bench", "--head-dim", "513"}, "--head-dim: \"513\" is not a whole number from 1 to 512"},
        Refused{"bench_two_forms", {"bench", "--csv", "--json"}, "only one of them"},
        Refused{"bench_baseline", {"bench", "--seq", "8", "--baseline", real_data}, "is not a report of dhyan bench --json"},
        Refused{"bench_flush", {"bench", "--seq", "8", "--flush"}, "--flush: it is of GPUs; the device is cpu"},
        Refused{"bench_cudnn", {"bench", "--seq", "8", "--implementation", "cudnn"}, "NVIDIA"},
        Refused{"check_seconds", {"check", "--seconds", "0"}, "--seconds: \"0\""},
        Refused{"check_only", {"check", "--only", "3"}, "--only: it needs --seed"},
        Refused{"check_only_seconds", {"check", "--seed", "1", "--only", "3", "--seconds", "1"}, "--seconds: it does nothing"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Command, ComputesTheRealTensorsStoredResult) {
  const ProgramResult result = run_program(real_run() + Words{"--expect", real_data + ":out_float64", "--json"});
  EXPECT_EQ(result.status, 0) << result.error;
  const json record = json::parse(result.out)["records"][0];
  EXPECT_TRUE(record["ok"].get<bool>());
  EXPECT_GT(record["max_abs_error"].get<double>(), 0);
  EXPECT_LT(record["max_abs_error"].get<double>(), 1e-5);
}

TEST(Command, NamesTheDevice) {
  const json machine = json::parse(run_program({"info", "--json"}).out);
  const std::string title = "cpu, " + machine["devices"][0]["name"].get<std::string>();
  for (const char* device : {"auto", "cpu"}) {
    EXPECT_THAT(run_program(real_run() + Words{"--device", device}).out, ::testing::StartsWith(title + "\n"));
    EXPECT_THAT(run_program(real_run() + Words{"--device", device, "--compare", "--repeats", "1"}).out,
                ::testing::StartsWith(title + "\n"));
    const ProgramResult bench = run_program({"bench", "--seq", "8", "--repeats", "1", "--device", device});
    EXPECT_THAT(bench.out, ::testing::StartsWith(title + "\n"));
    EXPECT_THAT(run_program({"check", "--seed", "1", "--only", "0", "--device", device}).out,
                ::testing::StartsWith(title + "\n"));
  }
}

TEST(Command, ExitsWith1WhenAResultIsNotTheExpectedOne) {
  EXPECT_EQ(run_program(real_run() + Words{"--expect", real_data + ":query"}).status, 1);
  // Without the lengths padding is seen.
  const Words whole = {"run", "--query", real_data + ":query", "--key", real_data + ":key", "--value", real_data + ":value"};
  EXPECT_EQ(run_program(whole + Words{"--expect", real_data + ":out_float64"}).status, 1);
  EXPECT_EQ(run_program(whole + Words{"--compare", "--expect", real_data + ":out_float64"}).status, 1);
  const Words expect = real_run() + Words{"--expect", real_data + ":out_float64", "--tolerance"};
  EXPECT_EQ(run_program(expect + Words{"1e-4"}).status, 0);
  EXPECT_EQ(run_program(expect + Words{"1e-5,1e-3"}).status, 0);
  EXPECT_EQ(run_program(expect + Words{"1e-12"}).status, 1);
}

// Keys of a record, in the order the format promises.
const Words record_keys = {
    "implementation", "device",      "dtype",         "direction",     "causal",  "batch",     "query_length",
    "key_length",     "query_heads", "key_heads",     "head_dim",      "wall_ms", "device_us", "tflops",
    "p10_ms",         "p90_ms",      "device_p10_us", "device_p90_us", "host_us", "gb_per_s",  "percent_of_matmul",
    "percent_of_copy"};

Words keys_of(const nlohmann::ordered_json& object) {
  Words keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(Command, CompareHoldsEveryImplementationAgainstFloat64) {
  for (const char* dtype : {"f32", "bf16", "f16", "f64"}) {
    const ProgramResult result = run_program(
        real_run() + Words{"--compare", "--json", "--dtype", dtype, "--repeats", "1", "--grad-out", real_data + ":value"});
    EXPECT_EQ(result.status, 0) << result.error;
    const auto report = nlohmann::ordered_json::parse(result.out);
    EXPECT_THAT(keys_of(report), ElementsAre("machine", "records"));
    Words ran;
    for (const auto& record : report["records"]) {
      EXPECT_EQ(keys_of(record), record_keys + Words({"max_abs_error", "relative_error", "ok"}));
      EXPECT_TRUE(record["ok"].get<bool>()) << record;
      EXPECT_EQ(record["dtype"], dtype);
      EXPECT_EQ(record["batch"], 3);
      EXPECT_TRUE(record["device_us"].is_null());
      EXPECT_GT(record["wall_ms"].get<double>(), 0);
      ran.push_back(record["implementation"].get<std::string>() + " " + record["direction"].get<std::string>());
    }
    EXPECT_THAT(ran, AllOf(Contains("reference forward"), Contains("reference backward")));
    const json implementations = json::parse(run_program({"info", "--json"}).out)["implementations"];
    for (const json& i : implementations) {
      // fused has no float64.
      if (i["device"] != "cpu" || !i["available"].get<bool>() || (std::string(dtype) == "f64" && i["name"] == "fused"))
        continue;
      EXPECT_THAT(ran, Contains(i["name"].get<std::string>() + " forward")) << dtype;
      EXPECT_THAT(ran, Contains(i["name"].get<std::string>() + " backward")) << dtype;
    }
  }
}

TEST_F(CommandFiles, CompareSamplesRowsOfLargeProblems) {
  put_problem(1, 2048, 2100, 4, 2, 64);
  for (const Words& options : {Words{"--causal=bottom-right"}, Words{"--softcap", "20", "--grad-out", "do.npy"}}) {
    const ProgramResult result = run(options + Words{"--compare", "--repeats", "1", "--warmup", "0"});
    EXPECT_EQ(result.status, 0) << result.out << result.error;
    EXPECT_THAT(result.out, HasSubstr("query rows, first, last and scattered"));
    EXPECT_THAT(result.out, HasSubstr("reference did not run: above 2 GFLOP"));
  }
}

TEST_F(CommandFiles, WritesResultLseAndGradientsBesideEachOther) {
  put_problem();
  ASSERT_EQ(run({"--causal", "--grad-out", "do.npy", "--out", "r.npy", "--lse"}).status, 0);
  ASSERT_EQ(run({"--causal", "--grad-out", "do.npy", "--out", "r.safetensors:mine", "--lse"}).status, 0);
  EXPECT_THAT(folder_.names(), ElementsAre("do.npy", "k.npy", "q.npy", "r.grad_key.npy", "r.grad_query.npy", "r.grad_value.npy",
                                           "r.lse.npy", "r.npy", "r.safetensors", "v.npy"));
  EXPECT_THAT(load("r.npy").shape, ElementsAre(2, 9, 4, 16));
  EXPECT_THAT(load("r.lse.npy").shape, ElementsAre(2, 4, 9));
  EXPECT_THAT(load("r.grad_key.npy").shape, ElementsAre(2, 13, 2, 16));
  for (const auto& [file, name] : {std::pair{"r.npy", "mine"},
                                   {"r.lse.npy", "lse"},
                                   {"r.grad_query.npy", "grad_query"},
                                   {"r.grad_key.npy", "grad_key"},
                                   {"r.grad_value.npy", "grad_value"}}) {
    const Array a = load(file), b = load(std::string("r.safetensors:") + name);
    EXPECT_EQ(a.shape, b.shape);
    EXPECT_EQ(as_text(a.data.bytes()), as_text(b.data.bytes())) << name;
  }
  // The result is expected to be itself, to the bit.
  EXPECT_EQ(run({"--causal", "--expect", "r.npy", "--tolerance", "0"}).status, 0);
  EXPECT_EQ(run({"--causal=bottom-right", "--expect", "r.npy"}).status, 1);
  EXPECT_EQ(run({"--expect", "r.npy"}).status, 1);
}

TEST_F(CommandFiles, SafetensorsSayWhatMadeThem) {
  put_problem();
  ASSERT_EQ(run({"--implementation", "naive", "--out", "r.safetensors"}).status, 0);
  const std::string file = read_file(folder_.file("r.safetensors"));
  EXPECT_THAT(file,
              AllOf(HasSubstr(R"("implementation":"naive")"), HasSubstr(R"("device":"cpu")"), HasSubstr(R"("processor":")")));
  EXPECT_EQ(load("r.safetensors:out").shape.size(), 4u);
}

TEST_F(CommandFiles, GradientsOfBiasAndSinkComeWithThem) {
  put_problem();
  put("bias.npy", Element::f16, {4, 1, 13});
  put("sink.npy", Element::f64, {4});
  const ProgramResult result =
      run({"--bias", "bias.npy", "--sink", "sink.npy", "--grad-out", "do.npy", "--out", "r.safetensors"});
  ASSERT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.error, HasSubstr("--sink: converted from f64 to f32"));
  EXPECT_THAT(load("r.safetensors:grad_bias").shape, ElementsAre(4, 1, 13));
  EXPECT_EQ(load("r.safetensors:grad_bias").element, Element::f16);
  EXPECT_THAT(load("r.safetensors:grad_sink").shape, ElementsAre(4));
  EXPECT_EQ(run({"--bias", "bias.npy", "--sink", "sink.npy", "--grad-out", "do.npy", "--compare"}).status, 0);
}

TEST_F(CommandFiles, WidensBf16ForNpyAndSaysSo) {
  put_problem();
  const ProgramResult npy = run({"--dtype", "bf16", "--out", "r.npy"});
  EXPECT_EQ(npy.status, 0);
  EXPECT_THAT(npy.error, HasSubstr("bf16 was widened to f32"));
  EXPECT_EQ(load("r.npy").element, Element::f32);
  const ProgramResult safetensors = run({"--dtype", "bf16", "--out", "r.safetensors"});
  EXPECT_THAT(safetensors.error, IsEmpty());
  EXPECT_EQ(load("r.safetensors:out").element, Element::bf16);
  EXPECT_EQ(as_text(convert_array(load("r.safetensors:out"), Element::f32).data.bytes()), as_text(load("r.npy").data.bytes()));
}

TEST_F(CommandFiles, PackedSequencesEqualTheirDenseSelves) {
  put_problem(1, 9, 13, 4, 2, 16);
  ASSERT_EQ(run({"--causal=bottom-right", "--out", "dense.npy"}).status, 0);
  // The same tokens without the batch dimension, once whole and once behind an empty sequence.
  const std::pair<const char*, Shape> packed[] = {{"q.npy", {9, 4, 16}}, {"k.npy", {13, 2, 16}}, {"v.npy", {13, 2, 16}}};
  for (const auto& [name, shape] : packed) {
    Array array = load(name);
    array.shape = shape;
    write_file(folder_.file(name), npy_file(array));
  }
  for (const Words& offsets :
       {Words{"--query-offsets", "0,9", "--key-offsets", "0,13"}, Words{"--query-offsets", "0,0,9", "--key-offsets", "0,0,13"},
        Words{"--query-offsets", "0,9", "--key-offsets", "0,13", "--query-lengths", "9", "--key-lengths", "13"}}) {
    const ProgramResult result = run(offsets + Words{"--causal=bottom-right", "--out", "packed.npy"});
    ASSERT_EQ(result.status, 0) << result.error;
    Array out = load("packed.npy");
    EXPECT_THAT(out.shape, ElementsAre(9, 4, 16));
    out.shape = {1, 9, 4, 16};
    write_file(folder_.file("packed.npy"), npy_file(out));
    const Array dense = load("dense.npy");
    for (std::int64_t i = 0; i < dense.count(); ++i) EXPECT_NEAR(out.as<float>()[i], dense.as<float>()[i], 1e-5);
  }
  EXPECT_EQ(run({"--query-offsets", "0,4,9", "--key-offsets", "0,6,13", "--compare"}).status, 0);
}

TEST_F(CommandFiles, MaskOfBytesIsTheMaskOfBooleans) {
  put_problem();
  Array mask(Element::u8, {9, 13});
  for (std::uint8_t& byte : mask.as<std::uint8_t>())
    byte = random_.chance(0.5) ? 0 : static_cast<std::uint8_t>(random_.integer(1, 255));
  write_file(folder_.file("bytes.npy"), npy_file(mask));
  for (std::uint8_t& byte : mask.as<std::uint8_t>()) byte = byte != 0;
  mask.element = Element::boolean;
  write_file(folder_.file("bools.npy"), npy_file(mask));
  ASSERT_EQ(run({"--mask", "bytes.npy", "--out", "r.npy"}).status, 0);
  EXPECT_EQ(run({"--mask", "bools.npy", "--expect", "r.npy", "--tolerance", "0"}).status, 0);
  EXPECT_EQ(run({"--expect", "r.npy"}).status, 1);
}

TEST_F(CommandFiles, DropoutIsTheSeeds) {
  put_problem();
  ASSERT_EQ(run({"--dropout", "0.5", "--seed", "7", "--out", "r.npy"}).status, 0);
  EXPECT_EQ(run({"--dropout", "0.5", "--seed", "7", "--threads", "1", "--expect", "r.npy", "--tolerance", "0"}).status, 0);
  EXPECT_EQ(run({"--dropout", "0.5", "--seed", "8", "--expect", "r.npy"}).status, 1);
  EXPECT_EQ(run({"--dropout", "0.5", "--seed", "7", "--compare", "--grad-out", "do.npy"}).status, 0);
}

TEST_F(CommandFiles, EveryOptionChangesTheResult) {
  put_problem();
  put("bias.npy", Element::f32, {1, 4, 9, 13});
  put("four.npy", Element::f32, {4});
  ASSERT_EQ(run({"--out", "plain.npy"}).status, 0);
  for (const Words& option :
       {Words{"--causal"}, Words{"--causal", "bottom-right"}, Words{"--window", "2,1"}, Words{"--scale", "0.7"},
        Words{"--softcap", "0.5"}, Words{"--bias", "bias.npy"}, Words{"--sink", "four.npy"}, Words{"--alibi", "four.npy"},
        Words{"--key-lengths", "5,7"}, Words{"--query-lengths", "5,7"}, Words{"--dropout", "0.3"},
        Words{"--causal", "--origin", "0,0,3,0"}}) {
    EXPECT_EQ(run(option + Words{"--expect", "plain.npy"}).status, 1) << option[0];
    const ProgramResult compared = run(option + Words{"--compare", "--grad-out", "do.npy", "--repeats", "1"});
    EXPECT_EQ(compared.status, 0) << option[0] << compared.out << compared.error;
  }
}

TEST_F(CommandFiles, ExplainSaysWhatWasChosen) {
  put_problem();
  EXPECT_THAT(run({"--explain"}).out, HasSubstr("auto"));
  const std::string compared = run({"--explain", "--compare", "--grad-out", "do.npy"}).out;
  EXPECT_THAT(compared, AllOf(HasSubstr("reference forward: "), HasSubstr("fused backward: "), HasSubstr("max|Δ|")));
  const ProgramResult result = run({"--explain", "--json", "--implementation", "reference"});
  EXPECT_THAT(result.error, HasSubstr("reference"));
  EXPECT_EQ(json::parse(result.out)["records"][0]["implementation"], "reference");
}

TEST_F(CommandFiles, AFailureLeavesWhatWasThere) {
  put_problem();
  write_file(folder_.file("r.npy"), "old");
  EXPECT_EQ(run({"--implementation", "cudnn", "--out", "r.npy"}).status, 2);
  EXPECT_EQ(read_file(folder_.file("r.npy")), "old");
  const ProgramResult missing = run({"--out", "nowhere/r.npy"});
  EXPECT_EQ(missing.status, 3);
  EXPECT_THAT(missing.error, HasSubstr("nowhere/r.npy cannot be written"));
  std::filesystem::create_symlink("/dev/full", folder_.file("device.npy"));
  EXPECT_THAT(run({"--out", "device.npy"}).error, HasSubstr("device.npy is not a regular file"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_.file("device.npy")));
  std::filesystem::remove(folder_.file("device.npy"));
  EXPECT_THAT(folder_.names(), ElementsAre("do.npy", "k.npy", "q.npy", "r.npy", "v.npy"));
}

TEST_F(CommandFiles, AFullDiskIsARuntimeFailure) {
  put_problem();
  ProgramOptions full;
  full.out_path = "/dev/full";
  const ProgramResult result = run({"--compare", "--json"}, full);
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.error, HasSubstr("standard output cannot be written"));
}

TEST_F(CommandFiles, InterruptedLeavesNothingBehind) {
  put_problem(4, 2048, 2048, 16, 16, 64);
  ProgramOptions options;
  options.interrupt_when = ".part";
  const ProgramResult result = run({"--implementation", "reference", "--out", "r.npy", "--lse"}, options);
  EXPECT_EQ(result.status, 130);
  EXPECT_THAT(folder_.names(), ElementsAre("do.npy", "k.npy", "q.npy", "v.npy"));
}

TEST_F(CommandFiles, WrongFilesAreNamed) {
  put_problem();
  write_file(folder_.file("k.npy"), "PK");
  EXPECT_THAT(run({}).error, HasSubstr("k.npy: not a .npy file"));
  EXPECT_EQ(run({}).status, 2);
  put("k.npy", Element::f32, {2, 13, 2});
  EXPECT_THAT(run({}).error, AllOf(HasSubstr("--key"), HasSubstr("[2, 13, 2]")));
  put("k.npy", Element::f16, {2, 13, 2, 16});
  EXPECT_EQ(run({}).status, 2);
  EXPECT_EQ(run({"--dtype", "f16"}).status, 0);
  std::filesystem::remove(folder_.file("k.npy"));
  ASSERT_EQ(mkfifo(folder_.file("k.npy").c_str(), 0600), 0);
  EXPECT_THAT(run({}).error, HasSubstr("k.npy is not a regular file"));
}

json bench_records(const Words& arguments) {
  const ProgramResult result = run_program(Words{"bench", "--warmup", "0", "--repeats", "2", "--json"} + arguments);
  EXPECT_EQ(result.status, 0) << result.error;
  return json::parse(result.out)["records"];
}

TEST(Bench, MakesOneRecordPerRowOfTheGrid) {
  const json records =
      bench_records({"--seq", "8:32:x2", "--batch", "1,2", "--causal", "both", "--dtype", "f32,bf16", "--heads", "4",
                     "--key-heads", "2", "--head-dim", "16", "--implementation", "reference,fused", "--backward"});
  EXPECT_EQ(records.size(), 3u * 2 * 2 * 2 * 2 * 2);
  int causal = 0, backward = 0;
  for (const json& r : records) {
    causal += r["causal"] == "top_left" ? 1 : 0;
    EXPECT_TRUE(r["causal"] == false || r["causal"] == "top_left");
    backward += r["direction"] == "backward" ? 1 : 0;
    EXPECT_LE(r["p10_ms"].get<double>(), r["wall_ms"].get<double>());
    EXPECT_LE(r["wall_ms"].get<double>(), r["p90_ms"].get<double>());
    EXPECT_EQ(r["key_heads"], 2);
    EXPECT_FALSE(r.contains("ok"));
    const double pairs = r["batch"].get<double>() * 4 * r["query_length"].get<double>() * r["key_length"].get<double>();
    const double flop = 2 * pairs * 32 * (r["causal"] == false ? 1 : 0.5) * (r["direction"] == "backward" ? 2.5 : 1);
    EXPECT_NEAR(r["tflops"].get<double>() * r["wall_ms"].get<double>() * 1e9, flop, 1e-6 * flop);
  }
  EXPECT_EQ(causal, 48);
  EXPECT_EQ(backward, 48);
}

TEST(Bench, DecodeHasItsOwnKeyLength) {
  const json records =
      bench_records({"--seq", "1", "--key-seq", "300", "--implementation", "fused", "--causal", "bottom-right"});
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0]["query_length"], 1);
  EXPECT_EQ(records[0]["key_length"], 300);
  EXPECT_EQ(records[0]["causal"], "bottom_right");
}

TEST(Bench, AllMeansEveryAvailableImplementation) {
  Words ran, available;
  for (const json& r : bench_records({"--seq", "16"})) ran.push_back(r["implementation"]);
  const json implementations = json::parse(run_program({"info", "--json"}).out)["implementations"];
  for (const json& i : implementations) {
    if (i["device"] == "cpu" && i["available"].get<bool>()) available.push_back(i["name"]);
  }
  EXPECT_EQ(ran, available);
}

TEST(Bench, PrintsTableBarsAndCsv) {
  const Words grid = {"bench", "--seq", "16,32", "--warmup", "0", "--repeats", "1", "--implementation", "fused"};
  const std::string text = run_program(grid).out;
  EXPECT_THAT(text, AllOf(HasSubstr("GFLOP/s"), HasSubstr("█"), HasSubstr("median")));
  const std::string csv = run_program(grid + Words{"--csv"}).out;
  std::string header;
  for (const std::string& key : record_keys) header += (header.empty() ? "" : ",") + key;
  EXPECT_THAT(csv, ::testing::StartsWith(header + "\nfused,cpu,f32,forward,false,1,16,16,8,8,64,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
}

TEST(Bench, ShowsTheChangeAgainstABaseline) {
  TemporaryFolder folder;
  const Words grid = {"bench", "--seq", "64", "--implementation", "fused"};
  json report = json::parse(run_program(grid + Words{"--json"}).out);
  for (const char* key : {"wall_ms", "p10_ms", "p90_ms"})
    report["records"][0][key] = report["records"][0][key].get<double>() * 1000;
  write_file(folder.file("slow.json"), report.dump());
  EXPECT_THAT(run_program(grid + Words{"--baseline", folder.file("slow.json")}).out, HasSubstr("× faster"));
  for (const char* key : {"wall_ms", "p10_ms", "p90_ms"})
    report["records"][0][key] = report["records"][0][key].get<double>() * 1e-6;
  write_file(folder.file("fast.json"), report.dump());
  EXPECT_THAT(run_program(grid + Words{"--baseline", folder.file("fast.json")}).out, HasSubstr("× slower"));
  report["records"][0]["head_dim"] = 7;
  write_file(folder.file("other.json"), report.dump());
  EXPECT_THAT(run_program(grid + Words{"--baseline", folder.file("other.json")}).out, Not(HasSubstr("×")));
}

TEST(Check, PassesAndSaysWhatItDid) {
  const ProgramResult result = run_program({"check", "--seconds", "1", "--json"});
  EXPECT_EQ(result.status, 0) << result.error;
  const json report = json::parse(result.out);
  EXPECT_TRUE(report["ok"].get<bool>());
  for (const json& p : report["properties"]) EXPECT_GT(p["checks"].get<int>(), 0) << p;
  // The same problem again, alone.
  const std::string seed = report["seed"].dump();
  const ProgramResult again = run_program({"check", "--seed", seed, "--only", "0"});
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.out, AllOf(HasSubstr("1 random problems"), HasSubstr("seed " + seed), HasSubstr("All hold")));
}

TEST(Terminal, ColoursOnlyOnATerminalWithoutNoColor) {
  ProgramOptions terminal;
  terminal.terminal = true;
  terminal.environment = {"TERM=xterm", "NO_COLOR="};
  EXPECT_THAT(run_program({"info"}, terminal).out, HasSubstr("\033["));
  terminal.environment = {"TERM=xterm", "NO_COLOR=1"};
  EXPECT_THAT(run_program({"info"}, terminal).out, Not(HasSubstr("\033[")));
  EXPECT_THAT(run_program({"info"}, {.environment = {"TERM=xterm", "NO_COLOR="}}).out, Not(HasSubstr("\033[")));
}

TEST(Terminal, ProgressOnATerminalOnlyAndOnlyForLongWork) {
  ProgramOptions terminal;
  terminal.terminal = true;
  terminal.environment = {"TERM=xterm", "NO_COLOR=1"};
  EXPECT_THAT(run_program({"check", "--seconds", "1.6"}, terminal).out, HasSubstr("▕"));
  EXPECT_THAT(run_program(real_run(), terminal).out, Not(HasSubstr("▕")));
  EXPECT_THAT(run_program({"check", "--seconds", "1.6"}).error, IsEmpty());
}

}  // namespace
}  // namespace dhyan::app
