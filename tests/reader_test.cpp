// SPDX-License-Identifier: Apache-2.0
// The file readers: what is right is read to the bit, what is wrong is refused with one sentence that says why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "failure.hpp"
#include "io/load.hpp"
#include "io/npy.hpp"
#include "io/npz.hpp"
#include "io/safetensors.hpp"
#include "support/files.hpp"
#include "support/random.hpp"

namespace dhyan::app {
namespace {

using ::dhyan::testing::little_endian;
using ::dhyan::testing::npy_dictionary;
using ::dhyan::testing::npy_file;
using ::dhyan::testing::safetensors_file;
using ::dhyan::testing::zip_file;
using ::dhyan::testing::ZipEntry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// Reads a file by what its name ends in, taking the tensor "x" of files with names.
Array read(const std::string& name, const std::string& content) {
  if (name.ends_with(".npy")) return read_npy(bytes_of(content), name);
  if (name.ends_with(".npz")) return read_npz(bytes_of(content), "x", name);
  return read_safetensors(bytes_of(content), "x", name);
}

std::string floats(std::initializer_list<float> values) {
  std::string bytes;
  for (const float v : values) bytes += little_endian(v);
  return bytes;
}

const std::string three = floats({1, 2, 3});
const std::string good_npy = npy_file(npy_dictionary("<f4", "(3,)"), three);

struct Wrong {
  const char* name;  // of the case
  const char* file;
  std::string content;
  const char* says;  // part of the sentence
};

void PrintTo(const Wrong& wrong, std::ostream* stream) { *stream << wrong.name; }

class WrongFile : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongFile, IsRefusedWithItsNameAndTheReason) {
  const Wrong& wrong = GetParam();
  try {
    read(wrong.file, wrong.content);
    FAIL() << "it was read";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), exit_bad_input);
    EXPECT_THAT(failure.what(), StartsWith(wrong.file));
    EXPECT_THAT(failure.what(), HasSubstr(wrong.says));
    EXPECT_EQ(std::string(failure.what()).find('\n'), std::string::npos);
    EXPECT_LT(std::string(failure.what()).size(), 400u);
  }
}

std::string name_of_case(const ::testing::TestParamInfo<Wrong>& info) { return info.param.name; }

std::string header(const std::string& dictionary) { return npy_file(dictionary, three); }

INSTANTIATE_TEST_SUITE_P(
    Npy, WrongFile,
    ::testing::Values(
        Wrong{"empty", "a.npy", "", "not a .npy file"}, Wrong{"other_magic", "a.npy", "PK\x03\x04 and more", "not a .npy file"},
        Wrong{"magic_only", "a.npy", "\x93NUMPY", "truncated"},
        Wrong{"version_0", "a.npy", npy_file(npy_dictionary("<f4", "(3,)"), three, 0), "version 0.0"},
        Wrong{"version_4", "a.npy", npy_file(npy_dictionary("<f4", "(3,)"), three, 4), "version 4.0"},
        Wrong{"header_past_end", "a.npy", std::string("\x93NUMPY\x01\x00\xff\xff{", 11), "truncated"},
        Wrong{"huge_header", "a.npy", std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13), "at most 65536"},
        Wrong{"header_of_zeros", "a.npy", npy_file(std::string(20, '\0'), three), "zero bytes"},
        Wrong{"no_line_break", "a.npy", std::string("\x93NUMPY\x01\x00\x02\x00{}", 12), "line break"},
        Wrong{"truncated_data", "a.npy", good_npy.substr(0, good_npy.size() - 1), "11 bytes follow"},
        Wrong{"trailing_garbage", "a.npy", good_npy + "x", "13 bytes follow"},
        Wrong{"fortran_order", "a.npy", header("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 1), }"), "Fortran order"},
        Wrong{"big_endian", "a.npy", header(npy_dictionary(">f4", "(3,)")), "big-endian"},
        Wrong{"complex", "a.npy", header(npy_dictionary("<c8", "(3,)")), "\"<c8\" is not read"},
        Wrong{"bfloat16_as_void", "a.npy", header(npy_dictionary("<V2", "(6,)")), "bfloat16"},
        Wrong{"object", "a.npy", header(npy_dictionary("|O", "(3,)")), "\"|O\" is not read"},
        Wrong{"records", "a.npy", header("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3,), }"), "records"},
        Wrong{"key_twice", "a.npy", header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"),
              "descr twice"},
        Wrong{"unknown_key", "a.npy", header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}"), "unknown key"},
        Wrong{"no_shape", "a.npy", header("{'descr': '<f4', 'fortran_order': False, }"), "lacks shape"},
        Wrong{"no_descr", "a.npy", header("{'fortran_order': False, 'shape': (3,)}"), "lacks descr"},
        Wrong{"negative_dimension", "a.npy", header(npy_dictionary("<f4", "(-3,)")), "negative"},
        Wrong{"dimension_overflows", "a.npy", header(npy_dictionary("<f4", "(99999999999999999999,)")), "2^63"},
        Wrong{"product_overflows", "a.npy", header(npy_dictionary("<f4", "(4294967296, 4294967296)")), "2^63"},
        Wrong{"bytes_overflow", "a.npy", header(npy_dictionary("<f8", "(2305843009213693952,)")), "2^63"},
        Wrong{"huge_shape", "a.npy", header(npy_dictionary("<f4", "(1000000000000,)")), "12 bytes follow"},
        Wrong{"too_many_dimensions", "a.npy", header(npy_dictionary("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 3)")), "dimensions"},
        Wrong{"shape_is_a_list", "a.npy", header(npy_dictionary("<f4", "[3]")), "expected '('"},
        Wrong{"one_without_comma", "a.npy", header(npy_dictionary("<f4", "(3)")), "',' after"},
        Wrong{"code_in_the_header", "a.npy", header("__import__('os').system('true')"), "expected '{'"},
        Wrong{"after_the_dictionary", "a.npy", header(npy_dictionary("<f4", "(3,)") + " x"), "only spaces"},
        Wrong{"string_without_end", "a.npy", header("{'descr: "), "a string that ends"},
        Wrong{"control_bytes", "a.npy", header(npy_dictionary("\x1b[2J", "(3,)")), "\\x1b[2J"}),
    name_of_case);

std::string bomb(std::int64_t claimed) {
  ZipEntry entry{"x.npy", npy_file(npy_dictionary("|u1", "(" + std::to_string(claimed) + ",)"), std::string(2 << 20, '\0')),
                 true};
  entry.claimed_size = claimed;
  return zip_file({entry});
}

INSTANTIATE_TEST_SUITE_P(
    Npz, WrongFile,
    ::testing::Values(
        Wrong{"empty", "a.npz", "", "not a .npz file"}, Wrong{"is_a_npy", "a.npz", good_npy, "not a .npz file"},
        Wrong{"truncated", "a.npz", zip_file({{"x.npy", good_npy}}).substr(0, 100), "truncated"},
        Wrong{"bytes_after_the_end", "a.npz", zip_file({{"x.npy", good_npy}}) + "x", "bytes after its end"},
        Wrong{"bytes_before_the_start", "a.npz", "x" + zip_file({{"x.npy", good_npy}}), "must meet"},
        Wrong{"no_such_name", "a.npz", zip_file({{"y.npy", good_npy}}), "it holds \"y\""},
        Wrong{"holds_nothing", "a.npz", zip_file({}), "holds no tensors"},
        Wrong{"name_twice", "a.npz", zip_file({{"x.npy", good_npy}, {"x.npy", good_npy}}), "twice"},
        Wrong{"encrypted", "a.npz", zip_file({{.name = "x.npy", .data = good_npy, .flags = 1}}), "encrypted"},
        Wrong{"unknown_method", "a.npz", zip_file({{.name = "x.npy", .data = good_npy, .method = 14}}), "method 14"},
        Wrong{"wrong_checksum", "a.npz", zip_file({{.name = "x.npy", .data = good_npy, .claimed_crc = 1}}), "checksum"},
        Wrong{"wrong_checksum_deflated", "a.npz",
              zip_file({{.name = "x.npy", .data = good_npy, .deflate = true, .claimed_crc = 1}}), "checksum"},
        Wrong{"offset_outside", "a.npz", zip_file({{.name = "x.npy", .data = good_npy, .claimed_offset = 1 << 30}}), "truncated"},
        Wrong{"offset_elsewhere", "a.npz", zip_file({{.name = "x.npy", .data = good_npy, .claimed_offset = 3}}),
              "does not point"},
        Wrong{"packed_size_outside", "a.npz",
              zip_file({{.name = "x.npy", .data = good_npy, .claimed_size = 1 << 30, .claimed_packed_size = 1 << 30}}),
              "truncated"},
        Wrong{"members_overlap", "a.npz",
              zip_file({{.name = "x.npy", .data = good_npy, .claimed_size = 200, .claimed_packed_size = 200}, {"y.npy", good_npy}}),
              "overlap"},
        Wrong{"member_runs_into_the_directory", "a.npz",
              zip_file({{.name = "x.npy",
                         .data = good_npy,
                         .claimed_size = static_cast<std::int64_t>(good_npy.size() + 4),
                         .claimed_packed_size = static_cast<std::int64_t>(good_npy.size() + 4)}}),
              "overlap"},
        Wrong{"stored_sizes_differ", "a.npz", zip_file({{.name = "x.npy", .data = good_npy, .claimed_size = 7}}), "as many"},
        Wrong{"bomb_over_the_format", "a.npz", bomb(4'000'000'000), "would grow"},
        Wrong{"bomb_over_modest", "a.npz", bomb(300 << 20), "would grow"},
        Wrong{"claims_more_than_is_packed", "a.npz",
              zip_file({{.name = "x.npy",
                         .data = npy_file(npy_dictionary("|u1", "(5000,)"), std::string(4000, 'x')),
                         .deflate = true,
                         .claimed_size = static_cast<std::int64_t>(npy_file(npy_dictionary("|u1", "(5000,)"), "").size()) + 5000}}),
              "does not unpack"},
        Wrong{"claims_less_than_is_packed", "a.npz",
              zip_file({{.name = "x.npy", .data = good_npy + "x", .deflate = true, .claimed_size = static_cast<std::int64_t>(good_npy.size())}}),
              "does not unpack"},
        Wrong{"damaged_deflate", "a.npz", zip_file({{.name = "x.npy", .data = "\xff\xff\xff\xff", .method = 8}}), "damaged"},
        Wrong{"inner_size_differs", "a.npz", zip_file({{"x.npy", good_npy + "xx"}}), "14 bytes follow"},
        Wrong{"inner_is_wrong", "a.npz", zip_file({{"x.npy", header(npy_dictionary(">f4", "(3,)"))}}), "big-endian"},
        Wrong{"entries_claimed", "a.npz",
              [] {
                std::string file = zip_file({{"x.npy", good_npy}});
                file[file.size() - 12] = file[file.size() - 14] = '\x40';  // 64 members
                return file;
              }(),
              "64 members"}),
    name_of_case);

std::string tensor(const std::string& fields) { return safetensors_file("{\"x\":{" + fields + "}}", three); }

INSTANTIATE_TEST_SUITE_P(
    Safetensors, WrongFile,
    ::testing::Values(
        Wrong{"empty", "a.safetensors", "", "8 bytes of header length"},
        Wrong{"length_only", "a.safetensors", little_endian<std::uint64_t>(0), "must begin with '{'"},
        Wrong{"header_past_end", "a.safetensors", little_endian<std::uint64_t>(50) + "{}", "truncated"},
        Wrong{"header_over_the_rule", "a.safetensors", little_endian<std::uint64_t>(UINT64_MAX) + "{}", "100000000"},
        Wrong{"not_json", "a.safetensors", safetensors_file("{\"x\":}", ""), "not valid JSON"},
        Wrong{"json_list", "a.safetensors", safetensors_file("[]", ""), "must begin with '{'"},
        Wrong{"text_after_json", "a.safetensors", safetensors_file("{} x", ""), "must end with '}'"},
        Wrong{"zeros_after_json", "a.safetensors", safetensors_file(std::string("{}\0\0", 4), ""), "must end with '}'"},
        Wrong{"two_values", "a.safetensors", safetensors_file("{}{}", ""), "not valid JSON"},
        Wrong{"bad_utf8", "a.safetensors", safetensors_file("{\"\xff\":{}}", ""), "not valid JSON"},
        Wrong{"deep_nesting", "a.safetensors", safetensors_file("{\"x\":" + std::string(100'000, '[') + "}", ""), "a list"},
        Wrong{"no_such_name", "a.safetensors",
              safetensors_file("{\"y\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", three), "it holds \"y\""},
        Wrong{"name_twice", "a.safetensors",
              safetensors_file("{\"x\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
                               "\"x\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}",
                               three),
              "twice"},
        Wrong{"field_twice", "a.safetensors",
              tensor("\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]"), "dtype twice"},
        Wrong{"metadata_twice", "a.safetensors", safetensors_file("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", ""), "twice"},
        Wrong{"metadata_number", "a.safetensors", safetensors_file("{\"__metadata__\":{\"a\":1}}", ""), "the number 1"},
        Wrong{"unknown_field", "a.safetensors", tensor("\"dtype\":\"F32\",\"shape\":[3],\"offsets\":[0,12]"), "unknown field"},
        Wrong{"no_dtype", "a.safetensors", tensor("\"shape\":[3],\"data_offsets\":[0,12]"), "lacks dtype"},
        Wrong{"no_shape", "a.safetensors", tensor("\"dtype\":\"F32\",\"data_offsets\":[0,12]"), "lacks shape"},
        Wrong{"one_offset", "a.safetensors", tensor("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0]"),
              "lacks data_offsets"},
        Wrong{"three_offsets", "a.safetensors", tensor("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12,12]"),
              "over two"},
        Wrong{"unknown_dtype", "a.safetensors", tensor("\"dtype\":\"F33\",\"shape\":[3],\"data_offsets\":[0,12]"),
              "unknown dtype"},
        Wrong{"unread_dtype", "a.safetensors", tensor("\"dtype\":\"I16\",\"shape\":[6],\"data_offsets\":[0,12]"),
              "I16 is not read"},
        Wrong{"offsets_outside", "a.safetensors", tensor("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]"),
              "truncated"},
        Wrong{"offsets_backwards", "a.safetensors", tensor("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[12,0]"),
              "truncated"},
        Wrong{"offsets_huge", "a.safetensors",
              tensor("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[18446744073709551604,18446744073709551615]"),
              "truncated"},
        Wrong{"offsets_over_64_bits", "a.safetensors",
              tensor("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,99999999999999999999]"), "the number"},
        Wrong{"negative_offset", "a.safetensors", tensor("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[-1,11]"),
              "0 or more"},
        Wrong{"fractional_dimension", "a.safetensors", tensor("\"dtype\":\"F32\",\"shape\":[3.0],\"data_offsets\":[0,12]"),
              "3.0"},
        Wrong{"shape_overflows", "a.safetensors",
              tensor("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296],\"data_offsets\":[0,12]"), "2^63"},
        Wrong{"size_differs", "a.safetensors", tensor("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,12]"), "as many"},
        Wrong{"half_a_byte", "a.safetensors", tensor("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]"), "whole byte"},
        Wrong{"overlap", "a.safetensors",
              safetensors_file("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                               "\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
                               three),
              "must not overlap"},
        Wrong{"gap", "a.safetensors",
              safetensors_file("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                               "\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
                               three),
              "no gaps"},
        Wrong{"trailing_garbage", "a.safetensors",
              safetensors_file("{\"x\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", three + "x"),
              "1 bytes follow"}),
    name_of_case);

TEST(Reader, ReadsEveryNpyTypeAndVersion) {
  for (const ElementInfo& info : elements) {
    if (info.npy.empty()) continue;
    for (const int version : {1, 2, 3}) {
      std::string data(6 * info.size, '\0');
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i & 1);
      const Array array = read("a.npy", npy_file(npy_dictionary(info.npy, "(2, 3)"), data, version));
      EXPECT_EQ(array.element, info.element);
      EXPECT_THAT(array.shape, ElementsAre(2, 3));
      EXPECT_EQ(as_text(array.data.bytes()), data);
    }
  }
}

TEST(Reader, ReadsScalarsVectorsAndEmptyTensors) {
  EXPECT_THAT(read("a.npy", npy_file(npy_dictionary("<f4", "()"), floats({7}))).shape, ElementsAre());
  EXPECT_THAT(read("a.npy", npy_file(npy_dictionary("<f4", "(0, 5)"), "")).shape, ElementsAre(0, 5));
  EXPECT_THAT(read("a.npy", npy_file("{\"shape\":(3,),\"descr\":\"<f4\",\"fortran_order\":False}", three)).shape,
              ElementsAre(3));
  // One dimension has no order.
  EXPECT_THAT(read("a.npy", npy_file("{'descr': '<f4', 'fortran_order': True, 'shape': (3,)}", three)).shape, ElementsAre(3));
}

TEST(Reader, ReadsStoredAndDeflatedMembers) {
  for (const bool deflate : {false, true}) {
    std::string long_data(100'000, '\0');
    for (std::size_t i = 0; i < long_data.size(); ++i) long_data[i] = static_cast<char>(i * i >> 3);
    const std::string file = zip_file({{"other.txt", "text"},
                                       {"x.npy", npy_file(npy_dictionary("|u1", "(100000,)"), long_data), deflate},
                                       {"y.npy", good_npy, deflate}},
                                      "a comment");
    EXPECT_THAT(npz_names(bytes_of(file), "a.npz"), ElementsAre("x", "y"));
    EXPECT_EQ(as_text(read("a.npz", file).data.bytes()), long_data);
    EXPECT_THAT(read_npz(bytes_of(file), "y", "a.npz").as<float>(), ElementsAre(1, 2, 3));
  }
}

TEST(Reader, ReadsEverySafetensorsType) {
  std::string header = "{\"__metadata__\":{\"format\":\"np\"}";
  std::string data;
  for (const ElementInfo& info : elements) {
    header += ",\"" + std::string(info.name) + "\":{\"dtype\":\"" + std::string(info.safetensors) +
              "\",\"shape\":[1,2],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + 2 * info.size) + "]}";
    data += std::string(2 * info.size, static_cast<char>(data.size()));
  }
  const std::string file = safetensors_file(header + "}   ", data);
  for (const ElementInfo& info : elements) {
    const Array array = read_safetensors(bytes_of(file), info.name, "a.safetensors");
    EXPECT_EQ(array.element, info.element);
    EXPECT_THAT(array.shape, ElementsAre(1, 2));
    EXPECT_EQ(array.data.size(), 2 * info.size);
  }
}

TEST(Reader, WhatTheWritersWriteIsReadBackToTheBit) {
  ::dhyan::testing::Random random("WhatTheWritersWriteIsReadBackToTheBit");
  for (const ElementInfo& info : elements) {
    Array array(info.element, {3, 1, 5});
    for (std::byte& b : array.data.bytes()) b = static_cast<std::byte>(random.bits());
    const std::string elements_text(as_text(array.data.bytes()));
    const NamedArray named[] = {{"x", &array}, {"with \"quotes\" and \xc3\xa9", &array}};
    const std::string tensors = safetensors_header(named) + elements_text + elements_text;
    EXPECT_EQ(as_text(read("a.safetensors", tensors).data.bytes()), elements_text);
    EXPECT_EQ((safetensors_header(named).size()) % 8, 0u);
    if (info.npy.empty()) continue;
    const Array back = read("a.npy", npy_header(array) + elements_text);
    EXPECT_EQ(back.shape, array.shape);
    EXPECT_EQ(as_text(back.data.bytes()), elements_text);
    EXPECT_EQ(npy_header(array).size() % 64, 0u);
  }
}

// Every byte of a right file changed, and every prefix of it: a tensor of the right size or a sentence, nothing else.
TEST(Reader, SurvivesEveryChangedByteAndEveryPrefix) {
  const std::pair<std::string, std::string> files[] = {
      {"a.npy", good_npy},
      {"a.npz", zip_file({{"x.npy", good_npy, true}, {"y.npy", good_npy}})},
      {"a.safetensors", safetensors_file("{\"x\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", three)}};
  int refused = 0, read_well = 0;
  const auto attempt = [&](const std::string& name, const std::string& content) {
    try {
      const Array array = read(name, content);
      EXPECT_EQ(array.data.size(), static_cast<std::size_t>(array.count()) * info_of(array.element).size);
      ++read_well;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), exit_bad_input) << failure.what();
      ++refused;
    }
  };
  for (const auto& [name, content] : files) {
    for (std::size_t i = 0; i < content.size(); ++i) {
      attempt(name, content.substr(0, i));
      for (const int change : {0x01, 0x80, 0xff, 0x20}) {
        std::string changed = content;
        changed[i] = static_cast<char>(changed[i] ^ change);
        attempt(name, changed);
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(read_well, 50);  // changed elements are still elements
}

TEST(FileName, SplitsAtTheFormat) {
  EXPECT_EQ(parse_file_name("a.npy", "--query").path, "a.npy");
  EXPECT_EQ(parse_file_name("d:x/a.npz:w.npz:1", "--query").path, "d:x/a.npz");
  EXPECT_EQ(parse_file_name("d:x/a.npz:w.npz:1", "--query").name, "w.npz:1");
  EXPECT_EQ(parse_file_name("a.safetensors:layer5.query", "--query").name, "layer5.query");
  EXPECT_EQ(parse_file_name("a.safetensors", "--query").name, "");
  EXPECT_THROW(parse_file_name("a.txt", "--query"), Failure);
  EXPECT_THROW(parse_file_name("", "--query"), Failure);
}

}  // namespace
}  // namespace dhyan::app
