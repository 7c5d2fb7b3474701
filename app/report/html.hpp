// SPDX-License-Identifier: Apache-2.0
// report.html: one file that needs nothing else.
#pragma once

#include <span>
#include <string>

#include "report/document.hpp"

namespace dhyan::report {

// The page of one run; of several it shows their series in the same charts and their rows side by side. `names` tells the runs
// apart (file names, say); as many as documents.
std::string html_page(std::span<const Document> documents, std::span<const std::string> names);

// Whether charts were built in (configure found Vega). Without them the page has tables only.
bool html_has_charts();

}  // namespace dhyan::report
