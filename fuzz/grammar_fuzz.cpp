// Parses any bytes as a grammar, without crash or hang. An error has one line. A grammar that
// compiles allows a text that follows it. The first byte selects the kind. Bytes after the first
// zero byte choose tokens. Without a zero byte, the grammar is only checked.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "constraint/guide.h"
#include "constraint/sample_vocabulary.h"

namespace {

using namespace billow::constraint;

void require(bool holds) {
  if (!holds) std::abort();
}

// In an ambiguous grammar, a token can take 60 ms, 150 ms with sanitizers.
constexpr size_t kMaxTokens = 64;

// Writes tokens that the masks allow. Each byte chooses one token.
void write(Guide& guide, const SampleTokens& tokens, std::string_view choices) {
  std::vector<int32_t> allowed;
  for (const char choice : choices.substr(0, kMaxTokens)) {
    if (guide.done()) return;
    guide.prepare();
    const std::span<const uint32_t> mask = guide.allowed();
    allowed.clear();
    for (size_t word = 0; word < mask.size(); ++word)
      for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1)
        allowed.push_back(static_cast<int32_t>(32 * word) + std::countr_zero(bits));
    require(!allowed.empty() && static_cast<size_t>(allowed.back()) < tokens.texts.size());
    const int32_t token = allowed[static_cast<unsigned char>(choice) % allowed.size()];
    if (token == tokens.end) return;
    require(token != tokens.control);
    (void)guide.accept(token, tokens.text(token), 8);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const SampleTokens tokens;
  static const std::shared_ptr<const Vocabulary> vocabulary = tokens.vocabulary();
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(input.find('\0', 1), size);
  Constraint constraint;
  constraint.grammar = {static_cast<GrammarKind>(data[0] % 5),
                        std::string(input.substr(1, zero - 1))};
  try {
    if (zero == size) {
      check(constraint);
    } else {
      Guide guide(vocabulary, constraint);
      write(guide, tokens, input.substr(zero));
    }
  } catch (const billow::Error& error) {
    require(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
