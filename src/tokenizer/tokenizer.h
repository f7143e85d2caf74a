// The tokenizer of a model: turns text into token ids and back, by the vocabulary in its GGUF file.
// Owns copies of all its data, so the file may be closed. Immutable after load(); thread-safe.
#pragma once

#include <cstddef>
#include <functional>
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
  bool add_special = true;  // add BOS, EOS, CLS and SEP if the model wants them
  bool parse_special =
      false;  // control tokens in the text become tokens: for rendered chat templates
  // Runs before each part of the text between special tokens. Its exception cancels the work. May
  // be null.
  const std::function<void()>* check = nullptr;
};

struct DecodeOptions {
  bool remove_special =
      false;  // leave out the BOS and EOS that encoding adds (if add_bos() and add_eos())
  bool render_special = false;  // render control and unknown tokens as their texts
  bool clean_spaces = false;    // remove spaces before punctuation; see clean_spaces()
};

class Tokenizer {
 public:
  // Loads the vocabulary of a file. Throws Error with the file and the reason: kUnsupported for an
  // unknown kind or pre-tokeniser, kInvalidInput for an incomplete or contradictory vocabulary.
  static Tokenizer load(const gguf::File& file);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Accepts any bytes. Throws Error kTooLarge for texts of 1 GiB or more.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Returns the bytes of the tokens, one after the other. If encoding adds a space before text
  // (add_space_prefix), the space of the first token is removed, unless a BOS was removed before
  // it. Throws Error kInvalidInput for an id out of range.
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  // Returns the bytes of one token, which may be a part of a character. Special tokens are their
  // text if `render_special`, else empty. The view lives as long as the Tokenizer. Throws Error
  // kInvalidInput for an id out of range.
  std::string_view piece(TokenId id, bool render_special = false) const;

  TokenId n_tokens() const noexcept;
  bool has(TokenId id) const noexcept { return id >= 0 && id < n_tokens(); }
  // Returns the token whose text in the vocabulary is exactly `text`, or kNoToken.
  TokenId find(std::string_view text) const noexcept;
  // Return the type, or the text in the spelling of the vocabulary. Throw Error kInvalidInput for
  // an id out of range.
  std::string_view text(TokenId id) const;
  TokenType type(TokenId id) const;

  bool is_control(TokenId id) const { return type(id) == TokenType::kControl; }
  bool is_end_of_generation(TokenId id) const noexcept;  // false for an id out of range
  const TokenRoles& roles() const noexcept;
  TokenId bos() const noexcept { return roles().bos; }
  TokenId eos() const noexcept { return roles().eos; }
  TokenId eot() const noexcept { return roles().eot; }
  bool add_bos() const noexcept;  // whether add_special puts a BOS (CLS) first
  bool add_eos() const noexcept;  // whether add_special puts an EOS (SEP) last
  bool add_space_prefix() const noexcept;
  // Returns whether the model's own library cleans spaces when it decodes.
  bool clean_spaces() const noexcept;
  const std::vector<TokenId>& suppressed() const noexcept;  // never sampled; ascending
  std::string_view model() const noexcept;                  // tokenizer.ggml.model
  std::string_view pre_tokenizer() const noexcept;          // tokenizer.ggml.pre; empty unless BPE

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace billow::tokenizer
