// Reads the vocabulary of a language model from any supported file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "convert/pre_tokenizer_name.h"
#include "convert/sentence_piece.h"
#include "convert/vocabulary.h"

namespace billow::convert {
namespace {

using tokenizer::TokenType;

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kSentencePiece = "tokenizer.model";
// Lists of Base64 tokens. Some models store one as tokenizer.model.
constexpr const char* kRanked[] = {"qwen.tiktoken", "hy.tiktoken", "tiktoken.model",
                                   kSentencePiece};

std::string model_type(const Sources& sources) {
  const auto config = sources.document("config.json");
  if (!config || !config->is_object()) return "";
  const auto at = config->find("model_type");
  return at != config->end() && at->is_string() ? at->get<std::string>() : "";
}

// Tokens that structure Gemma 4's answers. They must be visible, because parsers of the answers
// need them.
constexpr std::string_view kVisible[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                         "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                         "<|\"|>"};

void read_characters(const Sources& sources, const DocumentFields& tokenizer,
                     Vocabulary& vocabulary) {
  const bool is_gemma4 = model_type(sources).starts_with("gemma4");
  vocabulary.model = is_gemma4 ? "gemma4" : "llama";
  if (!is_gemma4) vocabulary.pre = "default";
  read_pairs_of_characters(tokenizer, is_gemma4, vocabulary);
  if (!is_gemma4) return;
  vocabulary.adds_space_prefix = false;
  for (Piece& piece : vocabulary.pieces)
    if (std::ranges::find(kVisible, piece.text) != std::end(kVisible))
      piece.type = TokenType::kUserDefined;
}

void read_tokenizer(const Sources& sources, const DocumentFields& tokenizer,
                    Vocabulary& vocabulary) {
  const Document* model = tokenizer.find("model");
  if (model == nullptr) tokenizer.refuse("model", "is missing");
  const DocumentFields fields(*model, fmt::format("{}: \"model\"", kTokenizer));
  const std::string type = fields.text("type").value_or("BPE");
  if (type == "Unigram") return read_unigram(tokenizer, vocabulary);
  if (type != "BPE") {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{}: a vocabulary of the kind '{}' cannot be converted for a language "
                            "model (known: BPE, Unigram); give a GGUF file",
                            kTokenizer, type));
  }
  if (fields.flag("byte_fallback").value_or(false))
    return read_characters(sources, tokenizer, vocabulary);
  vocabulary.model = "gpt2";
  check_byte_normalizer(tokenizer);
  read_pairs_of_bytes(tokenizer, vocabulary);
}

// Returns the Base64 token file, if there is one.
std::optional<std::string> ranked_file(const Sources& sources) {
  for (const char* name : kRanked)
    if (sources.find(name) != nullptr) return name;
  return std::nullopt;
}

bool has_sentence_pieces(const Sources& sources) {
  const auto bytes = sources.text(kSentencePiece);
  return bytes && is_sentence_piece(*bytes);
}

// Reads the first vocabulary file that exists.
void read_pieces(const Sources& sources, const DocumentFields* tokenizer, Vocabulary& vocabulary) {
  if (sources.find(kWorldFile) != nullptr) return read_world_pieces(sources, vocabulary);
  if (has_sentence_pieces(sources))
    return read_sentence_pieces(sources, kSentencePiece, vocabulary);
  if (tokenizer != nullptr) return read_tokenizer(sources, *tokenizer, vocabulary);
  if (sources.find("tekken.json") != nullptr) return read_tekken(sources, vocabulary);
  if (const auto file = ranked_file(sources)) return read_ranked_lines(sources, *file, vocabulary);
  if (sources.find("vocab.json") != nullptr) {
    vocabulary.model = "gpt2";
    return read_pair_files(sources, vocabulary);
  }
  throw Error(ErrorCode::kInvalidInput,
              "there is no vocabulary; send tokenizer.json or tokenizer.model with the weights "
              "(also supported: tekken.json, *.tiktoken, vocab.json with merges.txt)");
}

}  // namespace

// Allows composing texts (NFC) although Billow does not do it: nearly all texts are composed
// already, and other programs with GGUF files do not do it either.
void check_byte_normalizer(const DocumentFields& tokenizer) {
  const Document* normalizer = tokenizer.find("normalizer");
  if (normalizer == nullptr) return;
  const std::string origin = fmt::format("{}: \"normalizer\"", kTokenizer);
  const DocumentFields fields(*normalizer, origin);
  const std::string type = fields.text("type").value_or("");
  if (type == "NFC") return;
  const Document* steps = fields.find("normalizers");
  if (type == "Sequence" && steps != nullptr && steps->is_array()) {
    const bool is_known = std::ranges::all_of(*steps, [&](const Document& step) {
      return DocumentFields(step, origin).text("type").value_or("") == "NFC";
    });
    if (is_known) return;
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: '{}' is not supported (known: NFC)", origin, type));
}

Vocabulary read_language_vocabulary(const Sources& sources, uint32_t n_rows) {
  const auto document = sources.document(kTokenizer);
  std::optional<DocumentFields> tokenizer;
  if (document) tokenizer.emplace(*document, kTokenizer);
  Vocabulary vocabulary;
  vocabulary.pieces = empty_pieces(n_rows);
  read_pieces(sources, tokenizer ? &*tokenizer : nullptr, vocabulary);
  read_language_tokens(sources, document ? &*document : nullptr, vocabulary);
  const SpecialTokens& special = vocabulary.special;
  if (vocabulary.model != "rwkv") {
    for (const auto& id : {special.bos, special.eos, special.padding})
      if (id && (vocabulary.pieces[*id].type == TokenType::kNormal ||
                 vocabulary.pieces[*id].type == TokenType::kUserDefined))
        vocabulary.pieces[*id].type = TokenType::kControl;
  }
  if (vocabulary.model == "gpt2" && vocabulary.pre.empty())
    vocabulary.pre = pre_tokenizer_name(tokenizer ? &*tokenizer : nullptr, vocabulary);
  add_tokens_of_class(vocabulary);
  return vocabulary;
}

}  // namespace billow::convert
