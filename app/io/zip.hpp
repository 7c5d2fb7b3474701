// SPDX-License-Identifier: Apache-2.0
// The part of ZIP that numpy writes: stored and deflated members, ZIP64 sizes, no encryption, one disk.
#pragma once

#include <string>
#include <vector>

#include "io/bytes.hpp"

namespace dhyan::app {

struct ZipMember {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint64_t packed_size = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;  // of the packed bytes
};

// Every member of an archive, checked: all lie inside the file, none overlaps another, no name stands twice.
std::vector<ZipMember> read_zip_directory(Bytes archive, std::string_view file);

// The first bytes of a member, at most `most`.
std::string unpack_start(Bytes archive, const ZipMember& member, std::size_t most, std::string_view file);

// Unpacks all of a member: `skip` bytes are dropped, the rest must fill `into` exactly; the checksum covers both.
void unpack(Bytes archive, const ZipMember& member, std::size_t skip, std::span<std::byte> into, std::string_view file);

}  // namespace dhyan::app
