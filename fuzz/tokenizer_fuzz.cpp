// Encodes and decodes any bytes with a small vocabulary of each kind. If the kind is lossless, the
// result equals the text. All ids are valid, and streams have valid UTF-8. The first byte selects
// the vocabulary and the options.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/sample_vocabularies.h"
#include "tokenizer/stream_decoder.h"

using namespace billow::tokenizer;

namespace {

struct Subject {
  Tokenizer tokenizer;
  bool lossless;
};

std::vector<Subject> make_subjects() {
  std::vector<Subject> subjects;
  for (const PreTokenizerFamily& family : pre_tokenizer_families()) {
    if ((family.flags & kRawText) != 0) continue;
    const std::string name(family.names.substr(0, family.names.find(' ')));
    subjects.push_back({load_sample(sample_bpe(name)), true});
  }
  billow::gguf::Writer unprefixed = sample_spm();
  unprefixed.set_bool("tokenizer.ggml.add_space_prefix", false);
  subjects.push_back({load_sample(unprefixed), true});
  subjects.push_back({load_sample(sample_spm()), false});
  subjects.push_back({load_sample(sample_gemma4()), false});
  subjects.push_back({load_sample(sample_word_piece()), false});
  subjects.push_back({load_sample(sample_unigram()), false});
  return subjects;
}

void check_stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  StreamDecoder stream(tokenizer, {.render_special = true});
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece = stream.push(id);
    BILLOW_CHECK(billow::utf8::is_valid(piece));
    text += piece;
  }
  text += stream.finish();
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.piece(id, true);
  BILLOW_CHECK(text == billow::utf8::sanitized(bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Subject> subjects = make_subjects();
  if (size == 0) return 0;
  const Subject& subject = subjects[(data[0] / 2u) % subjects.size()];
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const bool parse_special = data[0] % 2 == 1;
  const std::vector<TokenId> ids =
      subject.tokenizer.encode(text, {.add_special = false, .parse_special = parse_special});
  for (const TokenId id : ids) BILLOW_CHECK(subject.tokenizer.has(id));
  const std::string back = subject.tokenizer.decode(ids, {.render_special = true});
  // SPM defines U+2581 as a space.
  const bool escaped =
      subject.tokenizer.model() == "llama" && text.find("\xE2\x96\x81") != std::string_view::npos;
  if (subject.lossless && !escaped) BILLOW_CHECK(back == text);
  subject.tokenizer.decode(ids, {.remove_special = true, .clean_spaces = true});
  check_stream(subject.tokenizer, ids);
  return 0;
}
