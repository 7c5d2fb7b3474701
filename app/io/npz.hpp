// SPDX-License-Identifier: Apache-2.0
// NumPy's .npz files: ZIP archives of .npy files.
#pragma once

#include <string>
#include <vector>

#include "io/array.hpp"
#include "io/bytes.hpp"

namespace dhyan::app {

// The arrays' names, without ".npy", in the file's order.
std::vector<std::string> npz_names(Bytes bytes, std::string_view file);
// One array. Throws Failure with one sentence that names `file`.
Array read_npz(Bytes bytes, std::string_view name, std::string_view file);

}  // namespace dhyan::app
