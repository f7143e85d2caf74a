// SentencePiece vocabularies from tokenizer.model, and from a tokenizer.json that was made from
// one.
#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "convert/sentence_piece.h"
#include "convert/vocabulary.h"

namespace billow::convert {
namespace {

using tokenizer::TokenType;

constexpr float kAddedScore = -1000;
constexpr float kNoMergeScore = -1e6;  // below all merges

[[noreturn]] void not_known(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::kUnsupported, origin + ": " + what);
}

// Puts a piece. Drops pieces beyond the embedding table, because a table may contain only the
// tokens that a model uses.
void put_known(std::vector<Piece>& pieces, uint64_t id, Piece piece) {
  if (id < pieces.size()) pieces[id] = std::move(piece);
}

// added_tokens.json: {"text": id}
void put_added_file(const Sources& sources, std::vector<Piece>& pieces) {
  constexpr const char* kFile = "added_tokens.json";
  const auto document = sources.document(kFile);
  if (!document) return;
  const DocumentFields fields(*document, kFile);
  for (const auto& [text, value] : document->items()) {
    const auto id = fields.count(text);
    if (id) put_known(pieces, *id, {text, kAddedScore, TokenType::kUserDefined});
  }
}

void put_described(std::vector<Piece>& pieces, uint64_t id, const DocumentFields& fields) {
  auto text = fields.text("content");
  if (!text) fields.refuse("content", "is missing");
  const bool is_control = fields.flag("special").value_or(false) || looks_special(*text);
  if (!is_control) text = with_spaces(*std::move(text));
  put_known(pieces, id,
            {*text, kAddedScore, is_control ? TokenType::kControl : TokenType::kUserDefined});
}

void put_added_of_json(const Sources& sources, std::vector<Piece>& pieces) {
  constexpr const char* kFile = "tokenizer.json";
  const auto document = sources.document(kFile);
  if (!document) return;
  const DocumentFields tokenizer(*document, kFile);
  const Document* added = tokenizer.find("added_tokens");
  if (added == nullptr) return;
  if (!added->is_array()) tokenizer.refuse("added_tokens", "must be an array");
  for (const Document& token : *added) {
    const DocumentFields fields(token, tokenizer.origin() + ": \"added_tokens\"");
    const auto id = fields.count("id");
    if (!id) fields.refuse("id", "is missing");
    // Other files override tokenizer.json.
    if (*id < pieces.size() && pieces[*id].type == TokenType::kUnused)
      put_described(pieces, *id, fields);
  }
}

// Returns scores for the pieces of tokenizer.json, from the order of the merges. The first merge
// has the highest score. Pieces without a merge get no score here, so no merge can form them.
std::unordered_map<std::string, float> scores_of_merges(const DocumentFields& model) {
  const Document* merges = model.find("merges");
  if (merges == nullptr || !merges->is_array()) model.refuse("merges", "must be an array");
  std::unordered_map<std::string, float> scores;
  std::string previous;
  for (const Document& merge : *merges) {
    const auto [left, right] = merge_parts(model, merge);
    const std::string piece = left + right;
    const auto [at, is_new] = scores.try_emplace(piece, -static_cast<float>(scores.size()));
    if (!is_new && piece != previous) {
      not_known(model.origin(), fmt::format("\"merges\" make '{}' at two places, which no "
                                            "SentencePiece vocabulary does",
                                            piece));
    }
    previous = piece;
  }
  return scores;
}

bool is_byte(std::string_view text) {
  const auto is_digit = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
  };
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') && is_digit(text[3]) &&
         is_digit(text[4]);
}

// Returns whether the normalizer ("Prepend") or the pre-tokenizer (Metaspace) puts a space before a
// text. Checks each step of a sequence. Throws Error for steps that split or change texts in
// another way than SentencePiece.
bool prepends_space(const DocumentFields& step) {
  const std::string type = step.text("type").value_or("");
  if (type == "Prepend") return true;
  if (type == "Metaspace") {
    return step.flag("add_prefix_space").value_or(true) &&
           step.text("prepend_scheme").value_or("always") != "never";
  }
  if (type == "Replace" || type == "Split" || type == "NFC") return false;
  if (type == "Sequence") {
    bool prepends = false;
    for (const char* name : {"normalizers", "pretokenizers"}) {
      const Document* steps = step.find(name);
      if (steps == nullptr) continue;
      if (!steps->is_array() || steps->size() > 16) step.refuse(name, "must be at most 16 steps");
      for (const Document& one : *steps) {
        const DocumentFields fields(one, step.origin());
        if (fields.text("type").value_or("") == "Sequence") step.refuse(name, "is nested");
        if (prepends_space(fields)) prepends = true;
      }
    }
    return prepends;
  }
  not_known(step.origin(), fmt::format("the step '{}' is not supported for a vocabulary of "
                                       "SentencePiece",
                                       type));
}

bool adds_space_prefix(const DocumentFields& tokenizer) {
  bool prepends = false;
  for (const char* name : {"normalizer", "pre_tokenizer"}) {
    const Document* step = tokenizer.find(name);
    if (step == nullptr) continue;
    if (prepends_space(DocumentFields(*step, fmt::format("{}: \"{}\"", tokenizer.origin(), name))))
      prepends = true;
  }
  return prepends;
}

}  // namespace

void put_configured_tokens(const Sources& sources, std::vector<Piece>& pieces) {
  constexpr const char* kFile = "tokenizer_config.json";
  const auto document = sources.document(kFile);
  if (!document) return;
  const DocumentFields config(*document, kFile);
  const Document* decoder = config.find("added_tokens_decoder");
  if (decoder == nullptr) return;
  if (!decoder->is_object()) config.refuse("added_tokens_decoder", "must be an object");
  for (const auto& [key, value] : decoder->items()) {
    uint64_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc{} || end != key.data() + key.size()) {
      config.refuse("added_tokens_decoder", "must have token numbers as keys");
    }
    put_described(pieces, id, DocumentFields(value, std::string(kFile)));
  }
}

void read_sentence_pieces(const Sources& sources, const std::string& file, Vocabulary& vocabulary) {
  SentencePieceModel model = parse_sentence_piece(sources.text(file).value(), file);
  using Kind = SentencePieceModel::Kind;
  if (model.kind != Kind::kUnigram && model.kind != Kind::kBytePairs) {
    not_known(file, "only vocabularies of the kinds BPE and Unigram are supported");
  }
  const bool is_unigram = model.kind == Kind::kUnigram;
  vocabulary.model = is_unigram ? "t5" : "llama";
  vocabulary.pre = "default";
  vocabulary.adds_space_prefix = model.adds_space_prefix;
  if (is_unigram) {
    vocabulary.charsmap = model.charsmap;
    vocabulary.removes_extra_spaces = model.removes_extra_spaces;
  }
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    Piece& piece = model.pieces[id];
    // The tokenizer matches these pieces in the text itself, which has plain spaces.
    if (piece.type == TokenType::kUserDefined) piece.text = with_spaces(std::move(piece.text));
    put_known(vocabulary.pieces, id, std::move(piece));
  }
  put_added_file(sources, vocabulary.pieces);
  put_configured_tokens(sources, vocabulary.pieces);
  put_added_of_json(sources, vocabulary.pieces);
}

void read_pairs_of_characters(const DocumentFields& tokenizer, bool keeps_merges,
                              Vocabulary& vocabulary) {
  const DocumentFields model(*tokenizer.find("model"), tokenizer.origin() + ": \"model\"");
  const Document* pieces = model.find("vocab");
  if (pieces == nullptr || !pieces->is_object()) model.refuse("vocab", "must be an object");
  vocabulary.adds_space_prefix = adds_space_prefix(tokenizer);
  std::unordered_map<std::string, float> scores;
  if (keeps_merges) {
    read_merges(model, vocabulary);
  } else {
    scores = scores_of_merges(model);
  }
  for (const auto& [text, id] : pieces->items()) {
    if (!id.is_number_unsigned()) model.refuse("vocab", "must give each piece a number");
    const auto at = scores.find(text);
    const float score = keeps_merges         ? kAddedScore
                        : at == scores.end() ? kNoMergeScore
                                             : at->second;
    put_piece(vocabulary.pieces, id.get<uint64_t>(),
              {text, score, is_byte(text) ? TokenType::kByte : TokenType::kNormal},
              tokenizer.origin());
  }
  put_added_tokens(vocabulary.pieces, tokenizer);
}

}  // namespace billow::convert
