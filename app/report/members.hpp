// SPDX-License-Identifier: Apache-2.0
// What of the document stands in results.json, and under which name: said once, for writing and for reading.
#pragma once

#include <string_view>
#include <tuple>

#include "report/document.hpp"

namespace dhyan::report {

// The words of an enum, in its order.
template <class Enum>
inline constexpr int words = 0;
template <>
inline constexpr std::string_view words<Marker>[] = {"circle", "square", "diamond", "triangle"};
template <>
inline constexpr std::string_view words<ChartKind>[] = {"bars", "lines", "heat"};
template <>
inline constexpr std::string_view words<Better>[] = {"none", "lower", "higher"};
template <>
inline constexpr std::string_view words<Verdict>[] = {"passed", "failed", "informative", "not_run"};
template <>
inline constexpr std::string_view words<Outcome>[] = {"done", "not_available", "skipped", "interrupted"};

// The "type" of each alternative of Block.
inline constexpr std::string_view block_types[] = {"paragraph", "code", "table", "chart"};

template <class Struct, class Type>
struct Member {
  std::string_view name;
  Type Struct::*place;
};
template <class Struct, class Type>
Member(std::string_view, Type Struct::*) -> Member<Struct, Type>;

template <class Struct>
inline constexpr std::tuple<> members{};
template <>
inline constexpr std::tuple members<Text> = {Member{"en", &Text::en}, Member{"hi", &Text::hi}};
template <>
inline constexpr std::tuple members<Cell> = {Member{"text", &Cell::text}, Member{"value", &Cell::value},
                                             Member{"hi", &Cell::hi}};
template <>
inline constexpr std::tuple members<Column> = {Member{"key", &Column::key}, Member{"title", &Column::title},
                                               Member{"numeric", &Column::numeric}};
template <>
inline constexpr std::tuple members<Table> = {Member{"key", &Table::key}, Member{"title", &Table::title},
                                              Member{"columns", &Table::columns}, Member{"rows", &Table::rows}};
template <>
inline constexpr std::tuple members<Point> = {Member{"x", &Point::x}, Member{"y", &Point::y}, Member{"low", &Point::low},
                                              Member{"high", &Point::high}};
template <>
inline constexpr std::tuple members<Series> = {Member{"key", &Series::key}, Member{"label", &Series::label},
                                               Member{"colour", &Series::colour}, Member{"marker", &Series::marker},
                                               Member{"points", &Series::points}};
template <>
inline constexpr std::tuple members<Heat> = {Member{"rows", &Heat::rows}, Member{"columns", &Heat::columns},
                                             Member{"values", &Heat::values}};
template <>
inline constexpr std::tuple members<Chart> = {Member{"key", &Chart::key},
                                              Member{"kind", &Chart::kind},
                                              Member{"title", &Chart::title},
                                              Member{"caption", &Chart::caption},
                                              Member{"alternative", &Chart::alternative},
                                              Member{"x_title", &Chart::x_title},
                                              Member{"y_title", &Chart::y_title},
                                              Member{"unit", &Chart::unit},
                                              Member{"better", &Chart::better},
                                              Member{"logarithmic", &Chart::logarithmic},
                                              Member{"baseline", &Chart::baseline},
                                              Member{"series", &Chart::series},
                                              Member{"heat", &Chart::heat}};
template <>
inline constexpr std::tuple members<Code> = {Member{"text", &Code::text}};
template <>
inline constexpr std::tuple members<Paragraph> = {Member{"text", &Paragraph::text}};
template <>
inline constexpr std::tuple members<Check> = {Member{"key", &Check::key},     Member{"name", &Check::name},
                                              Member{"value", &Check::value}, Member{"relation", &Check::relation},
                                              Member{"limit", &Check::limit}, Member{"verdict", &Check::verdict}};
template <>
inline constexpr std::tuple members<Timing> = {
    Member{"series", &Timing::series},       Member{"label", &Timing::label},          Member{"setting", &Timing::setting},
    Member{"median_ms", &Timing::median_ms}, Member{"p10_ms", &Timing::p10_ms},        Member{"p90_ms", &Timing::p90_ms},
    Member{"device_us", &Timing::device_us}, Member{"samples_ms", &Timing::samples_ms}};
template <>
inline constexpr std::tuple members<Step> = {
    Member{"number", &Step::number},   Member{"title", &Step::title},   Member{"explanation", &Step::explanation},
    Member{"outcome", &Step::outcome}, Member{"reason", &Step::reason}, Member{"blocks", &Step::blocks},
    Member{"notes", &Step::notes},     Member{"checks", &Step::checks}, Member{"timings", &Step::timings},
    Member{"seconds", &Step::seconds}};
// The file has the verdict too, which is computed.
template <>
inline constexpr std::tuple members<Document> = {
    Member{"schema_version", &Document::schema},   Member{"created", &Document::created},
    Member{"version", &Document::version},         Member{"device", &Document::device},
    Member{"device_name", &Document::device_name}, Member{"complete", &Document::complete},
    Member{"seconds", &Document::seconds},         Member{"settings", &Document::settings},
    Member{"machine", &Document::machine},         Member{"steps", &Document::steps}};

template <class Struct>
concept HasMembers = std::tuple_size_v<decltype(members<Struct>)> >
0;

}  // namespace dhyan::report
