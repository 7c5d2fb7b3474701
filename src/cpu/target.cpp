// SPDX-License-Identifier: Apache-2.0
#include "cpu/target.hpp"

#include <cpuid.h>
#include <hwy/targets.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

namespace dhyan::cpu {
namespace {

// The levels DHYAN_CPU_TARGET knows, weakest first.
struct Level {
  std::string_view name;
  std::int64_t highway;
  std::string_view lacking;  // ends "this processor has no ..."
};
constexpr std::array<Level, 3> kLevels = {{
    {"sse4", HWY_SSE4, "SSE4.2 with AES and CLMUL"},
    {"avx2", HWY_AVX2, "AVX2 with FMA, BMI2 and F16C"},
    {"avx3", HWY_AVX3, "AVX-512 F, BW, DQ, VL and CD"},
}};

struct Cpuid {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Cpuid cpuid(unsigned leaf, unsigned subleaf = 0) {
  Cpuid r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);  // leaves r zero when the leaf does not exist
  return r;
}

// Which register files the operating system saves; 0 when it saves none beyond SSE.
std::uint64_t saved_state() {
  constexpr unsigned kOsxsave = 1u << 27;
  if (!(cpuid(1).ecx & kOsxsave)) return 0;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

Processor describe_processor() {
  Processor p;
  const Cpuid zero = cpuid(0);
  char vendor[12];
  std::memcpy(vendor, &zero.ebx, 4);
  std::memcpy(vendor + 4, &zero.edx, 4);
  std::memcpy(vendor + 8, &zero.ecx, 4);
  const std::string_view name(vendor, sizeof vendor);
  p.vendor = name == "GenuineIntel" ? Vendor::intel : name == "AuthenticAMD" ? Vendor::amd : Vendor::other;

  const unsigned signature = cpuid(1).eax;
  p.family = static_cast<int>((signature >> 8) & 0xF);
  p.model = static_cast<int>((signature >> 4) & 0xF);
  if (p.family == 6 || p.family == 15) p.model += static_cast<int>((signature >> 16) & 0xF) << 4;
  if (p.family == 15) p.family += static_cast<int>((signature >> 20) & 0xFF);

  if (cpuid(0x80000000).eax >= 0x80000004) {
    char brand[49] = {};
    for (unsigned i = 0; i < 3; ++i) {
      const Cpuid part = cpuid(0x80000002 + i);
      std::memcpy(brand + 16 * i, &part, 16);
    }
    p.name = brand;
    p.name.erase(0, p.name.find_first_not_of(' '));
    p.name.erase(p.name.find_last_not_of(' ') + 1);
  }
  const auto cache = [](int which) {
    const long bytes = sysconf(which);
    return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
  };
  p.l2_bytes = cache(_SC_LEVEL2_CACHE_SIZE);
  p.l3_bytes = cache(_SC_LEVEL3_CACHE_SIZE);
  return p;
}

struct Target {
  std::int64_t hardware = 0;  // HWY_* bits
  bool hardware_bf16 = false;
  bool hardware_amx = false;
  std::string_view forced;  // a level's name; empty: the best there is
  bool amx_off = false;
  std::string error;
};

Target detect() {
  Target t;
  for (const Level& level : kLevels) t.hardware |= level.highway & hwy::SupportedTargets();
  if (!__builtin_cpu_supports("avx512cd")) t.hardware &= ~std::int64_t{HWY_AVX3};

  constexpr unsigned kAvx512Bf16 = 1u << 5;  // leaf 7.1 eax
  constexpr unsigned kAmxBf16 = 1u << 22;    // leaf 7.0 edx
  constexpr unsigned kAmxTile = 1u << 24;
  constexpr std::uint64_t kTileState = (1u << 17) | (1u << 18);
  const bool avx3 = t.hardware & HWY_AVX3;
  t.hardware_bf16 = avx3 && (cpuid(7, 1).eax & kAvx512Bf16);
  const unsigned tiles = cpuid(7).edx & (kAmxBf16 | kAmxTile);
  t.hardware_amx = t.hardware_bf16 && tiles == (kAmxBf16 | kAmxTile) && (saved_state() & kTileState) == kTileState;

  if (!(t.hardware & HWY_SSE4)) {
    t.error = "this processor has no " + std::string(kLevels[0].lacking) + ", which dhyan needs at least";
    return t;
  }
  if (const char* text = std::getenv("DHYAN_AMX"); text && *text) {
    const std::string_view value = text;
    t.amx_off = value == "0";
    if (value != "0" && value != "1") t.error = "DHYAN_AMX is \"" + std::string(value) + "\": it must be 0 or 1";
  }
  if (const char* text = std::getenv("DHYAN_THREADS"); text && *text) {
    const std::string_view value = text;
    int threads = 0;
    const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), threads);
    if (status != std::errc{} || end != value.data() + value.size() || threads < 1 || threads > 1024) {
      t.error = "DHYAN_THREADS is \"" + std::string(value) + "\": it must be a whole number from 1 to 1024";
    }
  }
  if (const char* text = std::getenv("DHYAN_CPU_TARGET"); text && *text) {
    const Level* asked = nullptr;
    std::string works;
    for (const Level& level : kLevels) {
      if (level.name == text) asked = &level;
      if (t.hardware & level.highway) works += (works.empty() ? "" : ", ") + std::string(level.name);
    }
    const std::string value = "DHYAN_CPU_TARGET is \"" + std::string(text) + "\"";
    if (!asked) {
      t.error = value + ": it must be sse4, avx2 or avx3 (this processor runs " + works + ")";
    } else if (!(t.hardware & asked->highway)) {
      t.error = value + ", but this processor has no " + std::string(asked->lacking) + "; it runs " + works;
    } else {
      t.forced = asked->name;
    }
  }
  return t;
}

const Target& target() {
  static const Target detected = detect();
  return detected;
}

constexpr int kRequestPermission = 0x1023;  // arch_prctl codes, Linux 5.16
constexpr int kSupportedFeatures = 0x1021;
constexpr int kTileData = 18;

// Empty when the kernel lets this process use tiles. Asks at the first call.
const std::string& amx_refusal() {
  static const std::string refusal = [] {
    if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return std::string();
    return "the kernel refused permission to use AMX tiles (" + std::generic_category().message(errno) + ")";
  }();
  return refusal;
}
std::atomic<bool> amx_asked{false};

}  // namespace

const Processor& processor() {
  static const Processor described = describe_processor();
  return described;
}

const std::string& target_error() { return target().error; }

std::int64_t highway_targets() {
  const Target& t = target();
  for (const Level& level : kLevels)
    if (level.name == t.forced) return level.highway;
  return t.hardware;
}

bool has_avx512_bf16() { return target().forced.empty() && target().hardware_bf16; }

bool has_amx_bf16() {
  const Target& t = target();
  if (!t.forced.empty() || t.amx_off || !t.hardware_amx) return false;
  const bool granted = amx_refusal().empty();
  amx_asked.store(true, std::memory_order_release);
  return granted;
}

std::vector<TargetRow> target_rows() {
  const Target& t = target();
  std::vector<TargetRow> rows;
  const std::string forced = "DHYAN_CPU_TARGET=" + std::string(t.forced);
  for (const Level& level : kLevels) {
    TargetRow row{std::string(level.name), true, {}};
    if (!(t.hardware & level.highway)) row = {row.name, false, "this processor has no " + std::string(level.lacking)};
    if (row.available && !t.forced.empty() && t.forced != level.name) row = {row.name, false, forced};
    rows.push_back(row);
  }

  TargetRow bf16{"avx512_bf16", has_avx512_bf16(), {}};
  if (!t.hardware_bf16) {
    bf16.reason = "this processor has no AVX-512 BF16";
  } else if (!t.forced.empty()) {
    bf16.reason = forced;
  }
  rows.push_back(bf16);

  TargetRow amx{"amx_bf16", false, {}};
  if (!t.hardware_amx) {
    amx.reason = "this processor has no AMX with BF16, or the kernel does not save its tiles";
  } else if (!t.forced.empty()) {
    amx.reason = forced;
  } else if (t.amx_off) {
    amx.reason = "DHYAN_AMX=0";
  } else if (amx_asked.load(std::memory_order_acquire)) {
    amx.available = amx_refusal().empty();
    amx.reason = amx_refusal();
  } else {
    std::uint64_t features = 0;
    amx.available =
        syscall(SYS_arch_prctl, kSupportedFeatures, &features) == 0 && (features & (std::uint64_t{1} << kTileData)) != 0;
    amx.reason = amx.available ? "permission is asked for at the first plan that uses it"
                               : "the kernel does not offer permission to use AMX tiles";
  }
  rows.push_back(amx);
  return rows;
}

}  // namespace dhyan::cpu
