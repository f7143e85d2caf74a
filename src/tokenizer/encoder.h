// The one interface of the kinds of tokenizer: bytes in, ids out. An Encoder sees text between
// special tokens only. It is immutable: any thread may encode. It refers to its Vocabulary, which
// must outlive it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/settings.h"
#include "tokenizer/token.h"
#include "tokenizer/token_roles.h"
#include "tokenizer/vocabulary.h"

namespace billow::gguf {
class File;
}

namespace billow::tokenizer {

class Encoder {
 public:
  virtual ~Encoder() = default;

  // Appends the tokens of `text` to `out`. `after_special`: the text is the first, or follows a
  // special token.
  virtual void encode(std::string_view text, bool after_special,
                      std::vector<TokenId>& out) const = 0;
};

// What a kind is made from. `file` is read during construction only.
struct EncoderInput {
  const gguf::File& file;
  const Settings& settings;
  const Vocabulary& vocabulary;
  const TokenRoles& roles;
};

// Each throws Error when the file lacks what the kind needs.
std::unique_ptr<Encoder> make_bpe_encoder(const EncoderInput& input);
std::unique_ptr<Encoder> make_spm_encoder(const EncoderInput& input);
std::unique_ptr<Encoder> make_word_piece_encoder(const EncoderInput& input);
std::unique_ptr<Encoder> make_unigram_encoder(const EncoderInput& input);
std::unique_ptr<Encoder> make_longest_match_encoder(const EncoderInput& input);

// The one that `input.settings.kind` names.
std::unique_ptr<Encoder> make_encoder(const EncoderInput& input);

}  // namespace billow::tokenizer
