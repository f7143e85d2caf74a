// Tables and random cases in tests of plans for texts to embed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace billow::engine {

using Lengths = std::vector<size_t>;

// Returns the name of a row of a table: its id, as GoogleTest allows it.
inline std::string case_name(const std::string& id) {
  std::string name = id;
  std::ranges::replace(name, '-', '_');
  return name;
}
inline constexpr auto kNameOf = [](const auto& info) { return case_name(info.param.id); };

inline constexpr int kCases = 10000;  // of a property

// Random numbers with a new seed for each run.
class Random {
 public:
  size_t any(size_t min, size_t max) {
    return std::uniform_int_distribution<size_t>(min, max)(random_);
  }
  std::string seed() const { return "seed " + std::to_string(seed_); }

 private:
  const unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
};

}  // namespace billow::engine
