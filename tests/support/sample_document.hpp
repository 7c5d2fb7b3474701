// SPDX-License-Identifier: Apache-2.0
// Documents of a lab that never ran.
#pragma once

#include <string>
#include <vector>

#include "report/document.hpp"
#include "support/random.hpp"

namespace dhyan::testing {

// Small, and with one of everything: each kind of block, chart and outcome, English and Hindi.
report::Document sample_document();

// Any shape that keeps the rules, texts of hostile_texts() among others. Every number is finite.
report::Document random_document(Random& random);

// Valid UTF-8 that breaks what escapes, quotes or counts columns carelessly.
const std::vector<std::string>& hostile_texts();

}  // namespace dhyan::testing
