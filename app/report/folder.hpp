// SPDX-License-Identifier: Apache-2.0
// The folder a report goes to: report.html, results.json, tables/KEY.csv.
#pragma once

#include <string>

#include "report/document.hpp"

namespace dhyan::report {

class Folder {
 public:
  // Makes the folder and tries to write there, so that a long run does not end in vain. Throws app::Failure.
  Folder(std::string path, std::string argument);

  // Writes everything beside the old files and then moves it into place: an older report stays whole when this fails. A
  // document that is not complete never replaces a complete one: it goes to PATH/interrupted. Returns the folder it went to.
  std::string write(const Document& document) const;

 private:
  std::string path_, argument_;
};

}  // namespace dhyan::report
