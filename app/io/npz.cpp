// SPDX-License-Identifier: Apache-2.0
#include "io/npz.hpp"

#include <algorithm>

#include "io/names.hpp"
#include "io/npy.hpp"
#include "io/zip.hpp"

namespace dhyan::app {
namespace {

constexpr std::string_view suffix = ".npy";

std::vector<std::string> names_of(const std::vector<ZipMember>& members) {
  std::vector<std::string> names;
  for (const ZipMember& m : members) {
    if (m.name.ends_with(suffix)) names.push_back(m.name.substr(0, m.name.size() - suffix.size()));
  }
  return names;
}

}  // namespace

std::vector<std::string> npz_names(Bytes bytes, std::string_view file) { return names_of(read_zip_directory(bytes, file)); }

Array read_npz(Bytes bytes, std::string_view name, std::string_view file) {
  const std::vector<ZipMember> members = read_zip_directory(bytes, file);
  const auto found =
      std::ranges::find_if(members, [&](const ZipMember& m) { return m.name == std::string(name) + std::string(suffix); });
  if (found == members.end()) refuse_name(file, name, names_of(members));

  const std::string where = fmt::format("{}:{}", file, name);
  const std::string start = unpack_start(bytes, *found, longest_npy_header + 12, where);
  const NpyHeader header = read_npy_header(std::as_bytes(std::span(start)), where);
  if (found->size < header.data_offset || found->size - header.data_offset != header.data_bytes) {
    refuse("{}: its header says {} of {}, {} bytes, but {} bytes follow; they must be as many", where, shape_text(header.shape),
           info_of(header.element).name, header.data_bytes,
           found->size - std::min<std::uint64_t>(found->size, header.data_offset));
  }
  Array array(header.element, header.shape);
  unpack(bytes, *found, header.data_offset, array.data.bytes(), where);
  return array;
}

}  // namespace dhyan::app
