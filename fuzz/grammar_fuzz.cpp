// Parses any bytes as a grammar, without crash or hang. An error has one line. A grammar that
// compiles allows a text that follows it. The first byte selects the kind. Bytes after the first
// zero byte choose tokens.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
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

// Writes tokens that the masks allow. Each byte chooses one token.
void write(Guide& guide, const SampleTokens& tokens, std::string_view choices) {
  for (const char choice : choices) {
    if (guide.done()) return;
    guide.prepare();
    const std::span<const uint32_t> mask = guide.allowed();
    std::vector<int32_t> allowed;
    for (size_t i = 0; i < tokens.texts.size(); ++i)
      if (mask.empty() || (mask[i / 32] >> (i % 32) & 1) != 0)
        allowed.push_back(static_cast<int32_t>(i));
    require(!allowed.empty());
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
    check(constraint);
    Guide guide(vocabulary, constraint);
    write(guide, tokens, input.substr(zero));
  } catch (const billow::Error& error) {
    require(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
