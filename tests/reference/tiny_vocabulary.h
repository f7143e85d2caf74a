// Writes small but complete vocabularies for generated models. They have every key that a tokenizer
// needs, and can encode any text. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "gguf/writer.h"

namespace billow::reference {

// Byte-level BPE ("gpt2" kind) with the pre-tokenizer `pre`: 3 control tokens (<|endoftext|>,
// <|im_start|>,
// <|im_end|>), the 256 bytes, and merges of common English. `bos` and `eos` are ids. The tokenizer
// adds nothing to a prompt. Sets a ChatML template. Returns the number of tokens, 300.
uint32_t set_byte_level_vocabulary(gguf::Writer& writer, std::string_view pre, uint32_t bos,
                                   uint32_t eos);

// SentencePiece ("llama" kind) like Llama 2's: <unk>, <s>, </s>, the 256 byte tokens, letters and
// pieces. The tokenizer adds <s> and a space before a prompt. No chat template. Returns the number
// of tokens, 323.
uint32_t set_llama_vocabulary(gguf::Writer& writer);

// SentencePiece like Gemma's: <pad>, <eos>, <bos>, <unk>, <start_of_turn>, <end_of_turn>, then the
// byte tokens, letters and pieces as in Llama 2's. The tokenizer adds <bos> before a prompt, but no
// space. Sets Gemma's template. Returns the number of tokens, 326.
uint32_t set_gemma_vocabulary(gguf::Writer& writer);

// WordPiece ("bert" kind): [PAD], [UNK], [CLS], [SEP], [MASK], letters, digits and marks that begin
// a word, letters and digits that continue one, and a few words. The tokenizer puts [CLS] and [SEP]
// around a text. Returns the number of tokens, 130.
uint32_t set_word_piece_vocabulary(gguf::Writer& writer);

}  // namespace billow::reference
