// SPDX-License-Identifier: Apache-2.0
// Writing results so that a failure loses nothing: to a temporary file beside the target, renamed when whole.
#pragma once

#include <string>
#include <vector>

#include "io/array.hpp"
#include "io/safetensors.hpp"

namespace dhyan::app {

// A file being written. Unless committed it disappears, also when the program is interrupted.
class OutputFile {
 public:
  // Opens the temporary file at once, so that a wrong path is known before anything is computed.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  void write(Bytes bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Has all of it on the disk; nothing is written after this. Files that belong together do so before the first stands.
  void sync();
  // Makes the file stand under its name.
  void commit();
  const std::string& path() const { return path_; }

 private:
  std::string path_, temporary_;
  int file_ = -1;
  int slot_ = -1;
};

// Writes tensors that belong together: one safetensors file, or FILE.npy for the first and FILE.NAME.npy for the others.
class ResultWriter {
 public:
  // `target` is --out's F. `names` are the tensors that will come, the first being the result itself.
  ResultWriter(const std::string& target, std::string_view argument, const std::vector<std::string>& names);

  // In the order of the names given. A bf16 array goes to .npy as f32; widened() then says so. Only safetensors has metadata.
  void write(const std::vector<const Array*>& arrays, const Metadata& metadata = {});
  bool widened() const { return widened_; }
  std::vector<std::string> paths() const;

 private:
  bool npy_ = false;
  bool widened_ = false;
  std::vector<std::string> names_;
  std::vector<OutputFile> files_;
};

// Removes the temporary files there are; safe in a signal handler.
void remove_temporary_files() noexcept;

}  // namespace dhyan::app
