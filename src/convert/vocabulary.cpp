#include "convert/vocabulary.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "convert/pre_tokenizer_name.h"
#include "tokenizer/settings.h"

namespace billow::convert {
namespace {

using tokenizer::TokenType;

constexpr std::string_view kTokenizer = "tokenizer.json";

struct Reader {
  std::string_view type;  // type of the model in tokenizer.json
  void (*read)(const DocumentFields& tokenizer, Vocabulary& vocabulary);
};
void read_byte_pairs(const DocumentFields& tokenizer, Vocabulary& vocabulary) {
  const DocumentFields model(*tokenizer.find("model"), tokenizer.origin() + ": \"model\"");
  if (model.flag("byte_fallback").value_or(false)) {
    throw Error(
        ErrorCode::kUnsupported,
        tokenizer.origin() + ": BPE with \"byte_fallback\" is not supported for an encoder");
  }
  vocabulary.model = "gpt2";
  check_byte_normalizer(tokenizer);
  read_pairs_of_bytes(tokenizer, vocabulary);
}

constexpr std::array kReaders{Reader{"WordPiece", read_word_pieces},
                              Reader{"Unigram", read_unigram}, Reader{"BPE", read_byte_pairs}};

void read_tokenizer(const DocumentFields& tokenizer, Vocabulary& vocabulary) {
  const Document* model = tokenizer.find("model");
  if (model == nullptr) tokenizer.refuse("model", "is missing");
  const std::string type =
      DocumentFields(*model, tokenizer.origin() + ": \"model\"").text("type").value_or("WordPiece");
  for (const Reader& reader : kReaders) {
    if (reader.type == type) return reader.read(tokenizer, vocabulary);
  }
  throw Error(ErrorCode::kUnsupported,
              tokenizer.origin() + ": a vocabulary of the kind '" + type +
                  "' cannot be converted (known: WordPiece, Unigram, BPE)");
}

// Marks the first piece of each word for GGUF. WordPiece marks the other pieces instead.
void mark_word_begins(std::vector<Piece>& pieces) {
  for (Piece& piece : pieces) {
    if (piece.type == TokenType::kControl) continue;
    if (piece.text.starts_with("##")) {
      piece.text.erase(0, 2);
    } else {
      piece.text.insert(0, "\xE2\x96\x81");
    }
  }
}

constexpr std::pair<std::string_view, std::optional<uint32_t> SpecialTokens::*> kIds[] = {
    {"bos_token_id", &SpecialTokens::bos},
    {"eos_token_id", &SpecialTokens::eos},
    {"unknown_token_id", &SpecialTokens::unknown},
    {"seperator_token_id", &SpecialTokens::separator},  // GGUF's spelling
    {"padding_token_id", &SpecialTokens::padding},
    {"mask_token_id", &SpecialTokens::mask},
    {"eot_token_id", &SpecialTokens::eot},
    {"eom_token_id", &SpecialTokens::eom},
    {"prefix_token_id", &SpecialTokens::fim_prefix},
    {"suffix_token_id", &SpecialTokens::fim_suffix},
    {"middle_token_id", &SpecialTokens::fim_middle},
    {"fsep_token_id", &SpecialTokens::fim_separator}};
constexpr std::pair<std::string_view, std::optional<bool> SpecialTokens::*> kFlags[] = {
    {"add_bos_token", &SpecialTokens::adds_bos},
    {"add_eos_token", &SpecialTokens::adds_eos},
    {"add_sep_token", &SpecialTokens::adds_separator}};

void set_id(gguf::Writer& writer, std::string_view key, std::optional<uint32_t> id) {
  if (id) writer.set_uint("tokenizer.ggml." + std::string(key), *id);
}

void set_bytes(gguf::Writer& writer, std::string_view key, std::string_view bytes) {
  gguf::Array array;
  array.element_type = gguf::ValueType::kU8;
  array.n = bytes.size();
  array.bytes = std::as_bytes(std::span(bytes));
  writer.set(key, {gguf::ValueType::kArray, array});
}

}  // namespace

std::vector<Piece> empty_pieces(uint32_t n_rows) {
  std::vector<Piece> pieces(n_rows);
  for (uint32_t i = 0; i < n_rows; ++i) {
    pieces[i].text = "[PAD" + std::to_string(i) + "]";
    pieces[i].score = -10000;
  }
  return pieces;
}

void put_piece(std::vector<Piece>& pieces, uint64_t id, Piece piece, std::string_view origin) {
  if (id >= pieces.size()) {
    throw Error(ErrorCode::kInvalidInput, std::string(origin) + ": token " + std::to_string(id) +
                                              " has no row in the embedding table, which has " +
                                              std::to_string(pieces.size()));
  }
  pieces[id] = std::move(piece);
}

void put_added_tokens(std::vector<Piece>& pieces, const DocumentFields& tokenizer) {
  const Document* added = tokenizer.find("added_tokens");
  if (added == nullptr) return;
  if (!added->is_array()) tokenizer.refuse("added_tokens", "must be an array");
  for (const Document& token : *added) {
    const DocumentFields fields(token, tokenizer.origin() + ": \"added_tokens\"");
    const auto id = fields.count("id");
    const auto text = fields.text("content");
    if (!id || !text) fields.refuse(id ? "content" : "id", "is missing");
    const bool is_control = fields.flag("special").value_or(false) || looks_special(*text);
    const float score =
        *id < pieces.size() && pieces[*id].type != TokenType::kUnused ? pieces[*id].score : 0.0F;
    put_piece(pieces, *id,
              {is_control ? *text : with_spaces(*text), score,
               is_control ? TokenType::kControl : TokenType::kUserDefined},
              tokenizer.origin());
  }
}

std::string with_spaces(std::string text) {
  constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";
  for (size_t at = text.find(kEscapedSpace); at != std::string::npos;
       at = text.find(kEscapedSpace, at + 1))
    text.replace(at, kEscapedSpace.size(), " ");
  return text;
}

bool looks_special(std::string_view text) noexcept {
  struct Brackets {
    std::string_view begin, end;
  };
  constexpr Brackets kBrackets[] = {{"<|", "|>"}, {"<｜", "｜>"}, {"<unused", ">"}};
  constexpr std::string_view kTexts[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
  return std::ranges::find(kTexts, text) != std::end(kTexts) ||
         std::ranges::any_of(kBrackets, [&](const Brackets& one) {
           return text.starts_with(one.begin) && text.ends_with(one.end);
         });
}

Vocabulary read_vocabulary(const Sources& sources, uint32_t n_rows) {
  Vocabulary vocabulary;
  vocabulary.pieces = empty_pieces(n_rows);
  const auto document = sources.document(kTokenizer);
  if (document) {
    read_tokenizer(DocumentFields(*document, std::string(kTokenizer)), vocabulary);
  } else if (sources.find("vocab.txt") != nullptr) {
    read_word_piece_lines(sources, vocabulary);
  } else {
    throw Error(ErrorCode::kInvalidInput,
                "tokenizer.json and vocab.txt are missing; send one of them with the weights");
  }
  if (vocabulary.model == "gpt2") {
    read_language_tokens(sources, &*document, vocabulary);
    const DocumentFields tokenizer(*document, std::string(kTokenizer));
    vocabulary.pre = pre_tokenizer_name(&tokenizer, vocabulary);
    // Two names for one rule: the name of RoBERTa means that a token separates two texts.
    if (vocabulary.pre == "gpt-2" && vocabulary.special.adds_separator.value_or(false))
      vocabulary.pre = "roberta-bpe";
  } else {
    vocabulary.special = read_special_tokens(sources, document ? &*document : nullptr, vocabulary);
  }
  const SpecialTokens& special = vocabulary.special;
  for (const auto& id :
       {special.bos, special.eos, special.separator, special.padding, special.cls, special.mask}) {
    if (id) vocabulary.pieces[*id].type = TokenType::kControl;
  }
  if (vocabulary.model == "bert") {
    // In GGUF, WordPiece's unknown token is a control token like the others.
    if (special.unknown) vocabulary.pieces[*special.unknown].type = TokenType::kControl;
    mark_word_begins(vocabulary.pieces);
    vocabulary.pre = word_piece_name(vocabulary);
  } else if (vocabulary.model == "t5" && special.unknown) {
    vocabulary.pieces[*special.unknown].type = TokenType::kUnknown;
  }
  return vocabulary;
}

void Vocabulary::write(gguf::Writer& writer) const {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (const Piece& piece : pieces) {
    texts.push_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(static_cast<int32_t>(piece.type));
  }
  const bool is_of_sentence_piece = model == "t5" || model == "llama" || model == "gemma4";
  writer.set_string("tokenizer.ggml.model", model);
  if (!pre.empty()) writer.set_string("tokenizer.ggml.pre", pre);
  writer.set_strings("tokenizer.ggml.tokens", texts);
  if (is_of_sentence_piece) writer.set_floats("tokenizer.ggml.scores", scores);
  writer.set_ints("tokenizer.ggml.token_type", types);
  if (!merges.empty()) writer.set_strings("tokenizer.ggml.merges", merges);
  if (model == "t5") {
    writer.set_bool("tokenizer.ggml.remove_extra_whitespaces", removes_extra_spaces);
    if (!charsmap.empty()) set_bytes(writer, "tokenizer.ggml.precompiled_charsmap", charsmap);
  }
  // If the key is missing, readers of "llama" put a space before texts.
  if (is_of_sentence_piece && (model != "llama" || !adds_space_prefix))
    writer.set_bool("tokenizer.ggml.add_space_prefix", adds_space_prefix);
  for (const auto& [key, id] : kIds) set_id(writer, key, special.*id);
  // Only these models begin texts with this token, and no program uses it otherwise.
  if (model == "bert" || model == "t5") set_id(writer, "cls_token_id", special.cls);
  for (const auto& [key, flag] : kFlags)
    if (special.*flag) writer.set_bool("tokenizer.ggml." + std::string(key), *(special.*flag));
  if (lowercase) writer.set_bool("tokenizer.ggml.normalizer.lowercase", *lowercase);
  if (max_word_characters) writer.set_uint(tokenizer::kMaxWordCharacters, *max_word_characters);
  if (strip_accents) writer.set_bool("tokenizer.ggml.normalizer.strip_accents", *strip_accents);
}

}  // namespace billow::convert
