// SPDX-License-Identifier: Apache-2.0
// Pieces of the page. Whatever they show is escaped here and nowhere else.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/side_by_side.hpp"
#include "report/vega.hpp"

namespace dhyan::report::html {

std::string escaped(const std::string& text);
// In the language the reader chose, or in English where there is no Hindi.
std::string words(const Text& text);
std::string paragraph(const Text& text, std::string_view style_class = "");
// Inside a <script> that holds data.
std::string json(const nlohmann::ordered_json& value);

std::string table(const Table& table);
// A figure; without Vega nothing.
std::string chart(std::span<const RunChart> charts);
std::string code(const Code& code);
std::string checks(std::span<const RunStep> steps);
// All timed calls, closed until the reader opens them.
std::string timings(std::span<const RunStep> steps);
// "passed" and the like, in colour.
std::string verdict(Verdict verdict);

}  // namespace dhyan::report::html
