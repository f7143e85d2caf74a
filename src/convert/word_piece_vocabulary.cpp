// Reads WordPiece, the vocabulary of BERT, from tokenizer.json, or from vocab.txt with one piece
// per line.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "convert/vocabulary.h"
#include "tokenizer/settings.h"

namespace billow::convert {
namespace {

using tokenizer::TokenType;

[[noreturn]] void not_known(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::kUnsupported, origin + ": " + what);
}

void describe(Vocabulary& vocabulary) {
  vocabulary.model = "bert";
  vocabulary.pre = "bert-bge";  // the name that converters write; readers of this kind ignore it
}

// Reads how texts are cleaned. Throws Error if the file disables a step that the tokenizer always
// does.
void read_normalizer(const DocumentFields& fields, const char* chinese, const char* lowercase,
                     Vocabulary& vocabulary) {
  for (const char* name : {chinese, "clean_text"}) {
    if (fields.flag(name).value_or(true)) continue;
    not_known(fields.origin(), "\"" + std::string(name) + "\": false is not supported");
  }
  vocabulary.lowercase = fields.flag(lowercase).value_or(true);
  vocabulary.strip_accents = fields.flag("strip_accents");
}

void read_longest_word(const DocumentFields& model, Vocabulary& vocabulary) {
  const std::optional<uint64_t> n = model.count("max_input_chars_per_word");
  if (!n || *n == tokenizer::Settings{}.max_word_characters) return;
  vocabulary.max_word_characters = static_cast<uint32_t>(std::min<uint64_t>(*n, UINT32_MAX));
}

}  // namespace

void read_word_pieces(const DocumentFields& tokenizer, Vocabulary& vocabulary) {
  describe(vocabulary);
  const std::string& origin = tokenizer.origin();
  const DocumentFields model(*tokenizer.find("model"), origin + ": \"model\"");
  if (model.text("continuing_subword_prefix").value_or("##") != "##") {
    not_known(origin, "\"continuing_subword_prefix\" must be '##'");
  }
  read_longest_word(model, vocabulary);
  const Document* pieces = model.find("vocab");
  if (pieces == nullptr || !pieces->is_object()) model.refuse("vocab", "must be an object");
  for (const auto& [text, id] : pieces->items()) {
    if (!id.is_number_unsigned()) model.refuse("vocab", "must give each piece a number");
    put_piece(vocabulary.pieces, id.get<uint64_t>(), {text, 0, TokenType::kNormal}, origin);
  }
  put_added_tokens(vocabulary.pieces, tokenizer);
  const Document* normalizer = tokenizer.find("normalizer");
  if (normalizer == nullptr)
    not_known(origin, "a vocabulary without a normalizer is not supported");
  const DocumentFields fields(*normalizer, origin + ": \"normalizer\"");
  const std::string type = fields.text("type").value_or("");
  if (type != "BertNormalizer") {
    not_known(origin, "the normalizer '" + type + "' is not supported (known: BertNormalizer)");
  }
  read_normalizer(fields, "handle_chinese_chars", "lowercase", vocabulary);
}

void read_word_piece_lines(const Sources& sources, Vocabulary& vocabulary) {
  constexpr const char* kFile = "vocab.txt";
  describe(vocabulary);
  const std::string lines = sources.text(kFile).value();
  uint64_t id = 0;
  for (size_t at = 0; at < lines.size(); ++id) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string_view line = trimmed(std::string_view(lines).substr(at, end - at), "\r");
    put_piece(vocabulary.pieces, id, {std::string(line), 0, TokenType::kNormal}, kFile);
    at = end + 1;
  }
  vocabulary.lowercase = true;
  if (const auto config = sources.document("tokenizer_config.json")) {
    read_normalizer(DocumentFields(*config, "tokenizer_config.json"), "tokenize_chinese_chars",
                    "do_lower_case", vocabulary);
  }
}

}  // namespace billow::convert
