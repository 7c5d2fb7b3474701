// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "failure.hpp"

namespace dhyan::app {
namespace {

constexpr std::size_t longest_axis = 1000;

constexpr std::pair<std::string_view, Implementation> implementation_names[] = {{"auto", Implementation::automatic},
                                                                                {"reference", Implementation::reference},
                                                                                {"naive", Implementation::naive},
                                                                                {"fused", Implementation::fused},
                                                                                {"cudnn", Implementation::cudnn}};
constexpr std::pair<std::string_view, Causal> causal_names[] = {
    {"off", Causal::off}, {"top-left", Causal::top_left}, {"bottom-right", Causal::bottom_right}};

template <class T>
std::optional<T> whole_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class Names>
auto lookup(std::string_view argument, std::string_view text, const Names& names) {
  std::string list;
  for (const auto& [name, value] : names) {
    if (name == text) return value;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  refuse("{}: {} is none of {}", argument, shown(text), list);
}

// One part of an axis: a number or first:last:step.
void append_range(std::string_view argument, std::string_view text, std::int64_t least, std::int64_t most,
                  std::vector<std::int64_t>& values) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() == 1) {
    values.push_back(parse_integer(argument, text, least, most));
    return;
  }
  if (parts.size() != 3 || parts[2].size() < 2 || (parts[2][0] != 'x' && parts[2][0] != '+')) {
    refuse("{}: {} is neither a number nor a range such as 64:4096:x2 or 64:512:+64", argument, shown(text));
  }
  const std::int64_t first = parse_integer(argument, parts[0], least, most);
  const std::int64_t last = parse_integer(argument, parts[1], least, most);
  const bool times = parts[2][0] == 'x';
  const std::int64_t step = parse_integer(argument, std::string_view(parts[2]).substr(1), times ? 2 : 1, most);
  if (first > last) refuse("{}: the range {} ends before it begins", argument, shown(text));
  if (times && first == 0) refuse("{}: the range {} would stay at 0; begin at 1 or more", argument, shown(text));
  for (std::int64_t v = first; v <= last;) {
    if (values.size() >= longest_axis) refuse("{}: {} has over {} values", argument, shown(text), longest_axis);
    values.push_back(v);
    if (times ? __builtin_mul_overflow(v, step, &v) : __builtin_add_overflow(v, step, &v)) break;
  }
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0;;) {
    const std::size_t next = text.find(separator, at);
    parts.emplace_back(text.substr(at, next == std::string_view::npos ? next : next - at));
    if (next == std::string_view::npos) return parts;
    at = next + 1;
  }
}

std::int64_t parse_integer(std::string_view argument, std::string_view text, std::int64_t least, std::int64_t most) {
  const auto value = whole_number<std::int64_t>(text);
  if (!value || *value < least || *value > most) {
    refuse("{}: {} is not a whole number from {} to {}", argument, shown(text), least, most);
  }
  return *value;
}

std::uint64_t parse_seed(std::string_view argument, std::string_view text) {
  const auto value = whole_number<std::uint64_t>(text);
  if (!value) refuse("{}: {} is not a whole number from 0 to {}", argument, shown(text), UINT64_MAX);
  return *value;
}

double parse_number(std::string_view argument, std::string_view text, bool (*holds)(double), std::string_view rule) {
  const auto value = whole_number<double>(text);
  if (!value || !std::isfinite(*value) || !holds(*value)) refuse("{}: {} is not {}", argument, shown(text), rule);
  return *value;
}

template <std::size_t N>
std::array<std::int64_t, N> parse_tuple(std::string_view argument, std::string_view text, std::int64_t least) {
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() != N) refuse("{}: {} must be {} whole numbers with commas between them", argument, shown(text), N);
  std::array<std::int64_t, N> values{};
  for (std::size_t i = 0; i < N; ++i) values[i] = parse_integer(argument, parts[i], least, INT64_MAX);
  return values;
}
template std::array<std::int64_t, 2> parse_tuple(std::string_view, std::string_view, std::int64_t);
template std::array<std::int64_t, 4> parse_tuple(std::string_view, std::string_view, std::int64_t);

std::vector<std::int64_t> parse_integers(std::string_view argument, std::string_view text, std::int64_t least,
                                         std::int64_t most) {
  std::vector<std::int64_t> values;
  for (const std::string& part : split(text, ',')) values.push_back(parse_integer(argument, part, least, most));
  return values;
}

std::vector<std::int64_t> parse_axis(std::string_view argument, std::string_view text, std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> values;
  for (const std::string& part : split(text, ',')) append_range(argument, part, least, most, values);
  return values;
}

Implementation parse_implementation(std::string_view argument, std::string_view text) {
  return lookup(argument, text, implementation_names);
}

Causal parse_causal(std::string_view argument, std::string_view text) { return lookup(argument, text, causal_names); }

Element parse_dtype(std::string_view argument, std::string_view text) {
  constexpr std::pair<std::string_view, Element> names[] = {
      {"f64", Element::f64}, {"f32", Element::f32}, {"f16", Element::f16}, {"bf16", Element::bf16}};
  return lookup(argument, text, names);
}

Device parse_device(std::string_view argument, std::string_view text) {
  constexpr std::string_view rule = "is none of auto, cpu, cuda and cuda:NUMBER";
  if (text == "auto") return default_device();
  if (text == "cpu") return cpu;
  if (text != "cuda" && !text.starts_with("cuda:")) refuse("{}: {} {}", argument, shown(text), rule);
  const auto index = text == "cuda" ? 0 : whole_number<std::int32_t>(text.substr(5));
  if (!index || *index < 0) refuse("{}: {} {}", argument, shown(text), rule);
  std::string reason;
  try {
    describe(cuda(*index));
    return cuda(*index);
  } catch (const Error& error) {
    reason = error.what();
  }
  std::string found;
  const nlohmann::json machine = nlohmann::json::parse(info());
  for (const auto& device : machine.at("devices")) {
    const auto type = device.at("type").get<std::string>();
    found += (found.empty() ? "" : ", ") + (type == "cpu" ? type : type + ":" + device.at("index").dump());
  }
  refuse("{}: {} cannot be used: {}; found on this machine: {}", argument, text, reason, found);
}

std::string_view name_of(Implementation implementation) {
  return std::ranges::find(implementation_names, implementation, [](const auto& e) { return e.second; })->first;
}

std::string_view name_of(Causal causal) {
  return std::ranges::find(causal_names, causal, [](const auto& e) { return e.second; })->first;
}

}  // namespace dhyan::app
