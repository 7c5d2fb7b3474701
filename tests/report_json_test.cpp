// SPDX-License-Identifier: Apache-2.0
// results.json keeps all of a document; what is no results.json is refused in one sentence that says where and why.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "failure.hpp"
#include "report/csv.hpp"
#include "report/json.hpp"
#include "support/program.hpp"
#include "support/random.hpp"
#include "support/sample_document.hpp"

namespace dhyan::report {
namespace {

using ::dhyan::testing::hostile_texts;
using ::dhyan::testing::Random;
using ::dhyan::testing::random_document;
using ::dhyan::testing::sample_document;
using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Pointer = ordered_json::json_pointer;

Document read_back(const std::string& text) { return results_from(text, "r.json", "FILE"); }

// The sentence with which a text is refused; empty: it is not.
std::string refusal(const std::string& text) {
  try {
    read_back(text);
  } catch (const app::Failure& failure) {
    EXPECT_EQ(failure.code(), app::exit_bad_input);
    EXPECT_THAT(failure.what(), StartsWith("FILE: \"r.json\" is no results.json that can be read: "));
    return failure.what();
  }
  return "";
}

ordered_json sample_json() { return ordered_json::parse(results_json(sample_document())); }

TEST(ResultsJson, IsReadBackExactly) {
  Random random("ResultsJson.IsReadBackExactly");
  EXPECT_EQ(read_back(results_json(sample_document())), sample_document());
  for (int i = 0; i < 200; ++i) {
    const Document document = random_document(random);
    ASSERT_EQ(broken_rule(document), "") << ::dhyan::testing::run_seed();
    const std::string text = results_json(document);
    ASSERT_EQ(read_back(text), document) << text << ::dhyan::testing::run_seed();
    ASSERT_EQ(results_json(read_back(text)), text);
  }
}

TEST(ResultsJson, BeginsWithItsVersionAndTheVerdict) {
  const ordered_json json = sample_json();
  EXPECT_EQ(json.begin().key(), "schema_version");
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["verdict"]["text"]["en"], verdict_of(sample_document()).en);
  EXPECT_EQ(json["verdict"]["passed"], 2);
  EXPECT_EQ(json["verdict"]["failed"], 1);
  EXPECT_EQ(json["verdict"]["informative"], 1);
  EXPECT_EQ(json["verdict"]["not_run"], 1);
}

TEST(ResultsJson, NamesEnumsByWords) {
  const ordered_json json = sample_json();
  EXPECT_EQ(json["steps"][1]["outcome"], "not_available");
  EXPECT_EQ(json["steps"][2]["blocks"][0]["kind"], "heat");
  EXPECT_EQ(json["steps"][2]["checks"][1]["verdict"], "failed");
  EXPECT_EQ(json["steps"][3]["blocks"][0]["better"], "lower");
  EXPECT_EQ(json["steps"][3]["blocks"][2]["series"][1]["marker"], "square");
}

TEST(ResultsJson, HasNullForWhatIsNoNumber) {
  Document document = sample_document();
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  document.seconds = nan;
  document.steps[3].timings[0].samples_ms = {1, infinity};
  document.steps[2].checks[0].value.value = -infinity;
  std::get<Chart>(document.steps[3].blocks[2]).series[0].points[1].y = nan;
  const std::string text = results_json(document);
  const ordered_json json = ordered_json::parse(text);
  for (const char* place : {"/seconds", "/steps/3/timings/0/samples_ms/1", "/steps/2/checks/0/value/value",
                            "/steps/3/blocks/2/series/0/points/1/y"}) {
    EXPECT_TRUE(json.at(Pointer(place)).is_null()) << place;
  }
  EXPECT_EQ(results_json(read_back(text)), text);
  EXPECT_TRUE(std::isnan(read_back(text).seconds));
}

TEST(ResultsJson, ReplacesBytesThatAreNotUtf8) {
  Document document = sample_document();
  document.device_name = "bad \xff\xc0\xaf\xed\xa0\x80 name";
  document.steps[0].title.en = "\x80";
  const Document back = read_back(results_json(document));
  EXPECT_THAT(back.device_name, StartsWith("bad \xef\xbf\xbd"));
  EXPECT_THAT(back.device_name, ::testing::EndsWith(" name"));
  EXPECT_EQ(back.steps[0].title.en, "\xef\xbf\xbd");
}

// Every object and every list of the file, with its path.
void for_each_place(const ordered_json& json, const Pointer& at, const std::function<void(const Pointer&)>& visit) {
  if (!json.is_structured()) return;
  for (const auto& [name, child] : json.items()) {
    const Pointer below = json.is_array() ? at / static_cast<std::size_t>(std::stoul(name)) : at / name;
    if (below.to_string().starts_with("/machine/") || below.to_string().starts_with("/settings/")) continue;
    visit(below);
    for_each_place(child, below, visit);
  }
}

TEST(ResultsJson, NeedsEveryMember) {
  const ordered_json json = sample_json();
  int places = 0;
  for_each_place(json, Pointer(), [&](const Pointer& place) {
    if (json.at(place.parent_pointer()).is_array()) return;
    ordered_json less = json;
    less.at(place.parent_pointer()).erase(place.back());
    ++places;
    EXPECT_THAT(refusal(less.dump()),
                place.back() == "schema_version" ? HasSubstr("schema_version") : HasSubstr(place.back() + " is missing"))
        << place;
  });
  EXPECT_GT(places, 300);
}

TEST(ResultsJson, HasNoOtherMember) {
  const ordered_json json = sample_json();
  for_each_place(json, Pointer(), [&](const Pointer& place) {
    if (!json.at(place).is_object() || place.to_string() == "/machine" || place.to_string() == "/settings") return;
    ordered_json more = json;
    more.at(place)["unheard_of"] = 1;
    EXPECT_NE(refusal(more.dump()), "") << place;
  });
  ordered_json more = json;
  more["steps"][0]["unheard\nof"] = 1;
  EXPECT_THAT(refusal(more.dump()), HasSubstr(R"(steps[0]."unheard\x0aof" is no member that a results.json has)"));
}

TEST(ResultsJson, HoldsEveryMemberToItsType) {
  const ordered_json json = sample_json();
  for_each_place(json, Pointer(), [&](const Pointer& place) {
    ordered_json wrong = json;
    ordered_json& value = wrong.at(place);
    value = value.is_boolean() ? ordered_json("true") : ordered_json(true);
    EXPECT_NE(refusal(wrong.dump()), "") << place;
  });
}

struct Wrong {
  const char* place;
  ordered_json value;
  const char* reason;
};
void PrintTo(const Wrong& wrong, std::ostream* stream) { *stream << wrong.place << " = " << wrong.value; }

class WrongResults : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongResults, AreRefusedWithThePlaceAndTheRule) {
  ordered_json json = sample_json();
  json[Pointer(GetParam().place)] = GetParam().value;
  EXPECT_THAT(refusal(json.dump()), HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongResults,
    ::testing::Values(
        Wrong{"/schema_version", 2, "its schema version is 2 (of dhyan \"0.1.0\"), and dhyan"},
        Wrong{"/schema_version", "1", "schema_version is not an integer"},
        Wrong{"/schema_version", 1.5, "schema_version is not an integer"},
        Wrong{"/schema_version", 18446744073709551615U, "schema_version is not between"},
        Wrong{"/created", "yesterday", "created is \"yesterday\"; it is written like"},
        Wrong{"/machine", nullptr, "machine is no object"}, Wrong{"/settings/repeats", 20, "settings.repeats is not a text"},
        Wrong{"/verdict/passed", 3, "verdict.passed is 3 where the checks say 2"},
        Wrong{"/steps", "none", "steps is not a list"},
        Wrong{"/steps/0/number", 6, "steps[1].number is 5, which is less than the one before"},
        Wrong{"/steps/0/number", 1e10, "steps[0].number is not an integer"},
        Wrong{"/steps/0/number", 10000000000, "steps[0].number is not between"},
        Wrong{"/steps/0/outcome", "perhaps", "steps[0].outcome is \"perhaps\"; it is one of done, not_available, skipped,"},
        Wrong{"/steps/0/blocks/0/type", "video",
              "steps[0].blocks[0].type is \"video\"; it is one of paragraph, code, table, chart"},
        Wrong{"/steps/0/blocks/2/key", "../../x", "steps[0].blocks[2].key is \"../../x\"; a key has"},
        Wrong{"/steps/0/blocks/2/key", "", "steps[0].blocks[2].key is \"\"; a key has"},
        Wrong{"/steps/0/blocks/2/key", "sweep", "steps[3].blocks[1].key is \"sweep\", which another table has already"},
        Wrong{"/steps/0/blocks/2/columns", ordered_json::array(), "steps[0].blocks[2].columns is empty"},
        Wrong{"/steps/0/blocks/2/columns/1/key", "item", "columns[1].key is \"item\", which another column of the table has"},
        Wrong{"/steps/0/blocks/2/rows/1", ordered_json::array(), "steps[0].blocks[2].rows[1] has 0 cells where there are 2"},
        Wrong{"/steps/2/blocks/0/key", "latency", "steps[3].blocks[0].key is \"latency\", which another chart has"},
        Wrong{"/steps/2/blocks/0/heat/rows", 36, "steps[2].blocks[0].heat.values has 1369 values; 36 x 37 are needed"},
        Wrong{"/steps/2/blocks/0/heat/rows", 9223372036854775807, "heat.values has 1369 values"},
        Wrong{"/steps/2/blocks/0/heat/columns", 0, "heat has 37 rows and 0 columns"},
        Wrong{"/steps/2/blocks/0/heat/columns", -37, "heat has 37 rows and -37 columns"},
        Wrong{"/steps/2/blocks/0/heat/values/3", -1, "steps[2].blocks[0].heat.values[3] is -1"},
        Wrong{"/steps/2/blocks/0/kind", "lines", "steps[2].blocks[0].heat has something in it"},
        Wrong{"/steps/3/blocks/0/kind", "heat", "steps[3].blocks[0].series has something in it"},
        Wrong{"/steps/3/blocks/2/kind", "bars", "steps[3].blocks[2].series[0].points has 3 points; a bar has one"},
        Wrong{"/steps/3/blocks/2/series/0/points/1/x", 64, "series[0].points[1].x is not above the one before"},
        Wrong{"/steps/3/blocks/2/series/0/points/1/x", nullptr, "series[0].points[1].x is no number"},
        Wrong{"/steps/3/blocks/2/series/0/colour", "red;}", "series[0].colour is \"red;}\"; a colour is #"},
        Wrong{"/steps/3/blocks/2/series/0/key", "fused_f32", "series[1].key is \"fused_f32\", which another series of the"},
        Wrong{"/steps/3/blocks/2/baseline", "other", "steps[3].blocks[2].baseline is \"other\", which is the key of no"},
        Wrong{"/steps/2/checks/1/key", "first_row", "steps[2].checks[1].key is \"first_row\", which another check has"},
        Wrong{"/steps/2/checks/1/relation", "~", "steps[2].checks[1].relation is \"~\"; it is one of"}));

TEST(ResultsJson, RefusesWhatIsNoJsonOrNoResults) {
  const std::string text = results_json(sample_document());
  for (std::size_t length = 0; length + 3 < text.size(); length += 97) {
    EXPECT_THAT(refusal(text.substr(0, length)), HasSubstr("it is not JSON from byte"));
  }
  EXPECT_THAT(refusal("{}"), HasSubstr("it is no object with a schema_version"));
  EXPECT_THAT(refusal("[]"), HasSubstr("it is no object with a schema_version"));
  EXPECT_THAT(refusal("{\"records\": []}"), HasSubstr("it is no object with a schema_version"));
  EXPECT_THAT(refusal("\"\xff\""), HasSubstr("it is not JSON from byte"));
  EXPECT_THAT(refusal("{\"schema_version\": 1e999}"), HasSubstr("it has a number that no double holds"));
}

TEST(ResultsJson, RefusesWhatWouldExhaustItsReader) {
  std::string deep(1 << 20, '[');
  EXPECT_THAT(refusal(deep), HasSubstr("nested more than 32 deep"));
  std::string wide = "{";
  for (int i = 0; i < 2000; ++i) wide += fmt::format("\"{}\": 0, ", i);
  EXPECT_THAT(refusal(wide), HasSubstr("an object of more than 1000 members"));
  std::string text = results_json(sample_document());
  text.replace(text.find("\"complete\""), 0, "\"seconds\": 1, ");
  EXPECT_THAT(refusal(text), HasSubstr("it has the member \"seconds\" twice in one object"));
}

TEST(ResultsJson, SurvivesEveryKindOfDamage) {
  Random random("ResultsJson.SurvivesEveryKindOfDamage");
  const std::string text = results_json(sample_document());
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string damaged = text;
    for (auto n = random.integer(1, 3); n > 0; --n) {
      const auto at = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(damaged.size()) - 1));
      const auto length = static_cast<std::size_t>(random.integer(0, 3));
      damaged.replace(at, length, std::string(length, static_cast<char>(random.bits())));
    }
    refused += refusal(damaged).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
}

// The sentence with which a file is refused.
std::string file_refusal(const std::string& file) {
  try {
    load_results(file, "FILE");
  } catch (const app::Failure& failure) {
    EXPECT_EQ(failure.code(), app::exit_bad_input);
    return failure.what();
  }
  return "";
}

TEST(ResultsJson, IsLoadedFromAFile) {
  const ::dhyan::testing::TemporaryFolder folder;
  const std::string file = folder.file("results.json");
  EXPECT_THAT(file_refusal(file), HasSubstr("cannot be read: No such file"));
  EXPECT_THAT(file_refusal(folder.file(std::string(300, 'x'))), HasSubstr("cannot be read: File name too long"));
  EXPECT_THAT(file_refusal(folder.path()), HasSubstr("is not a regular file"));
  EXPECT_THAT(file_refusal("/dev/zero"), HasSubstr("is not a regular file"));
  ::dhyan::testing::write_file(file, results_json(sample_document()));
  EXPECT_EQ(load_results(file, "FILE"), sample_document());
  ::dhyan::testing::write_file(file, std::string((32 << 20) + 1, ' '));
  EXPECT_THAT(file_refusal(file), HasSubstr("has 33554433 bytes; a results.json has 33554432 at most"));
}

TEST(ResultsJson, RefusalsHoldNothingThatATerminalObeys) {
  for (const std::string& hostile : hostile_texts()) {
    ordered_json json = sample_json();
    json["steps"][0]["outcome"] = hostile;
    json["version"] = hostile;
    std::string sentences = refusal(json.dump()) + file_refusal(hostile);
    json["schema_version"] = 3;
    sentences += refusal(json.dump());
    for (const char c : sentences) EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7f) << sentences;
    EXPECT_THAT(sentences, Not(HasSubstr("\xc2\x9b")));
  }
}

TEST(Verdict, SaysWhatHeldAndWhatDidNot) {
  EXPECT_EQ(
      verdict_of(sample_document()).en,
      "1 of 3 checks failed, in step 6. One more could not be made. One more only informs. Step 5 cannot run on this machine.");
  Document document{.complete = true};
  EXPECT_EQ(verdict_of(document).en, "No check was made.");
  document.steps.resize(3);
  document.steps[0].number = 2;
  document.steps[0].checks = {{.key = "a", .verdict = Verdict::passed}};
  EXPECT_EQ(verdict_of(document).en, "The one check passed.");
  document.steps[1].number = 5;
  document.steps[1].outcome = Outcome::not_available;
  document.steps[1].checks = {{.key = "b", .verdict = Verdict::not_run}, {.key = "c", .verdict = Verdict::not_run}};
  document.steps[2].number = 10;
  document.steps[2].outcome = Outcome::not_available;
  document.steps[2].checks = {{.key = "d", .verdict = Verdict::passed}, {.key = "e", .verdict = Verdict::informative}};
  EXPECT_EQ(verdict_of(document).en,
            "All 2 checks passed. 2 more could not be made. One more only informs. Steps 5 and 10 cannot run on this machine.");
  document.complete = false;
  EXPECT_THAT(verdict_of(document).en, StartsWith("The run did not get to its end. All 2 checks passed."));
  for (const auto& step : document.steps)
    EXPECT_THAT(verdict_of(document).hi, HasSubstr(step.number == 2 ? "2" : "चरण 5 और 10"));
}

TEST(Verdict, SaysThatTheMachineWasBusyWhenAQuarterOfTheRowsSpreads) {
  Document document{.complete = true};
  document.steps.resize(1);
  const auto add = [&](double p90) { document.steps[0].timings.push_back({.median_ms = 1, .p10_ms = 1, .p90_ms = p90}); };
  for (int i = 0; i < 4; ++i) add(1.4);
  EXPECT_EQ(verdict_of(document).en, "No check was made.");
  add(1.6);
  EXPECT_EQ(verdict_of(document).en, "No check was made.");
  add(9);
  EXPECT_THAT(verdict_of(document).en, HasSubstr("busy: in 2 of 6 timed rows"));
  EXPECT_THAT(verdict_of(document).hi, HasSubstr("6 में से 2"));
}

TEST(Csv, LeavesTheDashOfAnAbsentNumberOut) {
  EXPECT_EQ(csv({.key = "t", .columns = {{"a", {}}, {"b", {}}}, .rows = {{{"–", {}}, {"x – y", {}}}}}), "a,b\r\n,x – y\r\n");
}

TEST(Csv, QuotesWhatHasToBe) {
  const Table table{.key = "t",
                    .columns = {{"name", {"Name", ""}}, {"value", {"Value", ""}, true}},
                    .rows = {{{"plain", {}}, {"1/3", 1.0 / 3}}, {{"a, \"b\"\r\n", {}}, {"", {}}}, {{"", {}}, {"3 ms", 3.0}}}};
  EXPECT_EQ(csv(table), "name,value\r\nplain,0.3333333333333333\r\n\"a, \"\"b\"\"\r\n\",\r\n,3\r\n");
}

TEST(Csv, HasALineForAnEmptyCellOfItsOnlyColumn) {
  EXPECT_EQ(csv({.key = "t", .columns = {{"a", {}}}, .rows = {{{"", {}}}, {{"x", {}}}}}), "a\r\n\"\"\r\nx\r\n");
}

TEST(Csv, KeepsEveryNumberExactly) {
  Random random("Csv.KeepsEveryNumberExactly");
  for (int i = 0; i < 200; ++i) {
    const double value = std::ldexp(random.normal(), static_cast<int>(random.integer(-1070, 1000)));
    const std::string text = csv({.key = "t", .columns = {{"a", {}}}, .rows = {{{"rounded", value}}}});
    EXPECT_EQ(std::strtod(text.c_str() + 3, nullptr), value) << text;
  }
}

}  // namespace
}  // namespace dhyan::report
