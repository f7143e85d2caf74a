// Small vocabularies of each kind, as GGUF, for tests and the fuzz target. Each function returns a
// Writer, so that a test can change some keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/file.h"
#include "gguf/writer.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer.h"

namespace billow::tokenizer {

struct SampleToken {
  std::string text;
  TokenType type = TokenType::kNormal;
  float score = 0;
};

inline void set_tokens(gguf::Writer& writer, const std::vector<SampleToken>& tokens) {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;
  for (const SampleToken& token : tokens) {
    texts.push_back(token.text);
    types.push_back(static_cast<int32_t>(token.type));
    scores.push_back(token.score);
  }
  writer.set_strings("tokenizer.ggml.tokens", texts);
  writer.set_ints("tokenizer.ggml.token_type", types);
  writer.set_floats("tokenizer.ggml.scores", scores);
}

inline std::string byte_token_text(unsigned byte) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  return std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">";
}

// Tokens 0 to 255 are the bytes. Then come the results of merges, <bos> <eos> <|im_end|> (control)
// and <tool> (user-defined).
inline gguf::Writer sample_bpe(const std::string& pre = "qwen2") {
  std::vector<SampleToken> tokens;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    tokens.push_back({spell_bytes({&c, 1})});
  }
  std::vector<std::string> merges = {"l l", "h e",   "he ll", "hell o", "Ġ hello", "Ġ w", "o r",
                                     "a a", "aa aa", "1 2",   "Ċ Ċ",    "Ġ Ġ",     "d or"};
  for (const std::string& merge : merges) {
    std::string text = merge;
    text.erase(text.find(' ', 1), 1);
    if (text != "dor") tokens.push_back({text});  // the result of the last merge is not a token
  }
  tokens.push_back({"<bos>", TokenType::kControl});
  tokens.push_back({"<eos>", TokenType::kControl});
  tokens.push_back({"<|im_end|>", TokenType::kControl});
  tokens.push_back({"<tool>", TokenType::kUserDefined});
  gguf::Writer writer;
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_string("tokenizer.ggml.pre", pre);
  set_tokens(writer, tokens);
  writer.set_strings("tokenizer.ggml.merges", merges);
  writer.set_uint("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(tokens.size() - 4));
  writer.set_uint("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(tokens.size() - 3));
  return writer;
}

// Tokens: <unk> <s> </s>, the bytes as 3 to 258, then pieces.
inline gguf::Writer sample_spm() {
  std::vector<SampleToken> tokens = {
      {"<unk>", TokenType::kUnknown}, {"<s>", TokenType::kControl}, {"</s>", TokenType::kControl}};
  for (unsigned byte = 0; byte < 256; ++byte) {
    tokens.push_back({byte_token_text(byte), TokenType::kByte});
  }
  const char* pieces[] = {"▁",   "a",     "b",  "l",      "o",  "h",    "e",
                          "▁▁",  "ll",    "he", "lo",     "el", "hel",  "hell",
                          "llo", "hello", "▁h", "▁hello", "aa", "aaaa", "é"};
  float score = 0;
  for (const char* piece : pieces) tokens.push_back({piece, TokenType::kNormal, score -= 1});
  tokens.push_back({"<tool>", TokenType::kUserDefined});
  gguf::Writer writer;
  writer.set_string("tokenizer.ggml.model", "llama");
  set_tokens(writer, tokens);
  return writer;
}

// Tokens: [PAD] [UNK] [CLS] [SEP] [MASK] as 0 to 4, then words and pieces.
inline gguf::Writer sample_word_piece() {
  std::vector<SampleToken> tokens = {{"[PAD]", TokenType::kControl},
                                     {"[UNK]", TokenType::kUnknown},
                                     {"[CLS]", TokenType::kControl},
                                     {"[SEP]", TokenType::kControl},
                                     {"[MASK]", TokenType::kControl}};
  for (const char* text : {"▁un", "aff", "able", "▁hello", "▁,", "▁!", "▁a", "b", "▁天", "▁cafe",
                           "s", "▁$", "▁1", "2"}) {
    tokens.push_back({text});
  }
  gguf::Writer writer;
  writer.set_string("tokenizer.ggml.model", "bert");
  set_tokens(writer, tokens);
  writer.set_uint("tokenizer.ggml.unknown_token_id", 1);
  writer.set_uint("tokenizer.ggml.cls_token_id", 2);
  writer.set_uint("tokenizer.ggml.seperator_token_id", 3);
  writer.set_uint("tokenizer.ggml.mask_token_id", 4);
  return writer;
}

// Tokens: <pad> </s> <unk> as 0 to 2, then pieces with scores, then <tool> (user-defined).
inline gguf::Writer sample_unigram() {
  std::vector<SampleToken> tokens = {
      {"<pad>", TokenType::kControl},     {"</s>", TokenType::kControl},
      {"<unk>", TokenType::kUnknown},     {"▁", TokenType::kNormal, -2},
      {"a", TokenType::kNormal, -3},      {"b", TokenType::kNormal, -3},
      {"ab", TokenType::kNormal, -4},     {"▁a", TokenType::kNormal, -3.5F},
      {"▁ab", TokenType::kNormal, -7},    {"fi", TokenType::kNormal, -5},
      {"f", TokenType::kNormal, -4},      {"i", TokenType::kNormal, -4},
      {"<tool>", TokenType::kUserDefined}};
  gguf::Writer writer;
  writer.set_string("tokenizer.ggml.model", "t5");
  set_tokens(writer, tokens);
  writer.set_bool("tokenizer.ggml.add_space_prefix", true);
  writer.set_bool("tokenizer.ggml.remove_extra_whitespaces", true);
  return writer;
}

// Tokens: <s>, the bytes as 1 to 256, then pieces; all in the spelling of RWKV's files.
inline gguf::Writer sample_rwkv() {
  std::vector<SampleToken> tokens = {{"<s>", TokenType::kControl}};
  const char* const digits = "0123456789abcdef";
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto c = static_cast<char>(byte);
    std::string text(1, c);
    if (c == '\n')
      text = "\\n";
    else if (c == '\t')
      text = "\\t";
    else if (c == '\r')
      text = "\\r";
    else if (c == '\\')
      text = "\\\\";
    else if (c == '\'')
      text = "\\'";
    else if (byte < 32 || byte > 126)
      text = {'\\', 'x', digits[byte / 16], digits[byte % 16]};
    tokens.push_back({text});
  }
  for (const char* text :
       {"he", "hell", "hello", " hello", "\\n\\n", "\\xc3\\xa9", "lo wo", "\\\\x"})
    tokens.push_back({text});
  gguf::Writer writer;
  writer.set_string("tokenizer.ggml.model", "rwkv");
  set_tokens(writer, tokens);
  writer.set_uint("tokenizer.ggml.bos_token_id", 0);
  writer.set_uint("tokenizer.ggml.eos_token_id", 0);
  return writer;
}

// Tokens: <pad> <eos> <bos>, the bytes as 3 to 258, then characters and the results of merges.
inline gguf::Writer sample_gemma4() {
  std::vector<SampleToken> tokens = {{"<pad>", TokenType::kControl},
                                     {"<eos>", TokenType::kControl},
                                     {"<bos>", TokenType::kControl}};
  for (unsigned byte = 0; byte < 256; ++byte) {
    tokens.push_back({byte_token_text(byte), TokenType::kByte});
  }
  for (const char* text : {"▁", "a", "b", "▁a", "ab", "▁ab", "\n", "\n\n\n", "é", "aé", "▁▁"}) {
    tokens.push_back({text});
  }
  gguf::Writer writer;
  writer.set_string("tokenizer.ggml.model", "gemma4");
  set_tokens(writer, tokens);
  writer.set_strings("tokenizer.ggml.merges",
                     std::vector<std::string>{"a b", "▁ ab", "▁ a", "a é", "▁ ▁"});
  writer.set_uint("tokenizer.ggml.bos_token_id", 2);
  writer.set_uint("tokenizer.ggml.eos_token_id", 1);
  return writer;
}

// Returns the tokenizer of the file that a Writer would write.
inline Tokenizer load_sample(const gguf::Writer& writer) {
  const std::vector<std::byte> bytes = writer.to_bytes();
  return Tokenizer::load(gguf::File::parse(bytes, "sample"));
}

}  // namespace billow::tokenizer
