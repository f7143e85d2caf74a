// The interface of all kinds of tokenizers: bytes to ids. An Encoder sees only text between special
// tokens. It is immutable and thread-safe. It refers to its Vocabulary, which must outlive it.
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

  // Appends the tokens of `text` to `out`. `after_special`: the text is at the beginning or follows
  // a special token.
  virtual void encode(std::string_view text, bool after_special,
                      std::vector<TokenId>& out) const = 0;
};

// The inputs of an encoder. `file` is read only during construction.
struct EncoderInput {
  const gguf::File& file;
  const Settings& settings;
  const Vocabulary& vocabulary;
  const TokenRoles& roles;
};

// Each throws Error if the file lacks data that the kind needs.
std::unique_ptr<Encoder> make_bpe_encoder(const EncoderInput& input);
std::unique_ptr<Encoder> make_spm_encoder(const EncoderInput& input);
std::unique_ptr<Encoder> make_word_piece_encoder(const EncoderInput& input);
std::unique_ptr<Encoder> make_unigram_encoder(const EncoderInput& input);
std::unique_ptr<Encoder> make_longest_match_encoder(const EncoderInput& input);

// Makes the encoder of `input.settings.kind`.
std::unique_ptr<Encoder> make_encoder(const EncoderInput& input);

}  // namespace billow::tokenizer
