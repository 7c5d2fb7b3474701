// SPDX-License-Identifier: Apache-2.0
// Step 1, environment: which dhyan this is, what it runs on, and which implementations of attention it has here.
#include <cstdio>
#include <dhyan/dhyan.hpp>
#include <string>

int main() {
  const auto cpu = dhyan::describe(dhyan::cpu);
  std::printf("dhyan %s\n", dhyan_version());
  std::printf("CPU: %d threads, %.1f GiB of memory\n", cpu.threads, static_cast<double>(cpu.memory_bytes) / (1 << 30));
  try {
    const auto gpu = dhyan::describe(dhyan::cuda(0));
    std::printf("GPU: %.1f GiB of memory\n", static_cast<double>(gpu.memory_bytes) / (1 << 30));
  } catch (const dhyan::Error& error) {
    std::printf("%s\n", error.what());
  }

  const struct {
    const char* name;
    dhyan::Implementation implementation;
    bool everywhere;  // it runs on any processor
  } rows[] = {{"reference", dhyan::Implementation::reference, true},
              {"naive", dhyan::Implementation::naive, true},
              {"fused", dhyan::Implementation::fused, true},
              {"cudnn", dhyan::Implementation::cudnn, false}};
  bool as_expected = true;
  std::printf("\nOn the CPU:\n");
  for (const auto& row : rows) {
    const auto reason = dhyan::unavailable(row.implementation);
    std::printf("  %-10s %s\n", row.name, reason ? reason->c_str() : "ready");
    if (row.everywhere && reason) as_expected = false;
  }

  // The same and more as JSON: processor, instruction sets, compiler, libraries.
  std::printf("\n%s\n", dhyan::info().c_str());
  return as_expected ? 0 : 1;
}
