// The vocabulary of a model that is converted: read from tokenizer.json or vocab.txt, written as
// the keys of GGUF's metadata. Plain data; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/json_document.h"
#include "convert/sources.h"
#include "gguf/writer.h"
#include "tokenizer/token.h"

namespace billow::convert {

// One piece of text, as its author wrote it.
struct Piece {
  std::string text;
  float score = 0;
  tokenizer::TokenType type = tokenizer::TokenType::kUnused;
};

// The tokens with a part to play. Absent where the vocabulary has none.
struct SpecialTokens {
  std::optional<uint32_t> bos, eos, unknown, separator, padding, cls, mask;
  bool adds_separator = false;  // between a question and a document, beside the end of the first
};

struct Vocabulary {
  std::string model;  // tokenizer.ggml.model
  std::string pre;    // tokenizer.ggml.pre
  std::vector<Piece> pieces;
  std::vector<std::string> merges;  // "gpt2"
  SpecialTokens special;
  std::optional<bool> lowercase;                // "bert"
  std::optional<bool> strip_accents;            // "bert"
  std::optional<uint32_t> max_word_characters;  // "bert": where it is not the usual 100
  std::string charsmap;           // "t5": SentencePiece's compiled normaliser, or empty
  bool adds_space_prefix = true;  // "t5"
  bool adds_bos = true;           // in front of each text
  bool adds_eos = true;           // behind it

  void write(gguf::Writer& writer) const;
};

// The vocabulary for an embedding table of `n_rows`; rows without a piece become unused tokens.
// Throws Error where there is none, where it does not fit the table, and (kUnsupported) where
// Billow's tokenizer would cut texts otherwise than the model's own.
Vocabulary read_vocabulary(const Sources& sources, uint32_t n_rows);

// The same for a language model: byte-level BPE of tokenizer.json. Texts need not begin or end with
// a token of their own.
Vocabulary read_language_vocabulary(const Sources& sources, uint32_t n_rows);

// --- the parts of read_vocabulary, for files of this module ---

// Unused tokens "[PAD0]", "[PAD1]" and so on.
std::vector<Piece> empty_pieces(uint32_t n_rows);
// Puts a piece into its row. Throws Error that begins with `origin` where the table is shorter.
void put_piece(std::vector<Piece>& pieces, uint64_t id, Piece piece, std::string_view origin);
// Marks the added tokens of tokenizer.json, as control tokens where it calls them special.
void put_added_tokens(std::vector<Piece>& pieces, const DocumentFields& tokenizer);

void read_word_pieces(const DocumentFields& tokenizer, Vocabulary& vocabulary);
void read_word_piece_lines(const Sources& sources, Vocabulary& vocabulary);
void read_unigram(const DocumentFields& tokenizer, Vocabulary& vocabulary);
void read_byte_pairs(const DocumentFields& tokenizer, Vocabulary& vocabulary);
// Pieces and merges alone, of "model" and the added tokens.
void read_pairs_of_bytes(const DocumentFields& tokenizer, Vocabulary& vocabulary);

// By tokenizer_config.json, special_tokens_map.json and the post-processor of `tokenizer` (null
// where there is only vocab.txt), before pieces are rewritten for GGUF.
SpecialTokens read_special_tokens(const Sources& sources, const Document* tokenizer,
                                  const Vocabulary& vocabulary);

// The same for a language model: by tokenizer_config.json, special_tokens_map.json and config.json.
// Sets adds_bos and adds_eos by the post-processor, else by tokenizer_config.json.
void read_language_tokens(const Sources& sources, const Document& tokenizer,
                          Vocabulary& vocabulary);

}  // namespace billow::convert
