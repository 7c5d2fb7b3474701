// SPDX-License-Identifier: Apache-2.0
// The generated grid: options as data, alone and in pairs, over sizes, types and layouts.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/case.hpp"

namespace dhyan::testing {

struct Option {
  const char* name;
  void (*apply)(Case& c);
};

const std::vector<Option>& options();

// Small enough for finite differences over every element.
Case tiny_case();

// No option, then each one.
std::vector<Case> one_option_cases(const Case& base);
// Each pair that can be had together.
std::vector<Case> two_option_cases(const Case& base);

// The families of the grid, by what varies in them.
std::vector<Case> every_option();
std::vector<Case> every_pair();
std::vector<Case> every_length();
std::vector<Case> every_head_dim();
std::vector<Case> every_layout();
std::vector<Case> decode();
std::vector<Case> zero_sizes();

// Fits lengths to a case's own sizes; call after setting sizes.
void resize(Case& c, std::int64_t query_length, std::int64_t key_length);

// True when DHYAN_TEST_GRID=small: what a sanitizer run can afford.
bool small_grid();
// True for five of six cases, the same ones every time, while the grid is small.
bool left_out(const Case& c);

// For INSTANTIATE_TEST_SUITE_P: the case's name.
std::string case_name(const ::testing::TestParamInfo<Case>& info);

}  // namespace dhyan::testing
