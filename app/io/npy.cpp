// SPDX-License-Identifier: Apache-2.0
#include "io/npy.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace dhyan::app {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t deepest = 8;  // dimensions that are read; attention needs four

// The Python dictionary of a header: three keys, strings, a bool, a tuple of integers. Nothing else is a header.
class Dictionary {
 public:
  Dictionary(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  void read() {
    expect('{');
    while (!take('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr") {
        once(descr_seen_, key);
        if (peek() == '[') refuse("{}: its elements are records; only plain numbers are read", file_);
        descr_ = string();
      } else if (key == "fortran_order") {
        once(order_seen_, key);
        fortran_ = boolean();
      } else if (key == "shape") {
        once(shape_seen_, key);
        tuple();
      } else {
        refuse("{}: the header has an unknown key {}; it must have descr, fortran_order and shape only", file_, shown(key));
      }
      if (take(',')) continue;
      expect('}');
      break;
    }
    skip_spaces();
    if (at_ != text_.size()) broken("only spaces after the dictionary");
    if (!descr_seen_ || !order_seen_ || !shape_seen_) {
      refuse("{}: the header lacks {}; it must have descr, fortran_order and shape", file_,
             !descr_seen_   ? "descr"
             : !order_seen_ ? "fortran_order"
                            : "shape");
    }
  }

  std::string_view descr() const { return descr_; }
  bool fortran() const { return fortran_; }
  const Shape& shape() const { return shape_; }

 private:
  [[noreturn]] void broken(std::string_view expected) const {
    refuse("{}: the header is not a .npy header: expected {} at its byte {}, found {}", file_, expected, at_,
           at_ < text_.size() ? shown(text_.substr(at_, 12)) : "its end");
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) broken(fmt::format("'{}'", c));
  }
  void once(bool& seen, std::string_view key) {
    if (seen) refuse("{}: the header gives {} twice", file_, key);
    seen = true;
  }
  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') broken("a string");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) broken("a string that ends");
    const std::string_view result = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return result;
  }
  bool boolean() {
    skip_spaces();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    broken("True or False");
  }
  void tuple() {
    expect('(');
    while (!take(')')) {
      std::int64_t value = 0;
      const char first = peek();
      if (first == '-') refuse("{}: the header's shape has a negative dimension; dimensions are 0 or more", file_);
      if (first < '0' || first > '9') broken("a dimension");
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
        if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
            __builtin_add_overflow(value, static_cast<std::int64_t>(text_[at_] - '0'), &value)) {
          refuse("{}: a dimension in the header passes 2^63 - 1; no file holds that", file_);
        }
      }
      shape_.push_back(value);
      if (shape_.size() > deepest) refuse("{}: it has more than {} dimensions; attention needs at most 4", file_, deepest);
      if (take(',')) continue;
      if (shape_.size() == 1) broken("',' after the only dimension");
      expect(')');
      return;
    }
  }

  std::string_view text_, file_, descr_;
  std::size_t at_ = 0;
  bool fortran_ = false, descr_seen_ = false, order_seen_ = false, shape_seen_ = false;
  Shape shape_;
};

Element element_of(std::string_view descr, std::string_view file) {
  for (const ElementInfo& e : elements) {
    if (!e.npy.empty() && descr == e.npy) return e.element;
  }
  if (descr.size() > 1 && descr[0] == '>') {
    refuse("{}: its elements are big-endian ({}); only little-endian is read, as numpy's astype(\"<\" + …) writes it", file,
           shown(descr));
  }
  if (descr == "<V2" || descr == "|V2") {
    refuse("{}: dtype {} has no meaning of its own (numpy writes bfloat16 like this); store bfloat16 in a safetensors file",
           file, shown(descr));
  }
  refuse("{}: dtype {} is not read; use float64, float32, float16, bool, uint8, int32 or int64", file, shown(descr));
}

}  // namespace

NpyHeader read_npy_header(Bytes bytes, std::string_view file) {
  const Reader reader(bytes, file);
  if (bytes.size() < magic.size() || as_text(bytes.first(magic.size())) != magic) {
    refuse("{}: not a .npy file; those start with \\x93NUMPY", file);
  }
  const auto major = reader.number<std::uint8_t>(6, "the version");
  const auto minor = reader.number<std::uint8_t>(7, "the version");
  if (major < 1 || major > 3 || minor != 0) {
    refuse("{}: .npy version {}.{} is not read; versions 1.0, 2.0 and 3.0 are", file, major, minor);
  }
  const std::size_t start = major == 1 ? 10 : 12;
  const std::uint64_t length = major == 1 ? reader.number<std::uint16_t>(8, "the header's length")
                                          : reader.number<std::uint32_t>(8, "the header's length");
  if (length > longest_npy_header) {
    refuse("{}: the header claims {} bytes; at most {} are read", file, length, longest_npy_header);
  }
  const std::string_view text = as_text(reader.at(start, length, "the header"));
  if (text.empty() || text.back() != '\n') refuse("{}: the header does not end in a line break as .npy headers do", file);
  if (text.find('\0') != std::string_view::npos) refuse("{}: the header holds zero bytes; it must be text", file);
  Dictionary dictionary(text, file);
  dictionary.read();

  NpyHeader header;
  header.element = element_of(dictionary.descr(), file);
  header.shape = dictionary.shape();
  const auto count = count_of(header.shape);
  const auto size = count ? bytes_of(*count, info_of(header.element).size) : std::nullopt;
  if (!size) refuse("{}: shape {} passes 2^63 bytes; no file holds that", file, shape_text(header.shape));
  // With one dimension or none the two orders are the same.
  if (dictionary.fortran() && header.shape.size() > 1) {
    refuse("{}: its elements are in Fortran order; only C order is read, as numpy.ascontiguousarray makes it", file);
  }
  header.data_offset = start + length;
  header.data_bytes = static_cast<std::size_t>(*size);
  return header;
}

Array read_npy(Bytes bytes, std::string_view file) {
  const NpyHeader header = read_npy_header(bytes, file);
  const std::size_t held = bytes.size() - header.data_offset;
  if (held != header.data_bytes) {
    refuse("{}: its header says {} of {}, {} bytes, but {} bytes follow; they must be as many", file, shape_text(header.shape),
           info_of(header.element).name, header.data_bytes, held);
  }
  Array array(header.element, header.shape);
  std::ranges::copy(bytes.subspan(header.data_offset), array.data.data());
  return array;
}

std::string npy_header(const Array& array) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", info_of(array.element).npy,
                                 fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  constexpr std::size_t preamble = 10, alignment = 64;
  const std::size_t whole = (preamble + text.size() + 1 + alignment - 1) / alignment * alignment;
  text.resize(whole - preamble - 1, ' ');
  text += '\n';
  std::string header(magic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace dhyan::app
