#include "api/random_id.h"

#include <random>

namespace billow::api {

std::string random_id(std::string_view prefix, size_t n) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  static thread_local std::mt19937_64 random{std::random_device{}()};
  std::uniform_int_distribution<size_t> any(0, kLetters.size() - 1);
  std::string id(prefix);
  for (size_t i = 0; i < n; ++i) id += kLetters[any(random)];
  return id;
}

}  // namespace billow::api
