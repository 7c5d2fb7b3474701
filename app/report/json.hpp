// SPDX-License-Identifier: Apache-2.0
// results.json: docs/results-schema.json describes it.
#pragma once

#include <string>
#include <string_view>

#include "report/document.hpp"

namespace dhyan::report {

std::string results_json(const Document& document);

// A stored document. `argument` is the word of the command line it came from. Throws app::Failure with one sentence when the
// file cannot be read, is no results.json, breaks its own rules, or has another schema version (which is named).
Document load_results(const std::string& file, std::string_view argument);
// The same from its text.
Document results_from(std::string_view content, const std::string& file, std::string_view argument);

}  // namespace dhyan::report
