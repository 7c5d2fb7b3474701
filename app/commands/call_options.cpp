// SPDX-License-Identifier: Apache-2.0
#include "commands/call_options.hpp"

#include <algorithm>
#include <limits>

#include "arguments.hpp"
#include "failure.hpp"
#include "io/load.hpp"

namespace dhyan::app {
namespace {

constexpr std::int64_t most_threads = 1024;  // the library's own limit

bool is_list(const std::string& text) { return text.find_first_not_of("0123456789,-") == std::string::npos; }

// A list such as 256,173,37 or a file of i32 or i64. Lengths become i32; offsets keep i64.
Array load_integers(std::string_view argument, const std::string& text, bool keep_wide) {
  constexpr std::int64_t least = std::numeric_limits<std::int32_t>::min(), most = std::numeric_limits<std::int32_t>::max();
  if (is_list(text)) {
    const std::vector<std::int64_t> values = parse_integers(argument, text, least, most);
    Array array(Element::i32, {static_cast<std::int64_t>(values.size())});
    std::ranges::transform(values, array.as<std::int32_t>().begin(),
                           [](std::int64_t v) { return static_cast<std::int32_t>(v); });
    return array;
  }
  Array array = load_array(text, argument);
  if (array.element != Element::i32 && array.element != Element::i64) {
    refuse("{}: {} holds {}; it must hold i32 or i64", argument, text, info_of(array.element).name);
  }
  if (array.element == Element::i32 || keep_wide) return array;
  Array narrow(Element::i32, array.shape);
  for (std::int64_t i = 0; i < array.count(); ++i) {
    const std::int64_t v = array.as<std::int64_t>()[i];
    if (v < least || v > most) refuse("{}: {} holds {}; lengths must fit 32 bits", argument, text, v);
    narrow.as<std::int32_t>()[i] = static_cast<std::int32_t>(v);
  }
  return narrow;
}

Array load_floating(std::string_view argument, const std::string& text) {
  Array array = load_array(text, argument);
  if (!is_floating(array.element)) {
    refuse("{}: {} holds {}; it must hold f64, f32, f16 or bf16", argument, text, info_of(array.element).name);
  }
  return array;
}

// To `element`, with a note where that loses digits.
Array as_element(std::string_view argument, Array array, Element element, std::vector<std::string>& notes) {
  if (array.element == element) return array;
  notes.push_back(fmt::format("{}: converted from {} to {}", argument, info_of(array.element).name, info_of(element).name));
  return convert_array(array, element);
}

// Booleans of one byte, 0 or 1; in u8 every other number but 0 keeps too.
Array load_mask(const std::string& text) {
  Array array = load_array(text, "--mask");
  if (array.element != Element::boolean && array.element != Element::u8) {
    refuse("--mask: {} holds {}; it must hold bool or u8", text, info_of(array.element).name);
  }
  for (std::uint8_t& byte : array.as<std::uint8_t>()) {
    if (array.element == Element::boolean && byte > 1)
      refuse("--mask: {} holds the byte {} as a bool; 0 and 1 are", text, byte);
    byte = byte != 0;
  }
  array.element = Element::boolean;
  return array;
}

}  // namespace

void CallOptions::add_to(CLI::App& command) {
  const auto file = [&](const char* name, std::string& target, const char* text) {
    return command.add_option(name, target, text)->type_name("F");
  };
  file("--query", query, "Queries, BTNH or (with offsets) THD")->required();
  file("--key", key, "Keys")->required();
  file("--value", value, "Values; their head dimension may differ")->required();
  command.add_option("--dtype", dtype, "Convert inputs first: f64, f32, f16, bf16")->type_name("TYPE");
  command.add_option("--causal", causal, "off, top-left (also without a value) or bottom-right")
      ->expected(0, 1)
      ->type_name("ALIGNMENT");
  command.add_option("--window", window, "Keys from L before to R after the query; -1: no limit")->type_name("L,R");
  command.add_option("--scale", scale, "Multiplies QK^T; default 1/sqrt(head dimension)")->type_name("X");
  command.add_option("--softcap", softcap, "Logits become X tanh(logits / X)")->type_name("X");
  file("--bias", bias, "Added to logits; broadcasts to [B, N, T, S]");
  file("--mask", mask, "bool or u8, true keeps; broadcasts to [B, N, T, S]");
  command.add_option("--query-lengths", query_lengths, "Used queries per batch entry: 256,173,37 or a file")
      ->type_name("LIST|F");
  command.add_option("--key-lengths", key_lengths, "Used keys per batch entry")->type_name("LIST|F");
  command.add_option("--query-offsets", query_offsets, "Packed queries: B+1 starts")->type_name("LIST|F");
  command.add_option("--key-offsets", key_offsets, "Packed keys: B+1 starts")->type_name("LIST|F");
  file("--sink", sink, "One more logit per head, [N]");
  file("--alibi", alibi, "ALiBi slopes, [N] or [B, N]");
  command.add_option("--dropout", dropout, "Probability that a weight is dropped")->type_name("P");
  command.add_option("--seed", seed, "Seed of dropout, default 0")->type_name("N");
  command.add_option("--dropout-offset", dropout_offset, "Offset of dropout, default 0")->type_name("N");
  command.add_option("--origin", origin, "Where a shard lies in a larger problem: batch, head, query, key")
      ->type_name("B,N,T,S");
  file("--grad-out", grad_out, "Gradient of out: computes the gradients of all inputs too");
  file("--grad-lse", grad_lse, "Gradient of lse, added to it");
  command.add_option("--threads", threads, "CPU threads, default all")->type_name("N");
  command.add_option("--device", device, std::string(device_help))->type_name("DEVICE")->capture_default_str();
}

Call CallOptions::load(std::vector<std::string>& notes) const {
  const Device where = parse_device("--device", device);
  if (!on_host(where) && !threads.empty()) refuse("--threads: it is of the CPU; the device is {}", title_of(where));
  Call call;
  call.causal = causal.empty() ? Causal::top_left : parse_causal("--causal", causal);
  if (!window.empty()) {
    const auto sides = parse_tuple<2>("--window", window, -1);
    call.window = {sides[0], sides[1]};
  }
  if (!scale.empty())
    call.scale = parse_number(
        "--scale", scale, [](double) { return true; }, "a finite number");
  if (!softcap.empty()) {
    call.softcap = parse_number(
        "--softcap", softcap, [](double x) { return x > 0; }, "a finite number above 0");
  }
  if (!dropout.empty()) {
    call.dropout.probability = parse_number(
        "--dropout", dropout, [](double p) { return p >= 0 && p < 1; }, "a number from 0 up to, not including, 1");
  }
  if (dropout.empty() && (!seed.empty() || !dropout_offset.empty())) {
    refuse("{}: it does nothing without --dropout", seed.empty() ? "--dropout-offset" : "--seed");
  }
  if (!seed.empty()) call.dropout.seed = parse_seed("--seed", seed);
  if (!dropout_offset.empty()) call.dropout.offset = parse_seed("--dropout-offset", dropout_offset);
  if (!origin.empty()) {
    const auto at = parse_tuple<4>("--origin", origin, 0);
    call.origin = {at[0], at[1], at[2], at[3]};
  }
  if (!threads.empty()) call.threads = static_cast<std::int32_t>(parse_integer("--threads", threads, 1, most_threads));
  if (query_offsets.empty() != key_offsets.empty()) {
    refuse("{}: it needs {} beside it; packed sequences have both", query_offsets.empty() ? "--key-offsets" : "--query-offsets",
           query_offsets.empty() ? "--query-offsets" : "--key-offsets");
  }
  if (!grad_lse.empty() && grad_out.empty()) refuse("--grad-lse: it needs --grad-out beside it");

  std::optional<Element> wanted;
  if (!dtype.empty()) wanted = parse_dtype("--dtype", dtype);
  const auto input = [&](std::string_view argument, const std::string& text) {
    Array array = load_floating(argument, text);
    return wanted && *wanted != array.element ? convert_array(array, *wanted) : std::move(array);
  };
  call.query = input("--query", query);
  call.key = input("--key", key);
  call.value = input("--value", value);
  if (!bias.empty()) call.bias = load_floating("--bias", bias);
  if (!mask.empty()) call.mask = load_mask(mask);
  if (!query_lengths.empty()) call.query_lengths = load_integers("--query-lengths", query_lengths, false);
  if (!key_lengths.empty()) call.key_lengths = load_integers("--key-lengths", key_lengths, false);
  if (!query_offsets.empty()) call.query_offsets = load_integers("--query-offsets", query_offsets, true);
  if (!key_offsets.empty()) call.key_offsets = load_integers("--key-offsets", key_offsets, true);
  if (!sink.empty()) call.sink = as_element("--sink", load_floating("--sink", sink), Element::f32, notes);
  if (!alibi.empty()) call.alibi_slopes = as_element("--alibi", load_floating("--alibi", alibi), Element::f32, notes);
  if (!grad_out.empty()) {
    call.grad_out = as_element("--grad-out", load_floating("--grad-out", grad_out), call.element(), notes);
  }
  if (!grad_lse.empty()) {
    const Element lse = call.element() == Element::f64 ? Element::f64 : Element::f32;
    call.grad_lse = as_element("--grad-lse", load_floating("--grad-lse", grad_lse), lse, notes);
  }
  place(call, where);
  return call;
}

}  // namespace dhyan::app
