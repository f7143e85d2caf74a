// The vocabulary of a model in conversion. Reads tokenizer.json or vocab.txt and writes GGUF
// metadata keys. Plain data, thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

// The tokens with a role. A token is absent if the vocabulary does not have it.
struct SpecialTokens {
  std::optional<uint32_t> bos, eos, unknown, separator, padding, cls, mask, eot, eom;
  std::optional<uint32_t> fim_prefix, fim_suffix, fim_middle, fim_separator;  // to fill in a middle
  std::optional<bool> adds_bos;                                               // before each text
  std::optional<bool> adds_eos;                                               // after each text
  std::optional<bool>
      adds_separator;  // between a question and a document, in addition to the first text's end
};

struct Vocabulary {
  std::string model;  // tokenizer.ggml.model
  std::string pre;    // tokenizer.ggml.pre
  std::vector<Piece> pieces;
  std::vector<std::string> merges;  // "gpt2"
  SpecialTokens special;
  std::optional<bool> lowercase;                // "bert"
  std::optional<bool> strip_accents;            // "bert"
  std::optional<uint32_t> max_word_characters;  // "bert": if it is not the usual 100
  std::string charsmap;              // "t5": SentencePiece's compiled normaliser, or empty
  bool adds_space_prefix = true;     // "t5", "llama", "gemma4"
  bool removes_extra_spaces = true;  // "t5"

  void write(gguf::Writer& writer) const;
};

// Reads the vocabulary for an embedding table of `n_rows`. Rows without a piece become unused
// tokens. Throws Error if there is no vocabulary or if it does not fit the table. Throws Error
// (kUnsupported) if Billow's tokenizer would split texts in another way than the model's own.
Vocabulary read_vocabulary(const Sources& sources, uint32_t n_rows);

// Reads the vocabulary of a language model, whose texts need no begin or end token. Uses the first
// that exists: RWKV's vocabulary, tokenizer.model, tokenizer.json, tekken.json, Base64 token lists
// (qwen.tiktoken and others), vocab.json with merges.txt.
Vocabulary read_language_vocabulary(const Sources& sources, uint32_t n_rows);

// --- the parts of read_vocabulary, for files of this module ---

// Returns unused tokens "[PAD0]", "[PAD1]" and so on.
std::vector<Piece> empty_pieces(uint32_t n_rows);
// Puts a piece into its row. Throws Error that begins with `origin` if the table is too short.
void put_piece(std::vector<Piece>& pieces, uint64_t id, Piece piece, std::string_view origin);
// Puts the added tokens of tokenizer.json. Tokens that are marked special or look special become
// control tokens.
void put_added_tokens(std::vector<Piece>& pieces, const DocumentFields& tokenizer);
// Puts the "added_tokens_decoder" of tokenizer_config.json, {"id": {"content": ...}}. Ignores ids
// beyond the table.
void put_configured_tokens(const Sources& sources, std::vector<Piece>& pieces);
// Replaces U+2581 by the space that it represents. Tokens that the tokenizer searches in texts need
// plain spaces.
std::string with_spaces(std::string text);
// Returns whether a text looks like a control token, "<|...|>". Some models do not mark all of
// theirs.
bool looks_special(std::string_view text) noexcept;

void read_word_pieces(const DocumentFields& tokenizer, Vocabulary& vocabulary);
void read_word_piece_lines(const Sources& sources, Vocabulary& vocabulary);
void read_unigram(const DocumentFields& tokenizer, Vocabulary& vocabulary);
// Reads only the pieces and the merges, from "model" and the added tokens.
void read_pairs_of_bytes(const DocumentFields& tokenizer, Vocabulary& vocabulary);
// Reads the same from vocab.json, merges.txt and the optional added_tokens.json.
void read_pair_files(const Sources& sources, Vocabulary& vocabulary);
// Returns the two parts of an entry of "merges".
std::pair<std::string, std::string> merge_parts(const DocumentFields& model, const Document& merge);
// Reads all entries of "merges".
void read_merges(const DocumentFields& model, Vocabulary& vocabulary);
// Throws Error if the "normalizer" of byte-level BPE changes texts in another way than composing
// them.
void check_byte_normalizer(const DocumentFields& tokenizer);
// Reads a tokenizer.json that was made from a SentencePiece file, with "byte_fallback". If
// `keeps_merges`, the new file gets the merges, else it gets scores in the order of the merges.
void read_pairs_of_characters(const DocumentFields& tokenizer, bool keeps_merges,
                              Vocabulary& vocabulary);
// Reads a SentencePiece file and the tokens that other files add to it.
void read_sentence_pieces(const Sources& sources, const std::string& file, Vocabulary& vocabulary);
// Reads Mistral's tekken.json and its begin and end tokens.
void read_tekken(const Sources& sources, Vocabulary& vocabulary);
// Reads a file of lines "BASE64 RANK" and the added tokens of tokenizer_config.json.
void read_ranked_lines(const Sources& sources, const std::string& file, Vocabulary& vocabulary);
// The vocabulary of RWKV's world models.
inline constexpr const char* kWorldFile = "rwkv_vocab_v20230424.txt";
void read_world_pieces(const Sources& sources, Vocabulary& vocabulary);

// Reads the roles from tokenizer_config.json, special_tokens_map.json and the post-processor of
// `tokenizer`. `tokenizer` is null if there is only vocab.txt. REQUIRES: the pieces have not been
// rewritten for GGUF.
SpecialTokens read_special_tokens(const Sources& sources, const Document* tokenizer,
                                  const Vocabulary& vocabulary);

// Reads the roles for a language model from tokenizer_config.json, the post-processor of
// `tokenizer` (null if there is none), special_tokens_map.json and config.json.
void read_language_tokens(const Sources& sources, const Document* tokenizer,
                          Vocabulary& vocabulary);

// Adds roles of tokens that the model's files do not mention, for known models. REQUIRES: `pre` is
// set.
void add_tokens_of_class(Vocabulary& vocabulary);

}  // namespace billow::convert
