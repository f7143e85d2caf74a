#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>

#include "gguf/file.h"
#include "tokenizer/encoder.h"
#include "tokenizer/pieces.h"
#include "tokenizer/special_tokens.h"

namespace billow::tokenizer {
namespace {

std::vector<TokenId> load_suppressed(const gguf::File& file, const Vocabulary& vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.suppress_tokens";
  std::vector<TokenId> ids;
  const gguf::Array* array = file.get_array(kKey);
  if (array == nullptr) return ids;
  if (array->element_type == gguf::ValueType::kString ||
      array->element_type == gguf::ValueType::kArray) {
    throw vocabulary_error(file, std::string(kKey) + " is not an array of numbers");
  }
  for (uint64_t i = 0; i < array->n; ++i) {
    const int64_t id = array->integer(i);
    if (id >= 0 && id < vocabulary.n_tokens()) ids.push_back(static_cast<TokenId>(id));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

// Members are in the order of construction: token roles set the types of tokens before other
// members use them.
struct Tokenizer::State {
  explicit State(const gguf::File& file)
      : settings(load_settings(file)),
        vocabulary(file),
        roles(load_token_roles(file, settings, vocabulary)),
        special_tokens(file, vocabulary),
        pieces(settings, vocabulary),
        suppressed(load_suppressed(file, vocabulary)),
        encoder(make_encoder({file, settings, vocabulary, roles})) {}

  // WordPiece puts CLS and SEP around every text, and ignores the flags.
  bool adds_bos() const noexcept {
    return settings.kind == Kind::kWordPiece ? roles.bos != kNoToken : settings.add_bos;
  }
  TokenId last() const noexcept {
    if (settings.kind == Kind::kWordPiece) return roles.separator;
    return settings.add_eos ? roles.eos : kNoToken;
  }

  Settings settings;
  Vocabulary vocabulary;
  TokenRoles roles;
  SpecialTokens special_tokens;
  Pieces pieces;
  std::vector<TokenId> suppressed;
  std::unique_ptr<Encoder> encoder;
};

std::unique_ptr<Encoder> make_encoder(const EncoderInput& input) {
  constexpr std::array kMakers = {make_bpe_encoder, make_spm_encoder, make_word_piece_encoder,
                                  make_unigram_encoder,
                                  make_longest_match_encoder};  // in the order of Kind
  return kMakers[static_cast<size_t>(input.settings.kind)](input);
}

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const gguf::File& file) {
  return Tokenizer(std::make_unique<const State>(file));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  // Places in a text are 32-bit numbers. Escaped spaces make a text up to three times as long.
  if (text.size() > std::numeric_limits<int32_t>::max() / 2) {
    throw Error(ErrorCode::kTooLarge, "text of " + std::to_string(text.size()) +
                                          " bytes is too long to tokenise; send it in parts");
  }
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 2);
  if (options.add_special && state_->adds_bos()) ids.push_back(state_->roles.bos);
  bool after_special = true;
  for (const Fragment& fragment : state_->special_tokens.partition(text, options.parse_special)) {
    if (options.check != nullptr && *options.check) (*options.check)();
    if (fragment.token != kNoToken) {
      ids.push_back(fragment.token);
    } else {
      state_->encoder->encode(fragment.text, after_special, ids);
    }
    after_special = fragment.token != kNoToken;
  }
  if (options.add_special && state_->last() != kNoToken) ids.push_back(state_->last());
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  bool strips_space = state_->settings.add_space_prefix;
  if (options.remove_special && state_->adds_bos() && !ids.empty() &&
      ids.front() == state_->roles.bos) {
    strips_space = false;
    ids = ids.subspan(1);
  }
  if (options.remove_special && state_->last() != kNoToken && !ids.empty() &&
      ids.back() == state_->last()) {
    ids = ids.first(ids.size() - 1);
  }
  std::string text;
  for (const TokenId id : ids) {
    std::string_view bytes = piece(id, options.render_special);
    if (strips_space && bytes.starts_with(' ')) bytes.remove_prefix(1);
    strips_space = false;
    text += bytes;
  }
  return options.clean_spaces ? clean_up_spaces(text) : text;
}

std::string_view Tokenizer::piece(TokenId id, bool render_special) const {
  const TokenType kind = type(id);
  const bool special = kind == TokenType::kControl || kind == TokenType::kUnknown;
  return special && !render_special ? std::string_view{} : state_->pieces[id];
}

TokenId Tokenizer::n_tokens() const noexcept { return state_->vocabulary.n_tokens(); }

TokenId Tokenizer::find(std::string_view text) const noexcept {
  return state_->vocabulary.find(text);
}

std::string_view Tokenizer::text(TokenId id) const {
  type(id);
  return state_->vocabulary.text(id);
}

TokenType Tokenizer::type(TokenId id) const {
  if (!has(id)) {
    throw Error(ErrorCode::kInvalidInput, "token id " + std::to_string(id) +
                                              " is not in the vocabulary of " +
                                              std::to_string(n_tokens()) + " tokens");
  }
  return state_->vocabulary.type(id);
}

bool Tokenizer::is_end_of_generation(TokenId id) const noexcept {
  const std::vector<TokenId>& ends = state_->roles.end_of_generation;
  return std::binary_search(ends.begin(), ends.end(), id);
}

const TokenRoles& Tokenizer::roles() const noexcept { return state_->roles; }
bool Tokenizer::add_bos() const noexcept { return state_->adds_bos(); }
bool Tokenizer::add_eos() const noexcept { return state_->last() != kNoToken; }
bool Tokenizer::add_space_prefix() const noexcept { return state_->settings.add_space_prefix; }
bool Tokenizer::clean_spaces() const noexcept { return state_->settings.clean_spaces; }
const std::vector<TokenId>& Tokenizer::suppressed() const noexcept { return state_->suppressed; }
std::string_view Tokenizer::model() const noexcept { return state_->settings.defaults->name; }
std::string_view Tokenizer::pre_tokenizer() const noexcept { return state_->settings.pre; }

}  // namespace billow::tokenizer
