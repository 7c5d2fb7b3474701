// SPDX-License-Identifier: Apache-2.0
#include "report/json.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <set>
#include <type_traits>

#include "dhyan/dhyan.hpp"
#include "failure.hpp"
#include "report/members.hpp"

namespace dhyan::report {
namespace {

using app::refuse;
using app::shown;
using nlohmann::ordered_json;

// Far above any report, and little enough to be parsed in memory.
constexpr std::uintmax_t largest_file = 32 << 20;
constexpr int deepest = 32;
constexpr std::size_t most_members = 1000;  // of one object

template <class Enum>
concept HasWords = std::is_enum_v<Enum>;

// ---- Writing

ordered_json written(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }
ordered_json written(bool value) { return value; }
ordered_json written(int value) { return value; }
ordered_json written(std::int64_t value) { return value; }
ordered_json written(const std::string& value) { return value; }
ordered_json written(const ordered_json& value) { return value; }
ordered_json written(const std::optional<double>& value) { return value ? written(*value) : ordered_json(nullptr); }

template <HasWords Enum>
ordered_json written(Enum value) {
  return words<Enum>[static_cast<std::size_t>(value)];
}

ordered_json written(const std::vector<std::pair<std::string, std::string>>& pairs) {
  ordered_json object = ordered_json::object();
  for (const auto& [name, value] : pairs) object[name] = value;
  return object;
}

ordered_json written(const Block& block);

template <class Item>
ordered_json written(const std::vector<Item>& items);

template <HasMembers Struct>
ordered_json written(const Struct& object) {
  ordered_json json = ordered_json::object();
  std::apply([&](const auto&... member) { ((json[std::string(member.name)] = written(object.*member.place)), ...); },
             members<Struct>);
  return json;
}

template <class Item>
ordered_json written(const std::vector<Item>& items) {
  ordered_json array = ordered_json::array();
  for (const Item& item : items) array.push_back(written(item));
  return array;
}

ordered_json written(const Block& block) {
  ordered_json json = {{"type", block_types[block.index()]}};
  std::visit([&](const auto& content) { json.update(written(content)); }, block);
  return json;
}

ordered_json verdict_json(const Document& document) {
  const Tally tally = tally_of(document);
  return {{"text", written(verdict_of(document))},
          {"passed", tally.passed},
          {"failed", tally.failed},
          {"informative", tally.informative},
          {"not_run", tally.not_run}};
}

// ---- Reading

struct Broken {
  std::string sentence;
};

template <class... Args>
[[noreturn]] void broken(fmt::format_string<Args...> format, Args&&... args) {
  throw Broken{fmt::format(format, std::forward<Args>(args)...)};
}

// A value of the file, and how to get there from the top.
struct Value {
  const ordered_json& json;
  const Value* parent = nullptr;
  std::string_view name = {};  // in an object; empty: in an array
  std::size_t index = 0;

  std::string path() const {
    if (!parent) return "";
    const std::string before = parent->path();
    if (name.empty()) return fmt::format("{}[{}]", before, index);
    return before + (before.empty() ? "" : ".") + std::string(name);
  }
  [[noreturn]] void is_not(std::string_view what) const { broken("{} is not {}", parent ? path() : "the whole", what); }
};

void read(const Value& from, bool& to) {
  if (!from.json.is_boolean()) from.is_not("true or false");
  to = from.json.get<bool>();
}

template <std::integral Integer>
void read(const Value& from, Integer& to) {
  constexpr std::int64_t least = std::numeric_limits<Integer>::min(), most = std::numeric_limits<Integer>::max();
  const ordered_json& json = from.json;
  if (!json.is_number_integer()) from.is_not("an integer");
  const auto number = json.get<std::int64_t>();
  if ((json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{most}) || number < least || number > most) {
    from.is_not(fmt::format("between {} and {}", least, most));
  }
  to = static_cast<Integer>(number);
}

void read(const Value& from, double& to) {
  if (!from.json.is_number() && !from.json.is_null()) from.is_not("a number or null");
  to = from.json.is_null() ? std::numeric_limits<double>::quiet_NaN() : from.json.get<double>();
}

void read(const Value& from, std::optional<double>& to) {
  double number = 0;
  read(from, number);
  if (!from.json.is_null()) to = number;
}

void read(const Value& from, std::string& to) {
  if (!from.json.is_string()) from.is_not("a text");
  to = from.json.get_ref<const std::string&>();
}

void read(const Value& from, ordered_json& to) { to = from.json; }

template <HasWords Enum>
void read(const Value& from, Enum& to) {
  std::string word;
  read(from, word);
  for (std::size_t i = 0; i < std::size(words<Enum>); ++i) {
    if (word == words<Enum>[i]) {
      to = static_cast<Enum>(i);
      return;
    }
  }
  broken("{} is {}; it is one of {}", from.path(), shown(word), fmt::join(words<Enum>, ", "));
}

const ordered_json& object_of(const Value& from) {
  if (!from.json.is_object()) from.is_not("an object");
  return from.json;
}

void read(const Value& from, std::vector<std::pair<std::string, std::string>>& to) {
  for (const auto& [name, json] : object_of(from).items()) {
    to.emplace_back(name, "");
    read(Value{json, &from, name}, to.back().second);
  }
}

void read(const Value& from, Block& to);

template <class Item>
void read(const Value& from, std::vector<Item>& to) {
  if (!from.json.is_array()) from.is_not("a list");
  to.resize(from.json.size());
  for (std::size_t i = 0; i < to.size(); ++i) read(Value{from.json[i], &from, {}, i}, to[i]);
}

const ordered_json& member_of(const Value& object, std::string_view name) {
  const auto found = object_of(object).find(std::string(name));
  if (found == object.json.end()) broken("{} is missing", Value{object.json, &object, name}.path());
  return *found;
}

// All of a struct's members, and none but these and `more`.
template <HasMembers Struct>
void read_members(const Value& from, Struct& to, std::string_view more = {}) {
  std::apply(
      [&](const auto&... member) {
        (read(Value{member_of(from, member.name), &from, member.name}, to.*member.place), ...);
        for (const auto& [name, json] : from.json.items()) {
          if (((name != member.name) && ...) && name != more) {
            broken("{}{} is no member that a results.json has", from.parent ? from.path() + "." : "", shown(name));
          }
        }
      },
      members<Struct>);
}

template <HasMembers Struct>
void read(const Value& from, Struct& to) {
  read_members(from, to);
}

template <std::size_t... Index>
void read_block(const Value& from, Block& to, std::string_view type, std::index_sequence<Index...>) {
  const auto read_as = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
    if (type != block_types[I]) return false;
    read_members(from, to.emplace<I>(), "type");
    return true;
  };
  if (!(read_as(std::integral_constant<std::size_t, Index>()) || ...)) {
    broken("{}.type is {}; it is one of {}", from.path(), shown(type), fmt::join(block_types, ", "));
  }
}

void read(const Value& from, Block& to) {
  std::string type;
  read(Value{member_of(from, "type"), &from, "type"}, type);
  read_block(from, to, type, std::make_index_sequence<std::variant_size_v<Block>>());
}

void require_same_verdict(const Value& from, const Document& document) {
  struct Word {
    std::string_view name;
    int count;
  };
  const Tally tally = tally_of(document);
  Text text;
  read(Value{member_of(from, "text"), &from, "text"}, text);
  const Word counts[] = {
      {"passed", tally.passed}, {"failed", tally.failed}, {"informative", tally.informative}, {"not_run", tally.not_run}};
  for (const auto& [name, count] : counts) {
    int claimed = 0;
    read(Value{member_of(from, name), &from, name}, claimed);
    if (claimed != count) broken("verdict.{} is {} where the checks say {}", name, claimed, count);
  }
  if (from.json.size() != 1 + std::size(counts)) broken("verdict has members that a results.json has not");
}

// Refused while it is parsed: what is nested deeply enough to exhaust the stack, objects too large to search, a member twice.
class Guard {
 public:
  bool operator()(int depth, ordered_json::parse_event_t event, const ordered_json& parsed) {
    using Event = ordered_json::parse_event_t;
    if (depth > deepest) broken("it is nested more than {} deep", deepest);
    if (event == Event::object_start) {
      open_.emplace_back();
    } else if (event == Event::object_end) {
      open_.pop_back();
    } else if (event == Event::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!open_.back().insert(name).second) broken("it has the member {} twice in one object", shown(name));
      if (open_.back().size() > most_members) broken("it has an object of more than {} members", most_members);
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> open_;
};

std::string content_of(const std::string& file, std::string_view argument) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) refuse("{}: {} cannot be read: {}", argument, shown(file), error.message());
  if (!std::filesystem::is_regular_file(status)) refuse("{}: {} is not a regular file", argument, shown(file));
  std::ifstream stream(file, std::ios::binary);
  if (!stream) refuse("{}: {} cannot be read: {}", argument, shown(file), std::strerror(errno));
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error || size > largest_file) {
    refuse("{}: {} has {} bytes; a results.json has {} at most", argument, shown(file), size, largest_file);
  }
  std::string content(size, '\0');
  stream.read(content.data(), static_cast<std::streamsize>(size));
  if (static_cast<std::uintmax_t>(stream.gcount()) != size) refuse("{}: {} cannot be read to its end", argument, shown(file));
  return content;
}

Document document_from(const ordered_json& json) {
  const Value top{json};
  if (!json.is_object() || !json.contains("schema_version")) {
    broken("it is no object with a schema_version");
  }
  int schema = 0;
  read(Value{json["schema_version"], &top, "schema_version"}, schema);
  if (schema != schema_version) {
    const auto by = json.find("version");
    broken("its schema version is {}{}, and dhyan {} reads version {}; run the lab again, or use the dhyan that wrote it",
           schema, by != json.end() && by->is_string() ? " (of dhyan " + shown(by->get<std::string>()) + ")" : "",
           dhyan_version(), schema_version);
  }
  Document document;
  read_members(top, document, "verdict");
  require_same_verdict(Value{member_of(top, "verdict"), &top, "verdict"}, document);
  if (const std::string rule = broken_rule(document); !rule.empty()) throw Broken{rule};
  return document;
}

}  // namespace

std::string results_json(const Document& document) {
  ordered_json json = {{"schema_version", document.schema}, {"verdict", verdict_json(document)}};
  json.update(written(document));
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Document results_from(std::string_view content, const std::string& file, std::string_view argument) {
  Guard guard;
  std::string wrong;
  try {
    return document_from(ordered_json::parse(content, std::ref(guard)));
  } catch (const Broken& broken) {
    wrong = broken.sentence;
  } catch (const ordered_json::parse_error& error) {
    wrong = fmt::format("it is not JSON from byte {} on", error.byte);
  } catch (const ordered_json::out_of_range&) {
    wrong = "it has a number that no double holds";
  }
  refuse("{}: {} is no results.json that can be read: {}", argument, shown(file), wrong);
}

Document load_results(const std::string& file, std::string_view argument) {
  return results_from(content_of(file, argument), file, argument);
}

}  // namespace dhyan::report
