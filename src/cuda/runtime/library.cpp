// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <vector>

#include "core/loaded_file.hpp"

namespace dhyan::cuda {
namespace {

constexpr int kMode = RTLD_NOW | RTLD_LOCAL;

std::vector<std::string> directories_of_environment() {
  std::vector<std::string> all;
  const char* text = std::getenv("DHYAN_LIBRARY_PATH");
  std::istringstream parts(text == nullptr ? "" : text);
  for (std::string part; std::getline(parts, part, ':');) {
    if (!part.empty()) all.push_back(part);
  }
  return all;
}

// NVIDIA's Python packages lie in site-packages/nvidia, a package with libdhyan beside that folder or one below.
std::vector<std::string> directories_of_packages() {
  std::vector<std::string> all;
  const std::filesystem::path here = core::loaded_file_of(reinterpret_cast<const void*>(&open_library));
  const std::filesystem::path folder = here.parent_path();
  for (const auto& root : {folder.parent_path(), folder.parent_path().parent_path()}) {
    std::error_code none;
    for (const auto& package : std::filesystem::directory_iterator(root / "nvidia", none)) {
      all.push_back((package.path() / "lib").string());
    }
  }
  return all;
}

}  // namespace

OpenLibrary open_library(const std::string& soname) {
  if (void* handle = dlopen(soname.c_str(), kMode | RTLD_NOLOAD)) return {handle, ""};
  std::string found;  // the first one that is there and cannot be loaded
  const auto open_in = [&](const std::string& directory) -> void* {
    const std::string path = directory + "/" + soname;
    std::error_code none;
    if (!std::filesystem::exists(path, none)) return nullptr;
    void* handle = dlopen(path.c_str(), kMode);
    if (handle == nullptr && found.empty()) found = dlerror();
    return handle;
  };
  for (const std::string& directory : directories_of_environment()) {
    if (void* handle = open_in(directory)) return {handle, ""};
  }
  if (void* handle = dlopen(soname.c_str(), kMode)) return {handle, ""};
  for (const std::string& directory : directories_of_packages()) {
    if (void* handle = open_in(directory)) return {handle, ""};
  }
  if (void* handle = open_in("/usr/local/cuda/lib64")) return {handle, ""};
  if (!found.empty()) return {nullptr, soname + " cannot be loaded: " + found};
  return {nullptr, soname + " was not found; install it, or name its directory in DHYAN_LIBRARY_PATH"};
}

void* find_symbol(void* handle, const char* name) { return dlsym(handle, name); }

}  // namespace dhyan::cuda
