// Small but complete vocabularies for generated models: every key that a tokenizer needs, and any
// text can be encoded. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "gguf/writer.h"

namespace billow::reference {

// Byte-level BPE ("gpt2" kind) with the pre-tokenizer `pre`: 3 control tokens (<|endoftext|>,
// <|im_start|>,
// <|im_end|>), the 256 bytes, and merges of common English. `bos` and `eos` are ids; nothing is
// added to a prompt. Sets a ChatML template. Returns the number of tokens, 300.
uint32_t set_byte_level_vocabulary(gguf::Writer& writer, std::string_view pre, uint32_t bos,
                                   uint32_t eos);

// SentencePiece ("llama" kind) as Llama 2 has it: <unk>, <s>, </s>, the 256 byte tokens, letters
// and pieces. <s> is added to a prompt, and a space before it. No chat template. Returns the number
// of tokens, 323.
uint32_t set_llama_vocabulary(gguf::Writer& writer);

// SentencePiece as Gemma has it: <pad>, <eos>, <bos>, <unk>, <start_of_turn>, <end_of_turn>, then
// as above. <bos> is added to a prompt, no space. Sets Gemma's template. Returns the number of
// tokens, 326.
uint32_t set_gemma_vocabulary(gguf::Writer& writer);

// WordPiece ("bert" kind): [PAD], [UNK], [CLS], [SEP], [MASK], letters, digits and marks that begin
// a word, letters and digits that go on, and a few words. [CLS] and [SEP] are put around a text.
// Returns the number of tokens, 130.
uint32_t set_word_piece_vocabulary(gguf::Writer& writer);

}  // namespace billow::reference
