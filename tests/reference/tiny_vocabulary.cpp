#include "reference/tiny_vocabulary.h"

#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace billow::reference {
namespace {

// Values of tokenizer.ggml.token_type.
constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kByte = 6;

// The merges, in order. '_' stands for a space. Each side is a character or an earlier result.
constexpr auto kMerges = std::to_array<std::pair<const char*, const char*>>({
    {"_", "t"},  {"_", "a"},  {"h", "e"},   {"i", "n"},   {"r", "e"},   {"o", "n"},   {"_t", "he"},
    {"e", "r"},  {"_", "s"},  {"a", "t"},   {"_", "w"},   {"_", "o"},   {"n", "d"},   {"e", "n"},
    {"_", "c"},  {"i", "t"},  {"i", "s"},   {"o", "u"},   {"_a", "nd"}, {"e", "s"},   {"o", "r"},
    {"_", "f"},  {"_", "in"}, {"in", "g"},  {"_", "p"},   {"_t", "o"},  {"_o", "f"},  {"e", "d"},
    {"_", "m"},  {"a", "n"},  {"_", "b"},   {"_", "_"},   {"l", "l"},   {"_", "is"},  {"_", "h"},
    {"_h", "e"}, {"a", "r"},  {"__", "__"}, {"_f", "or"}, {"_", "y"},   {"_y", "ou"},
});

// Returns `text` with `space` for each '_'.
std::string spaced(std::string_view text, std::string_view space) {
  std::string out;
  for (const char c : text) {
    if (c == '_') {
      out += space;
    } else {
      out += c;
    }
  }
  return out;
}

// Returns the UTF-8 bytes of a code point below U+0800.
std::string short_utf8(uint32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

// Returns the printable characters for the 256 bytes in byte-level BPE. Printable bytes stand for
// themselves, the others get code points from 256 on.
std::vector<std::string> byte_characters() {
  std::vector<std::string> characters;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    characters.push_back(short_utf8(prints ? byte : next++));
  }
  return characters;
}

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> kinds;
  std::vector<float> scores;

  void add(std::string text, int32_t kind, float score = 0) {
    tokens.push_back(std::move(text));
    kinds.push_back(kind);
    scores.push_back(score);
  }
  void set_tokens(gguf::Writer& writer) const {
    writer.set_strings("tokenizer.ggml.tokens", tokens);
    writer.set_ints("tokenizer.ggml.token_type", kinds);
  }
  uint32_t size() const { return static_cast<uint32_t>(tokens.size()); }
};

// Adds the 256 byte tokens, then merge results with the best scores first, then single characters.
void add_pieces(Vocabulary& vocabulary) {
  constexpr std::string_view kSpace = "\u2581";
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", byte);
    vocabulary.add(name.data(), kByte);
  }
  float score = 0;
  for (const auto& [left, right] : kMerges) {
    vocabulary.add(spaced(std::string(left) + right, kSpace), kNormal, score);
    score -= 1;
  }
  for (const char c : std::string_view("_etaoinsrhldcum")) {
    vocabulary.add(spaced({&c, 1}, kSpace), kNormal, score);
    score -= 1;
  }
  for (const char c : std::string_view("fpgwyb.,")) {
    vocabulary.add(std::string(1, c), kNormal, score);
    score -= 1;
  }
}

void set_special(gguf::Writer& writer, std::string_view name, uint32_t id) {
  writer.set_uint("tokenizer.ggml." + std::string(name) + "_token_id", id);
}

void set_sentencepiece(gguf::Writer& writer, const Vocabulary& vocabulary, bool space_prefix) {
  writer.set_string("tokenizer.ggml.model", "llama");
  writer.set_string("tokenizer.ggml.pre", "default");
  vocabulary.set_tokens(writer);
  writer.set_floats("tokenizer.ggml.scores", vocabulary.scores);
  writer.set_bool("tokenizer.ggml.add_bos_token", true);
  writer.set_bool("tokenizer.ggml.add_eos_token", false);
  writer.set_bool("tokenizer.ggml.add_space_prefix", space_prefix);
}

}  // namespace

uint32_t set_byte_level_vocabulary(gguf::Writer& writer, std::string_view pre, uint32_t bos,
                                   uint32_t eos) {
  const std::vector<std::string> bytes = byte_characters();
  Vocabulary vocabulary;
  for (const char* name : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    vocabulary.add(name, kControl);
  }
  for (const std::string& character : bytes) vocabulary.add(character, kNormal);
  std::vector<std::string> merges;
  for (const auto& [left, right] : kMerges) {
    const std::string a = spaced(left, bytes[' ']);
    const std::string b = spaced(right, bytes[' ']);
    merges.push_back(a + " " + b);
    vocabulary.add(a + b, kNormal);
  }
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_string("tokenizer.ggml.pre", pre);
  vocabulary.set_tokens(writer);
  writer.set_strings("tokenizer.ggml.merges", merges);
  set_special(writer, "bos", bos);
  set_special(writer, "eos", eos);
  set_special(writer, "padding", 0);
  writer.set_bool("tokenizer.ggml.add_bos_token", false);
  writer.set_string("tokenizer.chat_template",
                    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
                    "message['content'] + '<|im_end|>\\n' }}{% endfor %}"
                    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
  return vocabulary.size();
}

uint32_t set_llama_vocabulary(gguf::Writer& writer) {
  Vocabulary vocabulary;
  vocabulary.add("<unk>", kUnknown);
  vocabulary.add("<s>", kControl);
  vocabulary.add("</s>", kControl);
  add_pieces(vocabulary);
  set_sentencepiece(writer, vocabulary, true);
  set_special(writer, "unknown", 0);
  set_special(writer, "bos", 1);
  set_special(writer, "eos", 2);
  return vocabulary.size();
}

uint32_t set_word_piece_vocabulary(gguf::Writer& writer) {
  constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyz0123456789";
  constexpr std::string_view kMarks = ".,;:!?'\"()[]-/+=*&%$#@<>";
  Vocabulary vocabulary;
  for (const char* name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    vocabulary.add(name, kControl);
  const auto add_word = [&](std::string_view text) {
    vocabulary.add("\u2581" + std::string(text), kNormal);
  };
  for (const char c : kCharacters) add_word({&c, 1});
  for (const char c : kMarks) add_word({&c, 1});
  for (const char c : kCharacters) vocabulary.add(std::string(1, c), kNormal);
  for (const char* word :
       {"the",  "of",   "and",  "to",  "in",   "is",      "you",     "that", "it",    "he",
        "was",  "for",  "on",   "are", "as",   "with",    "his",     "they", "hello", "world",
        "text", "this", "test", "a1",  "life", "believe", "meaning", "what", "not"})
    add_word(word);
  writer.set_string("tokenizer.ggml.model", "bert");
  vocabulary.set_tokens(writer);
  set_special(writer, "padding", 0);
  set_special(writer, "unknown", 1);
  set_special(writer, "cls", 2);
  set_special(writer, "bos", 2);
  set_special(writer, "seperator", 3);  // GGUF's spelling
  set_special(writer, "eos", 3);
  set_special(writer, "mask", 4);
  return vocabulary.size();
}

uint32_t set_gemma_vocabulary(gguf::Writer& writer) {
  Vocabulary vocabulary;
  for (const char* name : {"<pad>", "<eos>", "<bos>"}) vocabulary.add(name, kControl);
  vocabulary.add("<unk>", kUnknown);
  for (const char* name : {"<start_of_turn>", "<end_of_turn>"}) vocabulary.add(name, kControl);
  add_pieces(vocabulary);
  set_sentencepiece(writer, vocabulary, false);
  set_special(writer, "padding", 0);
  set_special(writer, "eos", 1);
  set_special(writer, "bos", 2);
  set_special(writer, "unknown", 3);
  writer.set_string(
      "tokenizer.chat_template",
      "{{ bos_token }}{% for message in messages %}"
      "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
      "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + "
      "'<end_of_turn>\\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}");
  return vocabulary.size();
}

}  // namespace billow::reference
