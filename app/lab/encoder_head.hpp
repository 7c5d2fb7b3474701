// SPDX-License-Identifier: Apache-2.0
// One head of a real sentence encoder, to show what weights look like: all-MiniLM-L6-v2 (Apache-2.0), layer 5, head 0, a text
// of 37 tokens. scripts/make_encoder_head.py writes the numbers.
#pragma once

#include <array>
#include <cstddef>

#include "dhyan/dhyan.hpp"
#include "report/document.hpp"

namespace dhyan::lab {

inline constexpr std::size_t encoder_tokens = 37, encoder_width = 32;
extern const std::array<float, encoder_tokens * encoder_width> encoder_query, encoder_key;

// Its weights as a heat map, computed by the library on the device; masked ones are hidden.
report::Chart encoder_heat_map(Causal causal, Device device);

}  // namespace dhyan::lab
