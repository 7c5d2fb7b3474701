// SPDX-License-Identifier: Apache-2.0
// Properties that every build must have on every device of every machine, tried on random problems.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "problem/call.hpp"
#include "problem/random.hpp"

namespace dhyan::app {

struct PropertyReport {
  std::string name;
  std::int64_t trials = 0;
  double worst = 0;  // the largest share of a limit that was used; 0 where a property is exact
  std::vector<std::string> failures;
};

class PropertySuite {
 public:
  explicit PropertySuite(Device device = cpu);
  // The properties that need no random problem.
  void run_fixed();
  // Random problem number `index` of `seed`.
  void run_random(std::uint64_t seed, std::int64_t index);

  std::vector<PropertyReport> reports;

 private:
  void try_plain_loop(Random& random, const std::string& where);
  void try_merge(Random& random, const std::string& where);
  void try_repeating(Call& call, Implementation implementation, Random& random, const std::string& what);

  Device device_;
};

}  // namespace dhyan::app
