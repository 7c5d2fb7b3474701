// SPDX-License-Identifier: Apache-2.0
// The edge of the C interface: structs of any header's size, messages, and the place where exceptions end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "dhyan/dhyan.h"

namespace dhyan::api {

// A struct larger than this was not initialised.
inline constexpr std::size_t kMaxStructSize = 4096;

// The size a client's struct says it has, checked; `bytes` is where the struct starts.
std::size_t checked_struct_size(const void* bytes, std::size_t known, std::size_t least, std::string_view name);

// Defaults of every member, struct_size included.
template <class Struct>
Struct defaults() {
  Struct s{};
  s.struct_size = sizeof(Struct);
  return s;
}
template <>
dhyan_options defaults<dhyan_options>();

// This library's own copy of a client's struct: missing members have their defaults, unknown ones must be zero. `least` is the
// size below which the struct cannot mean anything.
template <class Struct>
Struct read(const Struct* from, std::string_view name, std::size_t least = sizeof(std::size_t)) {
  if (from == nullptr) throw core::Error(DHYAN_INVALID_ARGUMENT, std::string(name) + ": NULL, a struct is required");
  const std::size_t size = checked_struct_size(from, sizeof(Struct), least, name);
  Struct s = defaults<Struct>();
  std::memcpy(static_cast<void*>(&s), from, std::min(size, sizeof(Struct)));
  s.struct_size = sizeof(Struct);
  return s;
}

// Writes defaults into a client's struct of `struct_size` bytes; a size that makes no sense leaves struct_size 0 or the struct
// untouched, and the call that reads it refuses.
template <class Struct>
void init(Struct* to, std::size_t struct_size) {
  if (to == nullptr || struct_size < sizeof(std::size_t)) return;
  if (struct_size > kMaxStructSize) {
    to->struct_size = 0;
    return;
  }
  Struct s = defaults<Struct>();
  s.struct_size = struct_size;
  std::memset(static_cast<void*>(to), 0, struct_size);
  std::memcpy(static_cast<void*>(to), &s, std::min(struct_size, sizeof(Struct)));
}

// Copies a text into a caller's buffer, cut to fit and zero-terminated; returns the whole text's length.
std::size_t copy_text(std::string_view text, char* to, std::size_t size);

// Runs `body`; whatever it throws becomes a status and a message.
template <class Body>
dhyan_status guarded(char* message, std::size_t size, const Body& body) noexcept {
  try {
    body();
    copy_text({}, message, size);
    return DHYAN_OK;
  } catch (const core::Error& error) {
    copy_text(error.what(), message, size);
    return error.status();
  } catch (const std::bad_alloc&) {
    copy_text("out of host memory", message, size);
    return DHYAN_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    copy_text("internal fault: ", message, size);
    const std::size_t used = std::min<std::size_t>(16, size);
    copy_text(error.what(), message == nullptr ? nullptr : message + used, size - used);
    return DHYAN_INTERNAL;
  } catch (...) {
    copy_text("internal fault", message, size);
    return DHYAN_INTERNAL;
  }
}

}  // namespace dhyan::api
