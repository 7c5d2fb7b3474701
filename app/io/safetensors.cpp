// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "io/names.hpp"

namespace dhyan::app {
namespace {

using json = nlohmann::json;

constexpr std::uint64_t longest_header = 100'000'000;  // the format's own rule
constexpr std::size_t deepest = 8;                     // dimensions

// Types that the format has and attention does not read: other tensors of a file may be of them.
struct OtherType {
  std::string_view name;
  std::size_t bits;
};
constexpr OtherType other_types[] = {{"I8", 8},      {"U16", 16},    {"I16", 16},    {"U32", 32},
                                     {"U64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
                                     {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"C64", 64}};

std::optional<std::size_t> bits_of(std::string_view type) {
  for (const ElementInfo& e : elements) {
    if (e.safetensors == type) return e.size * 8;
  }
  for (const OtherType& o : other_types) {
    if (o.name == type) return o.bits;
  }
  return std::nullopt;
}

struct Entry {
  std::string name, dtype;
  Shape shape;
  std::vector<std::uint64_t> offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Takes the JSON header's events and lets nothing pass that is not in the format.
class Header : public json::json_sax_t {
 public:
  explicit Header(std::string_view file) : file_(file) {}
  std::vector<Entry>& entries() { return entries_; }

  bool null() override { wrong("null"); }
  bool boolean(bool) override { wrong("a boolean"); }
  bool number_float(number_float_t, const string_t& text) override { wrong("the number " + shown(text)); }
  bool binary(binary_t&) override { wrong("binary data"); }
  bool number_integer(number_integer_t value) override {
    if (place_ == Place::shape || place_ == Place::offsets) {
      refuse("{}: the header gives tensor {} the number {}; dimensions and offsets are 0 or more", file_,
             shown(entries_.back().name), value);
    }
    wrong(fmt::format("the number {}", value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      Shape& shape = entries_.back().shape;
      if (value > static_cast<std::uint64_t>(INT64_MAX)) {
        refuse("{}: the header gives tensor {} a dimension past 2^63 - 1; no file holds that", file_,
               shown(entries_.back().name));
      }
      if (shape.size() == deepest) {
        refuse("{}: tensor {} has more than {} dimensions; attention needs at most 4", file_, shown(entries_.back().name),
               deepest);
      }
      shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (place_ != Place::offsets) wrong(fmt::format("the number {}", value));
    std::vector<std::uint64_t>& offsets = entries_.back().offsets;
    if (offsets.size() == 2) refuse("{}: tensor {} has over two data_offsets", file_, shown(entries_.back().name));
    offsets.push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (place_ == Place::metadata) return true;
    if (place_ != Place::field || key_ != "dtype") wrong("the string " + shown(value));
    entries_.back().dtype = value;
    return true;
  }
  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::outside:
        place_ = Place::top;
        return true;
      case Place::top:
        if (key_ == "__metadata__") {
          place_ = Place::metadata;
          keys_.clear();
        } else {
          entries_.emplace_back().name = key_;
          place_ = Place::field;
        }
        return true;
      default:
        wrong("an object");
    }
  }
  bool key(string_t& value) override {
    key_ = value;
    if (place_ == Place::top) {
      if (!names_.insert(value).second) refuse("{}: the header gives {} twice", file_, shown(value));
    } else if (place_ == Place::metadata) {
      if (!keys_.insert(value).second) refuse("{}: the header's __metadata__ gives {} twice", file_, shown(value));
    } else {
      Entry& entry = entries_.back();
      bool& seen = value == "dtype" ? entry.has_dtype : value == "shape" ? entry.has_shape : entry.has_offsets;
      if (value != "dtype" && value != "shape" && value != "data_offsets") {
        refuse("{}: tensor {} has an unknown field {}; the format has dtype, shape and data_offsets", file_, shown(entry.name),
               shown(value));
      }
      if (seen) refuse("{}: tensor {} gives {} twice", file_, shown(entry.name), value);
      seen = true;
    }
    return true;
  }
  bool end_object() override {
    place_ = place_ == Place::top ? Place::outside : Place::top;
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::field || key_ == "dtype") wrong("a list");
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    return true;
  }
  bool end_array() override {
    place_ = Place::field;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    refuse("{}: the header is not valid JSON at its byte {}", file_, position);
  }

 private:
  enum class Place { outside, top, metadata, field, shape, offsets };

  [[noreturn]] void wrong(const std::string& what) const {
    const bool inside = place_ == Place::field || place_ == Place::shape || place_ == Place::offsets;
    refuse("{}: the header has {} where the format has none{}", file_, what,
           inside ? ", in tensor " + shown(entries_.back().name) : "");
  }

  std::string_view file_;
  std::vector<Entry> entries_;
  std::unordered_set<std::string> names_, keys_;
  std::string key_;
  Place place_ = Place::outside;
};

// The bytes an entry's dtype and shape call for.
std::uint64_t extent_of(const Entry& e, std::string_view file) {
  if (!e.has_dtype || !e.has_shape || !e.has_offsets || e.offsets.size() != 2) {
    refuse("{}: tensor {} lacks {}; it must have dtype, shape and two data_offsets", file, shown(e.name),
           !e.has_dtype   ? "dtype"
           : !e.has_shape ? "shape"
                          : "data_offsets");
  }
  const auto bits = bits_of(e.dtype);
  if (!bits) refuse("{}: tensor {} has the unknown dtype {}", file, shown(e.name), shown(e.dtype));
  const auto count = count_of(e.shape);
  const auto total = count ? bytes_of(*count, *bits) : std::nullopt;
  if (!total)
    refuse("{}: tensor {} of shape {} passes 2^63 bits; no file holds that", file, shown(e.name), shape_text(e.shape));
  if (*total % 8 != 0) refuse("{}: tensor {} does not end on a whole byte", file, shown(e.name));
  return static_cast<std::uint64_t>(*total) / 8;
}

// All entries, each with its place in the data; the data is covered exactly once.
std::vector<Entry> read_entries(Bytes bytes, std::string_view file, Bytes& data) {
  const Reader reader(bytes, file);
  if (bytes.size() < 8)
    refuse("{}: {} bytes are no safetensors file; it begins with 8 bytes of header length", file, bytes.size());
  const auto length = reader.number<std::uint64_t>(0, "");
  if (length > longest_header) {
    refuse("{}: not a safetensors file, or damaged: its header would have {} bytes; the format allows {}", file, length,
           longest_header);
  }
  const std::string_view text = as_text(reader.at(8, length, "the header"));
  if (text.empty() || text.front() != '{') refuse("{}: not a safetensors file: its header must begin with '{{'", file);
  // The format pads with spaces; JSON itself would let other white space and a zero byte stand at the end.
  const std::size_t last = text.find_last_not_of(' ');
  if (text[last] != '}') refuse("{}: the header must end with '}}' and spaces", file);
  Header header(file);
  json::sax_parse(text.begin(), text.end(), &header);

  data = bytes.subspan(8 + length);
  std::vector<Entry> entries = std::move(header.entries());
  std::vector<const Entry*> order;
  for (const Entry& e : entries) {
    const std::uint64_t extent = extent_of(e, file);
    const std::uint64_t begin = e.offsets[0], end = e.offsets[1];
    if (begin > end || end > data.size()) {
      refuse("{}: tensor {} would lie at bytes {} to {} of the data, which has {}; the file is truncated or damaged", file,
             shown(e.name), begin, end, data.size());
    }
    if (end - begin != extent) {
      refuse("{}: tensor {} of {} {} takes {} bytes, its data_offsets hold {}; they must be as many", file, shown(e.name),
             shape_text(e.shape), e.dtype, extent, end - begin);
    }
    order.push_back(&e);
  }
  std::ranges::sort(order, [](const Entry* a, const Entry* b) { return a->offsets < b->offsets; });
  std::uint64_t at = 0;
  for (const Entry* e : order) {
    if (e->offsets[0] < at) {
      refuse("{}: tensor {} begins at byte {} of the data, inside another tensor; tensors must not overlap", file,
             shown(e->name), e->offsets[0]);
    }
    if (e->offsets[0] > at) {
      refuse("{}: bytes {} to {} of the data belong to no tensor; the format allows no gaps", file, at, e->offsets[0]);
    }
    at = e->offsets[1];
  }
  if (at != data.size()) refuse("{}: {} bytes follow the last tensor; nothing may", file, data.size() - at);
  return entries;
}

std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& e : entries) names.push_back(e.name);
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::vector<std::string> safetensors_names(Bytes bytes, std::string_view file) {
  Bytes data;
  return names_of(read_entries(bytes, file, data));
}

Array read_safetensors(Bytes bytes, std::string_view name, std::string_view file) {
  Bytes data;
  const std::vector<Entry> entries = read_entries(bytes, file, data);
  const auto found = std::ranges::find(entries, name, &Entry::name);
  if (found == entries.end()) refuse_name(file, name, names_of(entries));
  for (const ElementInfo& e : elements) {
    if (e.safetensors != found->dtype) continue;
    Array array(e.element, found->shape);
    std::ranges::copy(data.subspan(found->offsets[0], array.data.size()), array.data.data());
    return array;
  }
  refuse("{}:{}: dtype {} is not read; use F64, F32, F16, BF16, BOOL, U8, I32 or I64", file, name, found->dtype);
}

std::string safetensors_header(std::span<const NamedArray> tensors, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const auto& [name, text] : metadata) header["__metadata__"][name] = text;
  std::uint64_t at = 0;
  for (const NamedArray& t : tensors) {
    header[t.name] = {{"dtype", std::string(info_of(t.array->element).safetensors)},
                      {"shape", t.array->shape},
                      {"data_offsets", {at, at + t.array->data.size()}}};
    at += t.array->data.size();
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins aligned
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

}  // namespace dhyan::app
