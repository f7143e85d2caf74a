// Byte-level BPE from tokenizer.json. RoBERTa's vocabulary is of this kind.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "convert/vocabulary.h"

namespace billow::convert {
namespace {

using tokenizer::TokenType;

// Escapes a part of a merge, because a space would end the part.
std::string merge_text(const std::string& left, const std::string& right) {
  std::string text;
  for (const std::string* part : {&left, &right}) {
    if (part == &right) text += ' ';
    for (const char c : *part) {
      if (c == ' ') {
        text += "\xC4\xA0";  // U+0120 represents a space in byte-level BPE
      } else {
        text += c;
      }
    }
  }
  return text;
}

}  // namespace

void read_pairs_of_bytes(const DocumentFields& tokenizer, Vocabulary& vocabulary) {
  const DocumentFields model(*tokenizer.find("model"), tokenizer.origin() + ": \"model\"");
  const Document* pieces = model.find("vocab");
  if (pieces == nullptr || !pieces->is_object()) model.refuse("vocab", "must be an object");
  for (const auto& [text, id] : pieces->items()) {
    if (!id.is_number_unsigned()) model.refuse("vocab", "must give each piece a number");
    put_piece(vocabulary.pieces, id.get<uint64_t>(), {text, 0, TokenType::kNormal},
              tokenizer.origin());
  }
  read_merges(model, vocabulary);
  put_added_tokens(vocabulary.pieces, tokenizer);
}

std::pair<std::string, std::string> merge_parts(const DocumentFields& model,
                                                const Document& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const std::string text = merge.is_string() ? merge.get<std::string>() : "";
  const size_t space = text.find(' ', 1);
  if (text.empty() || space == std::string::npos) {
    model.refuse("merges", "must contain pairs of pieces");
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_merges(const DocumentFields& model, Vocabulary& vocabulary) {
  const Document* merges = model.find("merges");
  if (merges == nullptr || !merges->is_array()) model.refuse("merges", "must be an array");
  for (const Document& merge : *merges) {
    const auto [left, right] = merge_parts(model, merge);
    vocabulary.merges.push_back(merge_text(left, right));
  }
}

void read_pair_files(const Sources& sources, Vocabulary& vocabulary) {
  constexpr const char* kPieces = "vocab.json";
  constexpr const char* kMerges = "merges.txt";
  constexpr const char* kAdded = "added_tokens.json";
  const auto pieces = sources.document(kPieces);
  const DocumentFields fields(pieces.value(), kPieces);
  for (const auto& [text, id] : pieces->items()) {
    put_piece(vocabulary.pieces, fields.count(text).value_or(UINT64_MAX),
              {text, 0, TokenType::kNormal}, kPieces);
  }
  const auto lines = sources.text(kMerges);
  if (!lines) throw Error(ErrorCode::kInvalidInput, "merges.txt is missing; vocab.json needs it");
  size_t n_lines = 0;
  for (std::string_view rest = *lines; !rest.empty(); ++n_lines) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end), "\r ");
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || (n_lines == 0 && line.starts_with('#'))) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      throw Error(ErrorCode::kInvalidInput, std::string(kMerges) + ": line " +
                                                std::to_string(n_lines + 1) +
                                                " does not have two pieces");
    }
    vocabulary.merges.emplace_back(line);
  }
  if (const auto added = sources.document(kAdded)) {
    const DocumentFields more(*added, kAdded);
    for (const auto& [text, id] : added->items()) {
      const bool is_control = looks_special(text);
      put_piece(vocabulary.pieces, more.count(text).value_or(UINT64_MAX),
                {text, 0, is_control ? TokenType::kControl : TokenType::kUserDefined}, kAdded);
    }
  }
  put_configured_tokens(sources, vocabulary.pieces);
}

}  // namespace billow::convert
