// SPDX-License-Identifier: Apache-2.0
// The codelab's inputs are JAX's own, bit for bit: digests of what JAX 0.11.2 draws on a CPU with FMA.
#include <gtest/gtest.h>
#include <zlib.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lab/random.hpp"

namespace dhyan::lab {
namespace {

struct Draw {
  std::uint64_t seed;
  int parts, part;  // the key is split into `parts`, this one draws
  std::size_t size;
  bool bf16;
  std::uint32_t crc32;     // of all values, as bytes
  std::uint32_t first[2];  // the first two values, as bits
};
constexpr Draw kDraws[] = {
    {0, 3, 0, 262144, false, 0xE5156033, {0x3F80838A, 0xBF6805B7}},
    {0, 3, 1, 262144, false, 0x387CB0CD, {0xC01C5132, 0xC0024897}},
    {0, 3, 2, 262144, false, 0xD7768615, {0x3FA5D766, 0x3FAD70FC}},
    {0, 3, 0, 131072, false, 0x6728098D, {0x3F80838A, 0xBF6805B7}},
    {0, 3, 1, 131072, false, 0x243AD81E, {0xC01C5132, 0xC0024897}},
    {0, 3, 2, 131072, false, 0xC0507575, {0x3FA5D766, 0x3FAD70FC}},
    {0, 3, 0, 524288, false, 0x6D23EC3D, {0x3F80838A, 0xBF6805B7}},
    {0, 3, 1, 524288, false, 0xC1EA6DF4, {0xC01C5132, 0xC0024897}},
    {0, 3, 2, 524288, false, 0x2E0CEA47, {0x3FA5D766, 0x3FAD70FC}},
    {0, 3, 0, 1048576, false, 0x277E9E09, {0x3F80838A, 0xBF6805B7}},
    {0, 3, 1, 1048576, false, 0x1F6FED40, {0xC01C5132, 0xC0024897}},
    {0, 3, 2, 1048576, false, 0x22330FEE, {0x3FA5D766, 0x3FAD70FC}},
    {0, 3, 0, 2097152, false, 0x58045BDF, {0x3F80838A, 0xBF6805B7}},
    {0, 3, 1, 2097152, false, 0x13F077EC, {0xC01C5132, 0xC0024897}},
    {0, 3, 2, 2097152, false, 0x9AEC1177, {0x3FA5D766, 0x3FAD70FC}},
    {0, 3, 0, 4194304, false, 0xE9E0CEDB, {0x3F80838A, 0xBF6805B7}},
    {0, 3, 1, 4194304, false, 0x2C21BDEA, {0xC01C5132, 0xC0024897}},
    {0, 3, 2, 4194304, false, 0x01689DDE, {0x3FA5D766, 0x3FAD70FC}},
    {64, 3, 0, 131072, false, 0x31D90BBD, {0x3F010B88, 0x40102A9F}},
    {64, 3, 1, 131072, false, 0x6B99808C, {0x3FAF05E0, 0x3F3CDA48}},
    {64, 3, 2, 131072, false, 0xC06B6568, {0x3F5389F9, 0xBB20343C}},
    {128, 3, 0, 262144, false, 0xC9E81BA3, {0xBED1911C, 0xBCB4E5CD}},
    {128, 3, 1, 262144, false, 0x829C0C6A, {0xBEA203A7, 0x3EB9A6E5}},
    {128, 3, 2, 262144, false, 0xAC5F7DA0, {0xBF342843, 0xBF6D9B63}},
    {256, 3, 0, 524288, false, 0x486E4D02, {0xBDD8A5CB, 0x3EDF148D}},
    {256, 3, 1, 524288, false, 0x3AE5C42C, {0xC00D822C, 0xBFD8B173}},
    {256, 3, 2, 524288, false, 0x556416CB, {0xBF36165B, 0x3F450119}},
    {512, 3, 0, 1048576, false, 0x0618BD23, {0x3FACA0C4, 0xBF08AB51}},
    {512, 3, 1, 1048576, false, 0x2DA22BEF, {0x3EEC1C7B, 0x3FC343A3}},
    {512, 3, 2, 1048576, false, 0x4C809EB8, {0xBEA437F4, 0x3F1CE269}},
    {1024, 3, 0, 2097152, false, 0xD03A16A0, {0xBF23B184, 0x3F821ADC}},
    {1024, 3, 1, 2097152, false, 0x9798C179, {0x3F8EBB06, 0x3F287AE4}},
    {1024, 3, 2, 2097152, false, 0x4F971C6F, {0x3CA9C2CC, 0x3F8FCEEC}},
    {101, 3, 0, 131072, false, 0x935136CE, {0xBE047596, 0x3FD39ADF}},
    {101, 3, 1, 131072, false, 0xD16D2150, {0xBF1DEC26, 0x3FC3AA73}},
    {101, 3, 2, 131072, false, 0xC95EEEC4, {0x3EA469D5, 0x3D6CF9CB}},
    {102, 3, 0, 262144, false, 0xCB99C3BB, {0xBF900340, 0xBE20595E}},
    {102, 3, 1, 262144, false, 0x931793F0, {0xBC35BA68, 0x3FB82B2E}},
    {102, 3, 2, 262144, false, 0x18ACBD0A, {0xBF3952D9, 0xBF583602}},
    {104, 3, 0, 524288, false, 0xD03ADE75, {0xBEAA62D1, 0x3F0DD486}},
    {104, 3, 1, 524288, false, 0x8C2917EF, {0x3DBCC145, 0xBFBB9ADA}},
    {104, 3, 2, 524288, false, 0xC6C4B2B9, {0xBFDC86AE, 0x4039C161}},
    {108, 3, 0, 1048576, false, 0xD0B96C37, {0x3F344E7E, 0x3F0D12F5}},
    {108, 3, 1, 1048576, false, 0x0D22410D, {0x3F6CFE41, 0xBEF2F047}},
    {108, 3, 2, 1048576, false, 0x8C70182E, {0x3FE73346, 0xBF165601}},
    {116, 3, 0, 2097152, false, 0xEB26C64D, {0x3EFDAAB9, 0xBF6F05DE}},
    {116, 3, 1, 2097152, false, 0xB273D2D7, {0x3E5BBF33, 0x3F86669F}},
    {116, 3, 2, 2097152, false, 0x66D6EB19, {0x3F832D6C, 0x3E131436}},
    {42, 5, 0, 65536, false, 0xCF2F8FA4, {0x3D9B7ED9, 0xBEF901E7}},
    {42, 5, 1, 65536, false, 0x5C32D4B3, {0x3F1B135A, 0x3F4C8E27}},
    {42, 5, 2, 65536, false, 0x3CE5D199, {0x3EDD5747, 0x3F1656EC}},
    {42, 5, 1, 16384, false, 0xDAA9F008, {0x3F1B135A, 0x3F4C8E27}},
    {42, 5, 2, 16384, false, 0x98A6E72B, {0x3EDD5747, 0x3F1656EC}},
    {42, 5, 3, 8192, false, 0x21B4E062, {0xBE905481, 0xBFAF09E1}},
    {42, 5, 4, 8192, false, 0x95492605, {0x3F27A8B1, 0x3E319D70}},
    {1128, 3, 0, 262144, true, 0x8D34D273, {0xBF53, 0xC039}},
    {1128, 3, 1, 262144, true, 0xFEE444EC, {0xBECC, 0xBE5A}},
    {1128, 3, 2, 262144, true, 0x1A132FB5, {0xBFCA, 0xBE96}},
    {1256, 3, 0, 524288, true, 0x22138B57, {0xC007, 0xBD97}},
    {1256, 3, 1, 524288, true, 0xCF02FE32, {0x3F3B, 0x3FA4}},
    {1256, 3, 2, 524288, true, 0x52381E30, {0xBF61, 0x3FF2}},
    {1512, 3, 0, 1048576, true, 0x6B2E8786, {0xBEC0, 0x3E9C}},
    {1512, 3, 1, 1048576, true, 0xBA5D5508, {0xBE5A, 0x3F99}},
    {1512, 3, 2, 1048576, true, 0x3C345C69, {0x3EA5, 0xBEF7}},
    {2024, 3, 0, 2097152, true, 0xAA7AF893, {0x3FC6, 0xC039}},
    {2024, 3, 1, 2097152, true, 0x972A11D7, {0x3BA0, 0xBFBB}},
    {2024, 3, 2, 2097152, true, 0xACA2E5C1, {0x3F99, 0xBEB5}},
    {3048, 3, 0, 4194304, true, 0x7CBA0C95, {0x3F65, 0xBD5D}},
    {3048, 3, 1, 4194304, true, 0xE891466A, {0x3E86, 0x3F9F}},
    {3048, 3, 2, 4194304, true, 0x36902C06, {0x3F65, 0xBF31}},
    {9000, 3, 0, 4194304, true, 0x369ADD70, {0x3E86, 0x3F9F}},
    {9000, 3, 1, 4194304, true, 0x93C570D0, {0x3FD0, 0x3FB8}},
    {9000, 3, 2, 4194304, true, 0x16505791, {0xC015, 0xBF31}},
};

template <class T>
std::uint32_t checksum(std::span<const T> values) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(values.data()), values.size() * sizeof(T)));
}

TEST(LabInputs, AreThoseOfJax) {
  for (const Draw& draw : kDraws) {
    SCOPED_TRACE(testing::Message() << "seed " << draw.seed << " part " << draw.part << " of " << draw.parts << ", "
                                    << draw.size << (draw.bf16 ? " bf16" : " f32"));
    const RandomKey key = split(random_key(draw.seed), draw.parts)[static_cast<std::size_t>(draw.part)];
    if (draw.bf16) {
      std::vector<std::uint16_t> values(draw.size);
      normal_bf16(key, values);
      EXPECT_EQ(values[0], draw.first[0]);
      EXPECT_EQ(values[1], draw.first[1]);
      EXPECT_EQ(checksum(std::span<const std::uint16_t>(values)), draw.crc32);
    } else {
      std::vector<float> values(draw.size);
      normal(key, values);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[0]), draw.first[0]);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[1]), draw.first[1]);
      EXPECT_EQ(checksum(std::span<const float>(values)), draw.crc32);
    }
  }
}

}  // namespace
}  // namespace dhyan::lab
