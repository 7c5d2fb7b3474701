// SPDX-License-Identifier: Apache-2.0
// Words of the command line turned into values; what is wrong is said in one sentence: argument, value, rule.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/devices.hpp"
#include "dhyan/dhyan.hpp"
#include "io/array.hpp"

namespace dhyan::app {

std::int64_t parse_integer(std::string_view argument, std::string_view text, std::int64_t least, std::int64_t most);
std::uint64_t parse_seed(std::string_view argument, std::string_view text);
// Finite; `rule` describes what `holds` asks.
double parse_number(std::string_view argument, std::string_view text, bool (*holds)(double), std::string_view rule);
// Exactly N integers, comma-separated.
template <std::size_t N>
std::array<std::int64_t, N> parse_tuple(std::string_view argument, std::string_view text, std::int64_t least);
// "256,173,37"
std::vector<std::int64_t> parse_integers(std::string_view argument, std::string_view text, std::int64_t least,
                                         std::int64_t most);
// Lists and ranges: "64,128", "64:4096:x2", "64:512:+64", and these joined by commas.
std::vector<std::int64_t> parse_axis(std::string_view argument, std::string_view text, std::int64_t least, std::int64_t most);

std::vector<std::string> split(std::string_view text, char separator);

Implementation parse_implementation(std::string_view argument, std::string_view text);
Element parse_dtype(std::string_view argument, std::string_view text);  // floating types only
Causal parse_causal(std::string_view argument, std::string_view text);
// auto, cpu, cuda or cuda:NUMBER; refuses one that is not there and lists those that are.
Device parse_device(std::string_view argument, std::string_view text);
// The help of --device.
inline constexpr std::string_view device_help = "auto (the first GPU that works, else the CPU), cpu, cuda or cuda:NUMBER";

std::string_view name_of(Implementation implementation);
std::string_view name_of(Causal causal);  // as typed: off, top-left, bottom-right

// All but automatic, in the order of tables.
inline constexpr Implementation implementations[] = {Implementation::reference, Implementation::naive, Implementation::fused,
                                                     Implementation::cudnn};

}  // namespace dhyan::app
