#include "api/vector_text.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>

#include "base/base64.h"

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

void append_base64(std::string& text, std::span<const float> vector) {
  std::string bytes;
  bytes.reserve(4 * vector.size());
  for (const float value : vector) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (const int shift : {0, 8, 16, 24}) bytes += static_cast<char>(bits >> shift & 255);
  }
  text += '"' + base64_encoded(bytes) + '"';
}

void append_vectors(std::string& text, const EmbedResult& result, bool base64) {
  const auto append = base64 ? append_base64 : append_vector;
  if (result.n_tokens == 0) return append(text, result.values);
  const size_t size = result.values.size() / result.n_tokens;
  text += '[';
  for (size_t i = 0; i < result.n_tokens; ++i) {
    if (i > 0) text += ',';
    append(text, std::span(result.values).subspan(i * size, size));
  }
  text += ']';
}

}  // namespace billow::api
