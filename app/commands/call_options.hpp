// SPDX-License-Identifier: Apache-2.0
// The options that describe one attention call by files and numbers.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "problem/call.hpp"

namespace dhyan::app {

struct CallOptions {
  std::string query, key, value, bias, mask, query_lengths, key_lengths, query_offsets, key_offsets, sink, alibi, grad_out,
      grad_lse;
  std::string dtype, causal = "off", window, scale, softcap, dropout, seed, dropout_offset, origin, threads, device = "auto";

  void add_to(CLI::App& command);
  // Reads the files; the tensors are then on the device. `notes` receives what was converted on the way.
  Call load(std::vector<std::string>& notes) const;
};

}  // namespace dhyan::app
