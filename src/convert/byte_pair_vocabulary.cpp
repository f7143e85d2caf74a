// Byte-level BPE from tokenizer.json, and the vocabulary of RoBERTa, which is one.
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "convert/vocabulary.h"

namespace billow::convert {
namespace {

using tokenizer::TokenType;

// "left right", or the two in an array.
std::string merge_text(const DocumentFields& model, const Document& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
    model.refuse("merges", "must be of pairs of pieces");
  }
  return merge[0].get<std::string>() + " " + merge[1].get<std::string>();
}

void check_pre_tokenizer(const DocumentFields& tokenizer) {
  const Document* step = tokenizer.find("pre_tokenizer");
  const std::string type = step == nullptr
                               ? "none"
                               : DocumentFields(*step, tokenizer.origin() + ": \"pre_tokenizer\"")
                                     .text("type")
                                     .value_or("");
  if (type == "ByteLevel" && tokenizer.find("normalizer") == nullptr) return;
  throw Error(ErrorCode::kUnsupported,
              tokenizer.origin() + ": a BPE vocabulary that is cut by '" + type +
                  "' is not supported (known: RoBERTa's, ByteLevel without a normalizer)");
}

}  // namespace

void read_byte_pairs(const DocumentFields& tokenizer, Vocabulary& vocabulary) {
  vocabulary.model = "gpt2";
  vocabulary.pre = "roberta-bpe";
  check_pre_tokenizer(tokenizer);
  read_pairs_of_bytes(tokenizer, vocabulary);
}

void read_pairs_of_bytes(const DocumentFields& tokenizer, Vocabulary& vocabulary) {
  const DocumentFields model(*tokenizer.find("model"), tokenizer.origin() + ": \"model\"");
  const Document* pieces = model.find("vocab");
  const Document* merges = model.find("merges");
  if (pieces == nullptr || !pieces->is_object()) model.refuse("vocab", "must be an object");
  if (merges == nullptr || !merges->is_array()) model.refuse("merges", "must be an array");
  for (const auto& [text, id] : pieces->items()) {
    if (!id.is_number_unsigned()) model.refuse("vocab", "must give each piece a number");
    put_piece(vocabulary.pieces, id.get<uint64_t>(), {text, 0, TokenType::kNormal},
              tokenizer.origin());
  }
  for (const Document& merge : *merges) vocabulary.merges.push_back(merge_text(model, merge));
  put_added_tokens(vocabulary.pieces, tokenizer);
}

}  // namespace billow::convert
