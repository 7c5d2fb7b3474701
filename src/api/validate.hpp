// SPDX-License-Identifier: Apache-2.0
// From what a client says to the validated, normalised problem.
#pragma once

#include <array>

#include "api/slots.hpp"
#include "api/tensor.hpp"
#include "core/problem.hpp"

namespace dhyan::api {

struct Validated {
  core::Problem problem;
  std::array<Layout, kSlots> layouts;  // alignment: what every run's pointer must have
  Pointers pointers{};                 // as the tensors carry them
};

// Throws Error with one sentence: argument, value, rule. `one_shot`: pointers are required, and alignments read off them.
Validated validate(const dhyan_problem* problem, dhyan_direction direction, const dhyan_device_description& device,
                   bool one_shot);

// Checks one run's pointers: present where the problem has a tensor with elements, absent where it has none, aligned.
void check_pointers(const std::array<Layout, kSlots>& layouts, const Pointers& pointers);

// Checks that no output shares memory with any other tensor.
void check_overlaps(const std::array<Layout, kSlots>& layouts, const Pointers& pointers, dhyan_direction direction);

}  // namespace dhyan::api
