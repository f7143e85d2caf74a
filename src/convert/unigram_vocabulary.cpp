// Reads SentencePiece's Unigram model, the vocabulary of XLM-RoBERTa, from tokenizer.json.
#include <cmath>
#include <string>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "convert/vocabulary.h"

namespace billow::convert {
namespace {

using tokenizer::TokenType;

[[noreturn]] void not_known(const DocumentFields& tokenizer, const std::string& what) {
  throw Error(ErrorCode::kUnsupported, tokenizer.origin() + ": " + what);
}

void read_pieces(const DocumentFields& tokenizer, Vocabulary& vocabulary) {
  const std::string& origin = tokenizer.origin();
  const DocumentFields model(*tokenizer.find("model"), origin + ": \"model\"");
  if (model.flag("byte_fallback").value_or(false)) {
    not_known(tokenizer, "\"byte_fallback\" of a Unigram vocabulary is not supported");
  }
  const Document* pieces = model.find("vocab");
  if (pieces == nullptr || !pieces->is_array()) model.refuse("vocab", "must be an array");
  uint64_t id = 0;
  for (const Document& piece : *pieces) {
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number()) {
      model.refuse("vocab", "must contain pairs of a piece and its score");
    }
    const auto score = piece[1].get<double>();
    if (!(std::abs(score) < 1e30)) model.refuse("vocab", "has a score that is too large");
    put_piece(vocabulary.pieces, id++,
              {piece[0].get<std::string>(), static_cast<float>(score), TokenType::kNormal}, origin);
  }
  put_added_tokens(vocabulary.pieces, tokenizer);
  if (const auto unknown = model.count("unk_id")) {
    if (*unknown >= vocabulary.pieces.size()) model.refuse("unk_id", "is not a piece");
    vocabulary.pieces[*unknown].type = TokenType::kUnknown;
  }
}

// Visits the members of a Sequence, or the single step.
template <typename Visit>
void for_each_step(const DocumentFields& tokenizer, const char* name, const char* members,
                   Visit visit) {
  const Document* first = tokenizer.find(name);
  if (first == nullptr) return;
  const DocumentFields fields(*first, tokenizer.origin() + ": \"" + name + "\"");
  if (fields.text("type") != "Sequence") return visit(fields);
  const Document* steps = fields.find(members);
  if (steps == nullptr || !steps->is_array()) fields.refuse(members, "must be an array");
  for (const Document& step : *steps) visit(DocumentFields(step, fields.origin()));
}

void read_normalizer(const DocumentFields& tokenizer, Vocabulary& vocabulary) {
  for_each_step(tokenizer, "normalizer", "normalizers", [&](const DocumentFields& step) {
    const std::string type = step.text("type").value_or("");
    // Billow always merges runs of spaces and strips spaces at the ends, with or without these
    // steps.
    if (type == "Replace" || type == "Strip") return;
    if (type != "Precompiled") {
      not_known(tokenizer, "the normalizer '" + type + "' is not supported (known: Precompiled)");
    }
    const auto map = base64_decoded(step.text("precompiled_charsmap").value_or(""));
    if (!map) step.refuse("precompiled_charsmap", "is not Base64");
    vocabulary.charsmap = *map;
  });
}

void read_pre_tokenizer(const DocumentFields& tokenizer, Vocabulary& vocabulary) {
  bool is_known = false;
  for_each_step(tokenizer, "pre_tokenizer", "pretokenizers", [&](const DocumentFields& step) {
    const std::string type = step.text("type").value_or("");
    if (type == "WhitespaceSplit") return;
    if (type != "Metaspace") {
      not_known(tokenizer, "the pre-tokenizer '" + type + "' is not supported (known: Metaspace)");
    }
    is_known = true;
    if (step.text("replacement").value_or("\xE2\x96\x81") != "\xE2\x96\x81") {
      not_known(tokenizer, "\"replacement\" must be U+2581");
    }
    vocabulary.adds_space_prefix = step.flag("add_prefix_space").value_or(true) &&
                                   step.text("prepend_scheme").value_or("always") != "never";
  });
  if (!is_known) not_known(tokenizer, "a Unigram vocabulary needs the pre-tokenizer Metaspace");
}

}  // namespace

void read_unigram(const DocumentFields& tokenizer, Vocabulary& vocabulary) {
  vocabulary.model = "t5";
  vocabulary.pre = "default";
  read_pieces(tokenizer, vocabulary);
  read_normalizer(tokenizer, vocabulary);
  read_pre_tokenizer(tokenizer, vocabulary);
}

}  // namespace billow::convert
