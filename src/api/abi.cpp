// SPDX-License-Identifier: Apache-2.0
#include "api/abi.hpp"

#include <limits>
#include <type_traits>

namespace dhyan::api {

// Padding at a struct's end would let a later header's member hide in an older client's garbage.
static_assert(sizeof(dhyan_tensor) == offsetof(dhyan_tensor, reserved) + sizeof(std::int32_t));
static_assert(sizeof(dhyan_options) == offsetof(dhyan_options, reserved) + sizeof(std::int32_t));
static_assert(sizeof(dhyan_problem) == offsetof(dhyan_problem, grad_sink) + sizeof(void*));
static_assert(sizeof(dhyan_buffers) == offsetof(dhyan_buffers, grad_sink) + sizeof(void*));
static_assert(sizeof(dhyan_device_description) == offsetof(dhyan_device_description, reserved_too) + sizeof(std::int32_t));

std::size_t checked_struct_size(const void* bytes, std::size_t known, std::size_t least, std::string_view name) {
  std::size_t size;
  std::memcpy(&size, bytes, sizeof size);
  if (size < least || size > kMaxStructSize) {
    throw core::Error(DHYAN_INVALID_ARGUMENT, std::string(name) + ": struct_size " + std::to_string(size) +
                                                  ", it must be set by the struct's init function (" + std::to_string(known) +
                                                  " here)");
  }
  const auto* byte = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = known; i < size; ++i) {
    if (byte[i] != 0) {
      throw core::Error(DHYAN_INVALID_ARGUMENT, std::string(name) + ": unknown non-zero field at byte " + std::to_string(i) +
                                                    ", this library (" + std::to_string(known) + " bytes) is older than the " +
                                                    "header that set it");
    }
  }
  return size;
}

template <>
dhyan_options defaults<dhyan_options>() {
  dhyan_options o{};
  o.struct_size = sizeof o;
  o.window_left = -1;
  o.window_right = -1;
  o.scale = std::numeric_limits<double>::quiet_NaN();
  return o;
}

std::size_t copy_text(std::string_view text, char* to, std::size_t size) {
  if (to != nullptr && size > 0) {
    const std::size_t count = std::min(text.size(), size - 1);
    text.copy(to, count);
    to[count] = '\0';
  }
  return text.size();
}

}  // namespace dhyan::api
