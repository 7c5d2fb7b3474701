// SPDX-License-Identifier: Apache-2.0
#include "support/files.hpp"

#include <zlib.h>

#include "io/npy.hpp"

namespace dhyan::testing {
namespace {

std::string deflated(const std::string& data) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, data.size()) + 16, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

template <class T>
std::string number_or(std::int64_t claimed, std::size_t truth) {
  return little_endian(static_cast<T>(claimed >= 0 ? static_cast<std::size_t>(claimed) : truth));
}

}  // namespace

std::string npy_file(const app::Array& array) { return app::npy_header(array) + std::string(app::as_text(array.data.bytes())); }

std::string npy_file(std::string_view dictionary, std::string_view data, int version) {
  const std::string text = std::string(dictionary) + "\n";
  std::string file = "\x93NUMPY";
  file += {static_cast<char>(version), '\0'};
  file += version == 1 ? little_endian(static_cast<std::uint16_t>(text.size()))
                       : little_endian(static_cast<std::uint32_t>(text.size()));
  return file + text + std::string(data);
}

std::string npy_dictionary(std::string_view descr, std::string_view shape) {
  return "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': " + std::string(shape) + ", }";
}

std::string zip_file(const std::vector<ZipEntry>& entries, std::string_view comment) {
  std::string file, directory;
  for (const ZipEntry& e : entries) {
    const std::string packed = e.deflate ? deflated(e.data) : e.data;
    const auto crc = static_cast<std::uint32_t>(
        e.claimed_crc >= 0
            ? e.claimed_crc
            : static_cast<std::int64_t>(crc32_z(0, reinterpret_cast<const Bytef*>(e.data.data()), e.data.size())));
    const auto method = static_cast<std::uint16_t>(e.method >= 0 ? e.method : e.deflate ? 8 : 0);
    // version needed, flags, method, time, date, checksum, sizes, length of the name, of the extra field
    const std::string common = little_endian<std::uint16_t>(20) + little_endian(static_cast<std::uint16_t>(e.flags)) +
                               little_endian(method) + little_endian<std::uint32_t>(0) + little_endian(crc) +
                               number_or<std::uint32_t>(e.claimed_packed_size, packed.size()) +
                               number_or<std::uint32_t>(e.claimed_size, e.data.size()) +
                               little_endian(static_cast<std::uint16_t>(e.name.size())) + little_endian<std::uint16_t>(0);
    directory += "PK\x01\x02" + little_endian<std::uint16_t>(20) + common;
    // comment length, disk, attributes, offset
    directory += std::string(10, '\0') + number_or<std::uint32_t>(e.claimed_offset, file.size()) + e.name;
    file += "PK\x03\x04" + common + e.name + packed;
  }
  const std::string count = little_endian(static_cast<std::uint16_t>(entries.size()));
  const std::string end = std::string("PK\x05\x06") + std::string(4, '\0') + count + count +
                          little_endian(static_cast<std::uint32_t>(directory.size())) +
                          little_endian(static_cast<std::uint32_t>(file.size())) +
                          little_endian(static_cast<std::uint16_t>(comment.size())) + std::string(comment);
  return file + directory + end;
}

std::string safetensors_file(std::string_view header, std::string_view data) {
  return little_endian(static_cast<std::uint64_t>(header.size())) + std::string(header) + std::string(data);
}

}  // namespace dhyan::testing
