// SPDX-License-Identifier: Apache-2.0
#include "io/zip.hpp"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <unordered_set>

namespace dhyan::app {
namespace {

constexpr std::uint32_t end_signature = 0x06054b50;
constexpr std::uint32_t end64_signature = 0x06064b50;
constexpr std::uint32_t locator64_signature = 0x07064b50;
constexpr std::uint32_t central_signature = 0x02014b50;
constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::size_t end_size = 22, end64_size = 56, locator64_size = 20, central_size = 46, local_size = 30;
constexpr std::uint32_t in_zip64 = 0xffffffff;  // a size or offset that is kept in the ZIP64 field
constexpr std::uint64_t deflate_limit = 1032;   // no deflate stream expands more than this
constexpr std::uint64_t modest_size = 256u << 20, modest_ratio = 100;

struct Directory {
  std::uint64_t entries = 0, size = 0, offset = 0;
};

std::size_t find_end(const Reader& archive) {
  constexpr std::size_t longest_comment = 65535;
  if (archive.size() >= end_size) {
    const std::size_t last = archive.size() - end_size;
    for (std::size_t back = 0; back <= std::min(last, longest_comment); ++back) {
      if (archive.number<std::uint32_t>(last - back, "") != end_signature) continue;
      if (archive.number<std::uint16_t>(last - back + 20, "") == back) return last - back;
    }
  }
  refuse("{}: not a .npz file, or truncated, or with bytes after its end; the record that ends a ZIP archive is missing",
         archive.file());
}

Directory find_directory(const Reader& archive) {
  const std::size_t end = find_end(archive);
  Directory directory{archive.number<std::uint16_t>(end + 10, ""), archive.number<std::uint32_t>(end + 12, ""),
                      archive.number<std::uint32_t>(end + 16, "")};
  const auto disk = archive.number<std::uint16_t>(end + 4, ""), first_disk = archive.number<std::uint16_t>(end + 6, "");
  std::uint64_t records_at = end;
  const bool is_zip64 = directory.entries == 0xffff || directory.size == in_zip64 || directory.offset == in_zip64;
  if (is_zip64 && end >= locator64_size && archive.number<std::uint32_t>(end - locator64_size, "") == locator64_signature) {
    const auto end64 = archive.number<std::uint64_t>(end - locator64_size + 8, "");
    if (archive.number<std::uint32_t>(end64, "the ZIP64 end record") != end64_signature ||
        end64 + end64_size != end - locator64_size) {
      refuse("{}: the ZIP64 end record is not where its locator says", archive.file());
    }
    directory = {archive.number<std::uint64_t>(end64 + 32, ""), archive.number<std::uint64_t>(end64 + 40, ""),
                 archive.number<std::uint64_t>(end64 + 48, "")};
    records_at = end64;
  } else if (disk != 0 || first_disk != 0) {
    refuse("{}: the archive spans several disks; only whole archives are read", archive.file());
  }
  archive.at(directory.offset, directory.size, "the archive's directory");
  if (directory.offset + directory.size != records_at) {
    refuse("{}: the archive's directory ends at byte {}, its end record begins at byte {}; they must meet", archive.file(),
           directory.offset + directory.size, records_at);
  }
  if (directory.entries > directory.size / central_size) {
    refuse("{}: the archive claims {} members in a directory of {} bytes; each takes at least {}", archive.file(),
           directory.entries, directory.size, central_size);
  }
  return directory;
}

// Sizes and offset of 0xffffffff stand in the ZIP64 field, in this order.
void apply_zip64(const Reader& archive, std::uint64_t extra, std::uint64_t extra_size, ZipMember& member) {
  std::uint64_t* const wanted[] = {&member.size, &member.packed_size, &member.offset};
  if (std::ranges::none_of(wanted, [](const std::uint64_t* w) { return *w == in_zip64; })) return;
  const std::uint64_t extra_end = extra + extra_size;
  while (extra + 4 <= extra_end) {
    const auto id = archive.number<std::uint16_t>(extra, "");
    std::uint64_t at = extra + 4;
    const std::uint64_t field_end = at + archive.number<std::uint16_t>(extra + 2, "");
    if (field_end > extra_end) break;
    if (id == 1) {
      for (std::uint64_t* w : wanted) {
        if (*w != in_zip64) continue;
        if (at + 8 > field_end) refuse("{}: the ZIP64 sizes of {} are cut short", archive.file(), shown(member.name));
        *w = archive.number<std::uint64_t>(at, "");
        at += 8;
      }
      return;
    }
    extra = field_end;
  }
  // Without the field the number is what it says.
}

// Moves `offset` from the local header to the packed bytes. Returns the local header's start.
std::uint64_t locate(const Reader& archive, ZipMember& member) {
  const std::uint64_t start = member.offset;
  archive.at(start, local_size, "a member's header");
  const auto name_size = archive.number<std::uint16_t>(start + 26, ""), extra = archive.number<std::uint16_t>(start + 28, "");
  if (archive.number<std::uint32_t>(start, "") != local_signature ||
      as_text(archive.at(start + local_size, name_size, "a member's name")) != member.name) {
    refuse("{}: the directory's entry for {} does not point at that member", archive.file(), shown(member.name));
  }
  member.offset = start + local_size + name_size + extra;
  archive.at(member.offset, member.packed_size, "the member " + shown(member.name));
  return start;
}

class Inflater {
 public:
  Inflater(Bytes packed, std::string_view file, std::string_view name) : packed_(packed), file_(file), name_(name) {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) fail("{}: zlib could not start", file);
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Fills as much of `into` as there is; returns the bytes written.
  std::size_t read(std::span<std::byte> into) {
    constexpr std::size_t step = 1u << 30;  // zlib counts in 32 bits
    std::size_t done = 0;
    while (done < into.size() && !ended_) {
      if (stream_.avail_in == 0) {
        const std::size_t more = std::min(step, packed_.size() - fed_);
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed_.data() + fed_));
        stream_.avail_in = static_cast<uInt>(more);
        fed_ += more;
      }
      const std::size_t room = std::min(step, into.size() - done);
      stream_.next_out = reinterpret_cast<Bytef*>(into.data() + done);
      stream_.avail_out = static_cast<uInt>(room);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      ended_ = status == Z_STREAM_END;
      if (!ended_ && status != Z_OK) {
        refuse("{}: the compressed data of {} is damaged ({})", file_, shown(name_),
               stream_.msg ? stream_.msg : "it ends too early");
      }
    }
    return done;
  }
  // Whether the stream ends here and the packed bytes with it.
  bool finished() {
    std::byte spare{};
    return read({&spare, 1}) == 0 && ended_ && stream_.avail_in == 0 && fed_ == packed_.size();
  }

 private:
  z_stream stream_{};
  Bytes packed_;
  std::string_view file_, name_;
  std::size_t fed_ = 0;
  bool ended_ = false;
};

Bytes packed_bytes(Bytes archive, const ZipMember& member) { return archive.subspan(member.offset, member.packed_size); }

std::uint32_t checksum(std::uint32_t crc, Bytes bytes) {
  return static_cast<std::uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

void check_size(const ZipMember& member, std::string_view file) {
  if (!member.deflated) {
    if (member.size != member.packed_size) {
      refuse("{}: the stored member {} claims {} bytes in {}; stored means as many", file, shown(member.name), member.size,
             member.packed_size);
    }
    return;
  }
  const std::uint64_t ratio = member.size / std::max<std::uint64_t>(member.packed_size, 1);
  if (ratio > deflate_limit || (member.size > modest_size && ratio > modest_ratio)) {
    refuse(
        "{}: the member {} would grow from {} to {} bytes; over 256 MiB at most {}-fold is unpacked (numpy.savez stores "
        "without compression)",
        file, shown(member.name), member.packed_size, member.size, modest_ratio);
  }
}

}  // namespace

std::vector<ZipMember> read_zip_directory(Bytes bytes, std::string_view file) {
  const Reader archive(bytes, file);
  const Directory directory = find_directory(archive);
  std::vector<ZipMember> members;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;  // local header to end of packed bytes
  std::unordered_set<std::string> names;
  std::uint64_t at = directory.offset;
  const std::uint64_t end = directory.offset + directory.size;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (at + central_size > end || archive.number<std::uint32_t>(at, "") != central_signature) {
      refuse("{}: entry {} of the archive's directory is not an entry", file, i);
    }
    const auto flags = archive.number<std::uint16_t>(at + 8, ""), method = archive.number<std::uint16_t>(at + 10, "");
    const auto name_size = archive.number<std::uint16_t>(at + 28, ""), extra_size = archive.number<std::uint16_t>(at + 30, "");
    const auto comment_size = archive.number<std::uint16_t>(at + 32, "");
    const std::uint64_t next = at + central_size + name_size + extra_size + comment_size;
    if (next > end) refuse("{}: entry {} of the archive's directory runs past the directory's end", file, i);
    ZipMember member;
    member.name = as_text(archive.at(at + central_size, name_size, ""));
    if (flags & 1) refuse("{}: the member {} is encrypted; encrypted archives are not read", file, shown(member.name));
    if (method != 0 && method != 8) {
      refuse("{}: the member {} is packed by method {}; only stored (0) and deflated (8) are read", file, shown(member.name),
             method);
    }
    if (!names.insert(member.name).second) refuse("{}: the name {} stands twice in the archive", file, shown(member.name));
    member.deflated = method == 8;
    member.crc = archive.number<std::uint32_t>(at + 16, "");
    member.packed_size = archive.number<std::uint32_t>(at + 20, "");
    member.size = archive.number<std::uint32_t>(at + 24, "");
    member.offset = archive.number<std::uint32_t>(at + 42, "");
    apply_zip64(archive, at + central_size + name_size, extra_size, member);
    const std::uint64_t start = locate(archive, member);
    extents.emplace_back(start, member.offset + member.packed_size);
    members.push_back(std::move(member));
    at = next;
  }
  if (at != end) refuse("{}: {} bytes follow the last entry of the archive's directory", file, end - at);
  std::ranges::sort(extents);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i].second > (i + 1 < extents.size() ? extents[i + 1].first : directory.offset)) {
      refuse("{}: members of the archive overlap at byte {}; each must have its own bytes", file,
             i + 1 < extents.size() ? extents[i + 1].first : directory.offset);
    }
  }
  return members;
}

std::string unpack_start(Bytes archive, const ZipMember& member, std::size_t most, std::string_view file) {
  check_size(member, file);
  const Bytes packed = packed_bytes(archive, member);
  if (!member.deflated) return std::string(as_text(packed.first(std::min(most, packed.size()))));
  std::string start(std::min<std::uint64_t>(most, member.size), '\0');
  Inflater inflater(packed, file, member.name);
  start.resize(inflater.read({reinterpret_cast<std::byte*>(start.data()), start.size()}));
  return start;
}

void unpack(Bytes archive, const ZipMember& member, std::size_t skip, std::span<std::byte> into, std::string_view file) {
  check_size(member, file);
  const Bytes packed = packed_bytes(archive, member);
  std::uint32_t crc = 0;
  bool whole = false;
  if (member.deflated) {
    Inflater inflater(packed, file, member.name);
    const auto skipped = std::make_unique<std::byte[]>(skip);
    whole = inflater.read({skipped.get(), skip}) == skip && inflater.read(into) == into.size() && inflater.finished();
    crc = checksum(checksum(0, {skipped.get(), skip}), into);
  } else {
    whole = packed.size() == skip + into.size();
    if (whole) {
      std::ranges::copy(packed.subspan(skip), into.begin());
      crc = checksum(0, packed);
    }
  }
  if (!whole) {
    refuse("{}: the member {} does not unpack to the {} bytes it must have", file, shown(member.name), skip + into.size());
  }
  if (crc != member.crc) {
    refuse("{}: the member {} is damaged: its checksum is {:08x}, the archive says {:08x}", file, shown(member.name), crc,
           member.crc);
  }
}

}  // namespace dhyan::app
