// SPDX-License-Identifier: Apache-2.0
// A client of the C interface: a problem whose tensors own their memory, each of which a test may spoil.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "api/slots.hpp"
#include "dhyan/dhyan.h"
#include "support/case.hpp"

namespace dhyan::testing {

struct Answer {
  dhyan_status status = DHYAN_OK;
  std::string message;
};

class Client {
 public:
  Client();
  // The same problem as an instance of a case; outputs in the arrays given. Tensors stay the instance's.
  Client(const Instance& instance, Forward& result);
  Client(const Instance& instance, Forward& given, Backward& gradients);

  // A contiguous tensor with memory of its own, floating types filled with random numbers, others with zeros.
  dhyan_tensor& add(api::Slot slot, dhyan_dtype dtype, const std::vector<std::int64_t>& shape);
  void remove(api::Slot slot) { given_[slot] = false; }
  void restore(api::Slot slot) { given_[slot] = true; }
  dhyan_tensor& operator[](api::Slot slot) { return tensors_[slot]; }

  // As the C interface takes them; valid until the client changes or goes.
  const dhyan_problem* problem();
  dhyan_buffers buffers() const;

  Answer run_once(dhyan_direction direction = DHYAN_FORWARD);
  Answer make_plan(dhyan_direction direction = DHYAN_FORWARD, const dhyan_device_description* device = nullptr);
  Answer run_plan(dhyan_direction direction = DHYAN_FORWARD);  // makes, runs and destroys

  dhyan_options options;

 private:
  void add_array(api::Slot slot, const Array& array, const std::vector<int>& dims);
  void add_inputs(const Instance& instance);

  std::array<dhyan_tensor, api::kSlots> tensors_;
  std::array<bool, api::kSlots> given_{};
  std::vector<std::vector<std::byte>> memory_;
  dhyan_problem problem_;
};

// Poisoned arrays for the gradients that a case asks for.
Backward gradient_arrays(const Instance& instance);

// Forward: batch 2, query length 3, key length 5, 4 query heads, 2 key heads, head_dim 8, value head_dim 6, with lse.
Client small_forward(dhyan_dtype dtype = DHYAN_F32);
// The same backward, for query, key and value; out and lse are a forward run's.
Client small_backward(dhyan_dtype dtype = DHYAN_F32);

}  // namespace dhyan::testing
