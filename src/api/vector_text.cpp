#include "api/vector_text.h"

#include <array>
#include <charconv>

namespace billow::api {

void append_vector(std::string& text, std::span<const float> vector) {
  constexpr size_t kLongest = 16;  // "-1.1754944e-38"
  std::array<char, kLongest> digits{};
  text.reserve(text.size() + vector.size() * 12 + 2);
  text += '[';
  for (size_t i = 0; i < vector.size(); ++i) {
    if (i > 0) text += ',';
    const auto [end, failed] =
        std::to_chars(digits.data(), digits.data() + digits.size(), vector[i]);
    text.append(digits.data(), end);
  }
  text += ']';
}

}  // namespace billow::api
