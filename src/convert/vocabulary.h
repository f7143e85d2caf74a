// The vocabulary of a model that is converted: read from tokenizer.json or vocab.txt, written as
// the keys of GGUF's metadata. Plain data; any thread.
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

// The tokens with a part to play. Absent where the vocabulary has none.
struct SpecialTokens {
  std::optional<uint32_t> bos, eos, unknown, separator, padding, cls, mask, eot, eom;
  std::optional<uint32_t> fim_prefix, fim_suffix, fim_middle, fim_separator;  // to fill in a middle
  std::optional<bool> adds_bos;        // in front of each text
  std::optional<bool> adds_eos;        // behind it
  std::optional<bool> adds_separator;  // between a question and a document, beside the first's end
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
  std::string charsmap;              // "t5": SentencePiece's compiled normaliser, or empty
  bool adds_space_prefix = true;     // "t5", "llama", "gemma4"
  bool removes_extra_spaces = true;  // "t5"

  void write(gguf::Writer& writer) const;
};

// The vocabulary for an embedding table of `n_rows`; rows without a piece become unused tokens.
// Throws Error where there is none, where it does not fit the table, and (kUnsupported) where
// Billow's tokenizer would cut texts otherwise than the model's own.
Vocabulary read_vocabulary(const Sources& sources, uint32_t n_rows);

// The same for a language model, whose texts need not begin or end with a token of their own. Looks
// for, in this order: RWKV's vocabulary, tokenizer.model, tokenizer.json, tekken.json, lists of
// tokens in Base64 (qwen.tiktoken and others), vocab.json with merges.txt.
Vocabulary read_language_vocabulary(const Sources& sources, uint32_t n_rows);

// --- the parts of read_vocabulary, for files of this module ---

// Unused tokens "[PAD0]", "[PAD1]" and so on.
std::vector<Piece> empty_pieces(uint32_t n_rows);
// Puts a piece into its row. Throws Error that begins with `origin` where the table is shorter.
void put_piece(std::vector<Piece>& pieces, uint64_t id, Piece piece, std::string_view origin);
// Marks the added tokens of tokenizer.json, as control tokens where it calls them special or where
// they look so.
void put_added_tokens(std::vector<Piece>& pieces, const DocumentFields& tokenizer);
// Those of "added_tokens_decoder" of tokenizer_config.json, {"id": {"content": ...}}, as far as the
// table has rows for them.
void put_configured_tokens(const Sources& sources, std::vector<Piece>& pieces);
// U+2581 as the space that it stands for: tokens that a text is searched for are written so.
std::string with_spaces(std::string text);
// Whether a text is one that control tokens have, "<|...|>": some models do not mark all of theirs.
bool looks_special(std::string_view text) noexcept;

void read_word_pieces(const DocumentFields& tokenizer, Vocabulary& vocabulary);
void read_word_piece_lines(const Sources& sources, Vocabulary& vocabulary);
void read_unigram(const DocumentFields& tokenizer, Vocabulary& vocabulary);
// Pieces and merges alone, of "model" and the added tokens.
void read_pairs_of_bytes(const DocumentFields& tokenizer, Vocabulary& vocabulary);
// The same of vocab.json, merges.txt and, where it is there, added_tokens.json.
void read_pair_files(const Sources& sources, Vocabulary& vocabulary);
// The two parts of an entry of "merges".
std::pair<std::string, std::string> merge_parts(const DocumentFields& model, const Document& merge);
// All entries of "merges".
void read_merges(const DocumentFields& model, Vocabulary& vocabulary);
// Refuses a "normalizer" of byte-level BPE that changes texts in another way than composing them.
void check_byte_normalizer(const DocumentFields& tokenizer);
// A tokenizer.json that was made of a SentencePiece file, with "byte_fallback". `keeps_merges`: the
// new file has the merges themselves, else scores in their order.
void read_pairs_of_characters(const DocumentFields& tokenizer, bool keeps_merges,
                              Vocabulary& vocabulary);
// A file of SentencePiece with all that is added to it.
void read_sentence_pieces(const Sources& sources, const std::string& file, Vocabulary& vocabulary);
// Mistral's tekken.json, with the tokens that it says begin and end texts.
void read_tekken(const Sources& sources, Vocabulary& vocabulary);
// A file of lines "BASE64 RANK", with the added tokens of tokenizer_config.json.
void read_ranked_lines(const Sources& sources, const std::string& file, Vocabulary& vocabulary);
// The vocabulary of RWKV's world models.
inline constexpr const char* kWorldFile = "rwkv_vocab_v20230424.txt";
void read_world_pieces(const Sources& sources, Vocabulary& vocabulary);

// By tokenizer_config.json, special_tokens_map.json and the post-processor of `tokenizer` (null
// where there is only vocab.txt), before pieces are rewritten for GGUF.
SpecialTokens read_special_tokens(const Sources& sources, const Document* tokenizer,
                                  const Vocabulary& vocabulary);

// The same for a language model: by tokenizer_config.json, the post-processor of `tokenizer` (null
// where there is none), special_tokens_map.json and config.json.
void read_language_tokens(const Sources& sources, const Document* tokenizer,
                          Vocabulary& vocabulary);

// Of a vocabulary whose `pre` is known: the roles that some models' tokens have without a word of
// their files.
void add_tokens_of_class(Vocabulary& vocabulary);

}  // namespace billow::convert
