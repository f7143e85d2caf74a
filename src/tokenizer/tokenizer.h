// The tokenizer of a model: text to token ids and back, as the vocabulary in its GGUF file says.
// Owns copies of all that it needs: the file may be closed. Immutable after load(); any thread may
// call anything.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/token.h"
#include "tokenizer/token_roles.h"

namespace billow::gguf {
class File;
}

namespace billow::tokenizer {

struct EncodeOptions {
  bool add_special = true;  // BOS, EOS, CLS and SEP, as the model wants them
  bool parse_special =
      false;  // control tokens written in the text become tokens: for rendered chat templates
};

struct DecodeOptions {
  bool remove_special =
      false;  // leave out the BOS and EOS that encoding adds, when add_bos() and add_eos() say so
  bool render_special = false;  // control and unknown tokens as their texts instead of nothing
  bool clean_spaces = false;    // no spaces before punctuation; see clean_spaces()
};

class Tokenizer {
 public:
  // Throws Error naming the file and what is wrong: kUnsupported for a kind or pre-tokeniser that
  // Billow does not know, kInvalidInput for a vocabulary that is incomplete or contradicts itself.
  static Tokenizer load(const gguf::File& file);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Any bytes will do. Throws Error kTooLarge for 2 GiB of text and more.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes of the tokens, one after the other. Where a space is added before text
  // (add_space_prefix), that of the first token is taken away again, unless a BOS was removed
  // before it. Throws Error kInvalidInput for an id out of range.
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  // The bytes of one token: possibly part of a character. Special tokens have their text if
  // `render_special`, else nothing. Lives as long as the Tokenizer. Throws Error kInvalidInput for
  // an id out of range.
  std::string_view piece(TokenId id, bool render_special = false) const;

  TokenId n_tokens() const noexcept;
  bool has(TokenId id) const noexcept { return id >= 0 && id < n_tokens(); }
  // The token whose text in the vocabulary is exactly `text`, or kNoToken.
  TokenId find(std::string_view text) const noexcept;
  // The text in the vocabulary, in its own spelling, and the type. Throw Error kInvalidInput for an
  // id out of range.
  std::string_view text(TokenId id) const;
  TokenType type(TokenId id) const;

  bool is_control(TokenId id) const { return type(id) == TokenType::kControl; }
  bool is_end_of_generation(TokenId id) const noexcept;  // false for an id out of range
  const TokenRoles& roles() const noexcept;
  TokenId bos() const noexcept { return roles().bos; }
  TokenId eos() const noexcept { return roles().eos; }
  TokenId eot() const noexcept { return roles().eot; }
  bool add_bos() const noexcept;  // whether encode() with add_special puts a BOS (CLS) first
  bool add_eos() const noexcept;  // whether it puts an EOS (SEP) last
  bool add_space_prefix() const noexcept;
  bool clean_spaces()
      const noexcept;  // whether the model's own library cleans spaces when it decodes
  const std::vector<TokenId>& suppressed() const noexcept;  // never to be sampled; ascending
  std::string_view model() const noexcept;                  // tokenizer.ggml.model
  std::string_view pre_tokenizer() const noexcept;          // tokenizer.ggml.pre; empty unless BPE

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace billow::tokenizer
