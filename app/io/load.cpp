// SPDX-License-Identifier: Apache-2.0
#include "io/load.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "failure.hpp"
#include "io/npy.hpp"
#include "io/npz.hpp"
#include "io/safetensors.hpp"

namespace dhyan::app {
namespace {

// A file's bytes, read-only, for as long as this lives.
class MappedFile {
 public:
  MappedFile(const std::string& path, std::string_view argument) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe is refused, not waited for
    if (file < 0) refuse("{}: {} cannot be read: {}", argument, path, std::strerror(errno));
    struct stat status {};
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(file);
      refuse("{}: {} is not a regular file", argument, path);
    }
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ > 0) data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    const int error = errno;
    close(file);
    if (data_ == MAP_FAILED) fail("{} cannot be mapped into memory: {}", path, std::strerror(error));
  }
  ~MappedFile() {
    if (size_ > 0) munmap(data_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Bytes bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace

FileName parse_file_name(const std::string& text, std::string_view argument) {
  using enum FileName::Format;
  constexpr std::pair<std::string_view, FileName::Format> formats[] = {
      {".npy", npy}, {".npz", npz}, {".safetensors", safetensors}};
  for (const auto& [suffix, format] : formats) {
    if (text.ends_with(suffix)) return {format, text, ""};
  }
  for (const auto& [suffix, format] : formats) {
    const std::size_t at = text.find(std::string(suffix) + ":");
    if (at == std::string::npos || format == npy) continue;
    return {format, text.substr(0, at + suffix.size()), text.substr(at + suffix.size() + 1)};
  }
  refuse("{}: {} is none of file.npy, file.npz:name and file.safetensors:name", argument, shown(text));
}

Array load_array(const std::string& text, std::string_view argument) {
  const FileName file = parse_file_name(text, argument);
  const MappedFile mapped(file.path, argument);
  switch (file.format) {
    case FileName::Format::npz:
      return read_npz(mapped.bytes(), file.name, file.path);
    case FileName::Format::safetensors:
      return read_safetensors(mapped.bytes(), file.name, file.path);
    default:
      return read_npy(mapped.bytes(), file.path);
  }
}

}  // namespace dhyan::app
