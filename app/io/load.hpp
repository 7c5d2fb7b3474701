// SPDX-License-Identifier: Apache-2.0
// From the command line's F to a tensor: file.npy, file.npz:name, file.safetensors:name.
#pragma once

#include <string>

#include "io/array.hpp"

namespace dhyan::app {

struct FileName {
  enum class Format { npy, npz, safetensors };
  Format format = Format::npy;
  std::string path;
  std::string name;  // empty: none given
};

// Splits F. `argument` is the option it was given to, for the message.
FileName parse_file_name(const std::string& text, std::string_view argument);

// Reads one tensor. Throws Failure: what is wrong with the file, or that it cannot be had.
Array load_array(const std::string& text, std::string_view argument);

}  // namespace dhyan::app
