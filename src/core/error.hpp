// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "dhyan/dhyan.h"

namespace dhyan::core {

// Thrown inside the library only; the C interface turns it into a status and a message.
class Error : public std::runtime_error {
 public:
  Error(dhyan_status status, const std::string& sentence) : std::runtime_error(sentence), status_(status) {}
  dhyan_status status() const { return status_; }

 private:
  dhyan_status status_;
};

}  // namespace dhyan::core
