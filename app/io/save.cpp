// SPDX-License-Identifier: Apache-2.0
#include "io/save.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "failure.hpp"
#include "io/load.hpp"
#include "io/npy.hpp"

namespace dhyan::app {
namespace {

// Names of the temporary files, where a signal handler can read them.
struct Slot {
  std::atomic<bool> used = false;
  char path[4096];
};
constexpr int slots = 64;
Slot temporary_files[slots];

int take_slot(const std::string& path) {
  if (path.size() >= sizeof Slot::path) fail("{}: the path is too long", path);
  for (int i = 0; i < slots; ++i) {
    if (temporary_files[i].used) continue;
    std::memcpy(temporary_files[i].path, path.c_str(), path.size() + 1);
    temporary_files[i].used = true;
    return i;
  }
  fail("{} cannot be written: {} files are being written already", path, slots);
}

}  // namespace

void remove_temporary_files() noexcept {
  for (Slot& slot : temporary_files) {
    if (slot.used) unlink(slot.path);
  }
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  struct stat status {};
  if (stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    refuse("{} is not a regular file; a result would take its place", path_);
  }
  // A killed process leaves its file behind, and in a container the next one may have the same number.
  constexpr int attempts = 1000;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    temporary_ =
        attempt == 0 ? fmt::format("{}.{}.part", path_, getpid()) : fmt::format("{}.{}.{}.part", path_, getpid(), attempt);
    slot_ = take_slot(temporary_);
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ >= 0) return;
    const int error = errno;
    temporary_files[std::exchange(slot_, -1)].used = false;
    if (error != EEXIST || attempt + 1 == attempts) fail("{} cannot be written: {}", path_, std::strerror(error));
  }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)), file_(other.file_), slot_(other.slot_) {
  other.file_ = -1;
  other.slot_ = -1;
}

OutputFile::~OutputFile() {
  if (file_ >= 0) close(file_);
  if (slot_ >= 0) {
    unlink(temporary_.c_str());
    temporary_files[slot_].used = false;
  }
}

void OutputFile::write(Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("{} cannot be written: {}", path_, std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::sync() {
  const int file = std::exchange(file_, -1);
  if (fsync(file) != 0 && errno != EINVAL) {
    const int error = errno;
    close(file);
    fail("{} cannot be written: {}", path_, std::strerror(error));
  }
  if (close(file) != 0) fail("{} cannot be written: {}", path_, std::strerror(errno));
}

void OutputFile::commit() {
  if (file_ >= 0) sync();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail("{} cannot be written: {}", path_, std::strerror(errno));
  }
  temporary_files[std::exchange(slot_, -1)].used = false;
}

ResultWriter::ResultWriter(const std::string& target, std::string_view argument, const std::vector<std::string>& names)
    : names_(names) {
  const FileName file = parse_file_name(target, argument);
  if (file.format == FileName::Format::npz) {
    refuse("{}: {} is an .npz file; results are written to .npy or .safetensors", argument, shown(target));
  }
  npy_ = file.format == FileName::Format::npy;
  if (!npy_) {
    if (!file.name.empty()) names_[0] = file.name;
    for (std::size_t i = 1; i < names_.size(); ++i) {
      if (names_[0] == names_[i]) refuse("{}: the name {} is needed for another result", argument, shown(names_[0]));
    }
    if (names_[0] == "__metadata__") refuse("{}: no tensor can be called __metadata__", argument);
    files_.emplace_back(file.path);
    return;
  }
  const std::string stem = file.path.substr(0, file.path.size() - std::strlen(".npy"));
  for (std::size_t i = 0; i < names_.size(); ++i) {
    files_.emplace_back(i == 0 ? file.path : fmt::format("{}.{}.npy", stem, names_[i]));
  }
}

void ResultWriter::write(const std::vector<const Array*>& arrays, const Metadata& metadata) {
  if (npy_) {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const bool widen = arrays[i]->element == Element::bf16;
      Array wide;
      if (widen) wide = convert_array(*arrays[i], Element::f32);
      const Array& array = widen ? wide : *arrays[i];
      files_[i].write(npy_header(array));
      files_[i].write(array.data.bytes());
      widened_ = widened_ || widen;
    }
  } else {
    std::vector<NamedArray> tensors;
    for (std::size_t i = 0; i < arrays.size(); ++i) tensors.push_back({names_[i], arrays[i]});
    files_[0].write(safetensors_header(tensors, metadata));
    for (const Array* array : arrays) files_[0].write(array->data.bytes());
  }
  for (OutputFile& file : files_) file.commit();
}

std::vector<std::string> ResultWriter::paths() const {
  std::vector<std::string> paths;
  for (const OutputFile& file : files_) paths.push_back(file.path());
  return paths;
}

}  // namespace dhyan::app
