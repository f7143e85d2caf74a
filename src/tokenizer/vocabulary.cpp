#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

#include "base/log.h"
#include "gguf/file.h"

namespace billow::tokenizer {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 30;
constexpr size_t kLookupsAtOnce = 64;  // lookups that wait for memory together

bool is_number(gguf::ValueType type) {
  return type != gguf::ValueType::kString && type != gguf::ValueType::kArray;
}

size_t hash_of(std::string_view text) { return std::hash<std::string_view>{}(text); }

uint32_t upper_half(size_t hash) { return static_cast<uint32_t>(hash >> 32); }

// Returns the numeric array `key` with one element per token, or null if the file has none.
const gguf::Array* per_token_numbers(const gguf::File& file, std::string_view key, size_t n) {
  const gguf::Array* array = file.get_array(key);
  if (array == nullptr) return nullptr;
  if (!is_number(array->element_type)) {
    throw vocabulary_error(file, std::string(key) + " is not an array of numbers");
  }
  if (array->n < n) {
    throw vocabulary_error(file, std::string(key) + " has " + std::to_string(array->n) +
                                     " elements for " + std::to_string(n) + " tokens");
  }
  return array;
}

// Returns how many tokens have an embedding. Ollama's files of Gemma 3 name more tokens, for
// pictures, which no text has.
size_t n_embeddings(const gguf::File& file) {
  const auto architecture = file.get_string("general.architecture");
  const gguf::TensorInfo* table = file.find_tensor("token_embd.weight");
  if (architecture != "gemma3" || table == nullptr) return kMaxTokens;
  return table->shape[1];
}

}  // namespace

Error vocabulary_error(const gguf::File& file, const std::string& what, ErrorCode code) {
  return Error(code, "vocabulary of '" + file.path() + "': " + what);
}

Vocabulary::Vocabulary(const gguf::File& file) {
  read_texts(file);
  read_scores(file);
  read_types(file);
}

void Vocabulary::read_texts(const gguf::File& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.tokens";
  const gguf::Array* tokens = file.get_string_array(kKey);
  if (tokens == nullptr || tokens->n == 0) {
    throw vocabulary_error(file,
                           std::string(kKey) + " is missing or empty; the file has no vocabulary");
  }
  if (tokens->n > kMaxTokens) throw vocabulary_error(file, "more tokens than 2^30");
  const size_t n = std::min(tokens->strings.size(), n_embeddings(file));
  size_t n_bytes = 0;
  for (size_t i = 0; i < n; ++i) n_bytes += tokens->strings[i].size();
  bytes_.reserve(n_bytes);
  begins_.reserve(n + 1);
  begins_.push_back(0);
  for (size_t i = 0; i < n; ++i) {
    const std::string_view text = tokens->strings[i];
    if (text.empty()) {
      const std::string name = "[EMPTY_" + std::to_string(i) + "]";
      bytes_.insert(bytes_.end(), name.begin(), name.end());
    } else {
      bytes_.insert(bytes_.end(), text.begin(), text.end());
    }
    begins_.push_back(bytes_.size());
  }
  types_.assign(n, TokenType::kNormal);
  const size_t n_duplicates = index_texts();
  if (n_duplicates != 0) {
    log::warn("vocabulary of '" + file.path() + "': " + std::to_string(n_duplicates) +
              " tokens repeat the text of an earlier one and are never chosen");
  }
}

size_t Vocabulary::index_texts() {
  places_.resize(std::bit_ceil(2 * static_cast<size_t>(n_tokens())));
  size_t n_duplicates = 0;
  const size_t n = types_.size();
  std::array<size_t, kLookupsAtOnce> hashes;
  for (size_t begin = 0; begin < n; begin += kLookupsAtOnce) {
    const size_t end = std::min(begin + kLookupsAtOnce, n);
    for (size_t i = begin; i < end; ++i) {
      hashes[i - begin] = hash_of(text(static_cast<TokenId>(i)));
      __builtin_prefetch(&places_[hashes[i - begin] & (places_.size() - 1)], 1);
    }
    for (size_t i = begin; i < end; ++i) {
      const auto id = static_cast<TokenId>(i);
      Place& place = places_[locate(text(id), hashes[i - begin])];
      if (place.id != kNoToken) {
        ++n_duplicates;
      } else {
        place = {upper_half(hashes[i - begin]), id};
      }
      max_token_bytes_ = std::max(max_token_bytes_, text(id).size());
    }
  }
  return n_duplicates;
}

size_t Vocabulary::locate(std::string_view wanted, size_t hash) const noexcept {
  const size_t mask = places_.size() - 1;
  size_t at = hash & mask;
  while (places_[at].id != kNoToken &&
         (places_[at].hash != upper_half(hash) || text(places_[at].id) != wanted)) {
    at = (at + 1) & mask;
  }
  return at;
}

void Vocabulary::read_scores(const gguf::File& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  const gguf::Array* scores = per_token_numbers(file, kKey, types_.size());
  if (scores == nullptr) return;
  scores_.reserve(types_.size());
  for (size_t i = 0; i < types_.size(); ++i) {
    const double score = scores->number(i);
    if (std::isnan(score)) {
      throw vocabulary_error(file,
                             std::string(kKey) + "[" + std::to_string(i) + "] is not a number");
    }
    // Scores are bounded, so that their sums stay finite.
    scores_.push_back(static_cast<float>(std::clamp(score, -1e30, 1e30)));
  }
}

void Vocabulary::read_types(const gguf::File& file) {
  const gguf::Array* types = per_token_numbers(file, "tokenizer.ggml.token_type", types_.size());
  if (types == nullptr) return;
  for (size_t i = 0; i < types_.size(); ++i) {
    const double number = types->number(i);
    const bool known = number >= 0 && number <= static_cast<double>(TokenType::kByte);
    types_[i] = known ? static_cast<TokenType>(number) : TokenType::kUndefined;
  }
}

std::string_view Vocabulary::text(TokenId id) const noexcept {
  const auto i = static_cast<size_t>(id);
  return {bytes_.data() + begins_[i], begins_[i + 1] - begins_[i]};
}

float Vocabulary::score(TokenId id) const noexcept {
  return scores_.empty() ? 0.0F : scores_[static_cast<size_t>(id)];
}

TokenId Vocabulary::find(std::string_view text) const noexcept {
  return places_[locate(text, hash_of(text))].id;
}

void Vocabulary::find_all(std::span<const std::string_view> texts,
                          std::span<TokenId> tokens) const noexcept {
  const size_t mask = places_.size() - 1;
  std::array<size_t, kLookupsAtOnce> hashes;
  for (size_t begin = 0; begin < texts.size(); begin += kLookupsAtOnce) {
    const auto some = texts.subspan(begin, std::min(kLookupsAtOnce, texts.size() - begin));
    for (size_t i = 0; i < some.size(); ++i) {
      hashes[i] = hash_of(some[i]);
      __builtin_prefetch(&places_[hashes[i] & mask]);
    }
    // The text of the first token at the place is probably the wanted text.
    for (size_t i = 0; i < some.size(); ++i) {
      const TokenId first = places_[hashes[i] & mask].id;
      if (first != kNoToken) __builtin_prefetch(&begins_[static_cast<size_t>(first)]);
    }
    for (size_t i = 0; i < some.size(); ++i) {
      const TokenId first = places_[hashes[i] & mask].id;
      if (first != kNoToken) __builtin_prefetch(text(first).data());
    }
    for (size_t i = 0; i < some.size(); ++i)
      tokens[begin + i] = places_[locate(some[i], hashes[i])].id;
  }
}

TokenId Vocabulary::find_byte(unsigned char byte) const noexcept {
  constexpr char kHex[] = "0123456789ABCDEF";
  const char name[] = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
  return find({name, sizeof name});
}

}  // namespace billow::tokenizer
