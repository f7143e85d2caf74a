// Byte-level BPE files that list tokens in merge order instead of merges: Mistral's tekken.json,
// and lists of Base64 tokens ("tiktoken").
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "convert/vocabulary.h"
#include "tokenizer/byte_alphabet.h"

namespace billow::convert {
namespace {

using tokenizer::spell_bytes;
using tokenizer::TokenType;

constexpr size_t kMaxTokenBytes = 1024;
constexpr uint32_t kNone = UINT32_MAX;

[[noreturn]] void fail(std::string_view origin, const std::string& what) {
  throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {}", origin, what));
}

// Maps ranks to the bytes of tokens, and bytes to ranks.
class Ranks {
 public:
  explicit Ranks(std::string origin) : origin_(std::move(origin)) {}

  // Adds the token of the next rank. Ranks start at 0.
  void add(std::string_view base64) {
    auto bytes = base64_decoded(base64);
    if (!bytes || bytes->empty() || bytes->size() > kMaxTokenBytes) {
      fail(origin_,
           fmt::format("token {} is not 1 to {} bytes in Base64", tokens_.size(), kMaxTokenBytes));
    }
    const auto rank = static_cast<uint32_t>(tokens_.size());
    const auto [at, is_new] = ranks_.try_emplace(*std::move(bytes), rank);
    if (!is_new) fail(origin_, fmt::format("tokens {} and {} are the same", at->second, rank));
    tokens_.push_back(&at->first);
  }

  size_t n() const noexcept { return tokens_.size(); }
  const std::string& bytes(size_t rank) const { return *tokens_[rank]; }
  uint32_t find(const std::string& bytes) const {
    const auto at = ranks_.find(bytes);
    return at == ranks_.end() ? kNone : at->second;
  }

 private:
  std::string origin_;
  std::unordered_map<std::string, uint32_t> ranks_;
  std::vector<const std::string*> tokens_;  // keys of the map, whose addresses are stable
};

std::string merge_text(const std::string& left, const std::string& right) {
  return spell_bytes(left) + " " + spell_bytes(right);
}

// Adds each pair of tokens that together form the token, lowest ranks first.
void add_all_merges(const Ranks& ranks, size_t rank, std::vector<std::string>& merges) {
  const std::string& token = ranks.bytes(rank);
  std::vector<std::array<uint32_t, 2>> pairs;
  for (size_t i = 1; i < token.size(); ++i) {
    const uint32_t left = ranks.find(token.substr(0, i));
    const uint32_t right = ranks.find(token.substr(i));
    if (left != kNone && right != kNone) pairs.push_back({left, right});
  }
  std::ranges::sort(pairs);
  for (const auto& [left, right] : pairs)
    merges.push_back(merge_text(ranks.bytes(left), ranks.bytes(right)));
}

// Adds the pair that remains after all merges of lower ranks within the token's bytes.
void add_last_merge(const Ranks& ranks, size_t rank, const std::string& origin,
                    std::vector<std::string>& merges) {
  std::vector<std::string> parts;
  for (const char c : ranks.bytes(rank)) parts.emplace_back(1, c);
  while (parts.size() > 2) {
    size_t best = 0;
    uint32_t best_rank = kNone;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const uint32_t merged = ranks.find(parts[i] + parts[i + 1]);
      if (merged >= best_rank || merged >= rank) continue;
      best = i;
      best_rank = merged;
    }
    if (best_rank == kNone) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  if (parts.size() == 2) {
    merges.push_back(merge_text(parts[0], parts[1]));
  } else if (parts.size() > 2) {
    fail(origin, fmt::format("token {} is not a merge of two others", rank));
  }
}

void put_ranks(const Ranks& ranks, uint64_t first_id, const std::string& origin,
               Vocabulary& vocabulary) {
  for (size_t rank = 0; rank < ranks.n(); ++rank) {
    put_piece(vocabulary.pieces, first_id + rank,
              {spell_bytes(ranks.bytes(rank)), 0, TokenType::kNormal}, origin);
  }
}

// Names of the first special tokens, for a tekken.json without a list of special tokens.
constexpr std::string_view kTekkenNames[] = {"<unk>",
                                             "<s>",
                                             "</s>",
                                             "[INST]",
                                             "[/INST]",
                                             "[AVAILABLE_TOOLS]",
                                             "[/AVAILABLE_TOOLS]",
                                             "[TOOL_RESULTS]",
                                             "[/TOOL_RESULTS]",
                                             "[TOOL_CALLS]",
                                             "[IMG]",
                                             "<pad>",
                                             "[IMG_BREAK]",
                                             "[IMG_END]",
                                             "[PREFIX]",
                                             "[MIDDLE]",
                                             "[SUFFIX]",
                                             "[SYSTEM_PROMPT]",
                                             "[/SYSTEM_PROMPT]",
                                             "[TOOL_CONTENT]"};

void put_tekken_specials(const DocumentFields& file, uint64_t n_special, Vocabulary& vocabulary) {
  for (uint64_t id = 0; id < n_special; ++id) {
    put_piece(vocabulary.pieces, id,
              {id < std::size(kTekkenNames) ? std::string(kTekkenNames[id])
                                            : fmt::format("<SPECIAL_{}>", id),
               0, TokenType::kControl},
              file.origin());
  }
  const Document* listed = file.find("special_tokens");
  if (listed == nullptr) return;
  if (!listed->is_array()) file.refuse("special_tokens", "must be an array");
  for (uint64_t id = 0; id < n_special; ++id)
    vocabulary.pieces[id].text = fmt::format("<SPECIAL_{}>", id);
  for (const Document& entry : *listed) {
    const DocumentFields fields(entry, file.origin() + ": \"special_tokens\"");
    const auto rank = fields.count("rank");
    const auto text = fields.text("token_str");
    if (!rank || *rank >= n_special || !text) {
      fields.refuse(text ? "rank" : "token_str", "is missing or too large");
    }
    vocabulary.pieces[*rank].text = *text;
  }
}

std::optional<uint32_t> find_piece(const Vocabulary& vocabulary, std::string_view text) {
  for (uint32_t id = 0; id < vocabulary.pieces.size(); ++id)
    if (vocabulary.pieces[id].text == text) return id;
  return std::nullopt;
}

// Adds the tokens that Qwen's own code appends to qwen.tiktoken.
void put_qwen_tokens(uint64_t first_id, Vocabulary& vocabulary) {
  std::vector<std::string> texts{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  for (int i = 0; i < 205; ++i) texts.push_back(fmt::format("<|extra_{}|>", i));
  for (size_t i = 0; i < texts.size() && first_id + i < vocabulary.pieces.size(); ++i)
    vocabulary.pieces[first_id + i] = {texts[i], 0, TokenType::kControl};
}

}  // namespace

void read_tekken(const Sources& sources, Vocabulary& vocabulary) {
  constexpr const char* kFile = "tekken.json";
  const auto document = sources.document(kFile);
  const DocumentFields file(document.value(), kFile);
  const Document* settings = file.find("config");
  const Document* tokens = file.find("vocab");
  if (settings == nullptr) file.refuse("config", "is missing");
  if (tokens == nullptr || !tokens->is_array()) file.refuse("vocab", "must be an array");
  const DocumentFields config(*settings, file.origin() + ": \"config\"");
  const uint64_t n_all = config.require_size({"default_vocab_size"});
  const uint64_t n_special = config.require_size({"default_num_special_tokens"});
  if (n_special > n_all || n_all - n_special > tokens->size() ||
      n_special > vocabulary.pieces.size()) {
    config.refuse("default_vocab_size", "does not fit the tokens that are listed");
  }
  Ranks ranks(kFile);
  for (uint64_t i = 0; i < n_all - n_special; ++i) {
    const DocumentFields token((*tokens)[i], file.origin() + ": \"vocab\"");
    if (token.count("rank").value_or(i) != i) token.refuse("rank", "is not in ascending order");
    ranks.add(token.text("token_bytes").value_or(""));
  }
  put_tekken_specials(file, n_special, vocabulary);
  put_ranks(ranks, n_special, kFile, vocabulary);
  for (size_t rank = 256; rank < ranks.n(); ++rank) add_all_merges(ranks, rank, vocabulary.merges);
  vocabulary.model = "gpt2";
  vocabulary.pre = "tekken";
  SpecialTokens& special = vocabulary.special;
  special.bos = find_piece(vocabulary, "<s>");
  special.eos = find_piece(vocabulary, "</s>");
  special.unknown = find_piece(vocabulary, "<unk>");
  special.padding = find_piece(vocabulary, "<pad>");
  special.adds_bos = true;
  special.adds_eos = false;
}

void read_ranked_lines(const Sources& sources, const std::string& file, Vocabulary& vocabulary) {
  const std::string lines = sources.text(file).value();
  Ranks ranks(file);
  for (std::string_view rest = lines; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view digits = trimmed(line.substr(space));
    uint64_t rank = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (error != std::errc{} || stop != digits.data() + digits.size() || rank != ranks.n()) {
      fail(file, fmt::format("line {} is not a token in Base64 with the rank {}", ranks.n() + 1,
                             ranks.n()));
    }
    ranks.add(line.substr(0, space));
  }
  if (ranks.n() == 0) fail(file, "has no tokens");
  vocabulary.model = "gpt2";
  put_ranks(ranks, 0, file, vocabulary);
  for (size_t rank = 0; rank < ranks.n(); ++rank)
    add_last_merge(ranks, rank, file, vocabulary.merges);
  if (file == "qwen.tiktoken") put_qwen_tokens(ranks.n(), vocabulary);
  put_configured_tokens(sources, vocabulary.pieces);
}

}  // namespace billow::convert
