// The vocabulary of a language model: byte-level BPE whose way of cutting texts into words is
// known.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "convert/vocabulary.h"

namespace billow::convert {
namespace {

using tokenizer::TokenType;

constexpr const char* kFile = "tokenizer.json";
constexpr size_t kMaxSteps = 16;

// How tokenizer.json cuts texts, and the name of the rule in GGUF.
struct Cutting {
  std::string_view steps;  // as described by steps_of()
  std::string_view name;   // tokenizer.ggml.pre
};

// The regular expressions are those of the models' own files.
constexpr std::array kCuttings{
    Cutting{"bytes-and-words", "gpt-2"},
    Cutting{"digits bytes-and-words", "smollm"},
    Cutting{"split:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
            "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+ bytes",
            "llama-bpe"},
    Cutting{"split:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
            "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+ bytes",
            "qwen2"},
};

std::string pattern_of(const DocumentFields& step) {
  const Document* pattern = step.find("pattern");
  if (pattern == nullptr) step.refuse("pattern", "is missing");
  const DocumentFields fields(*pattern, step.origin());
  const auto regex = fields.text("Regex");
  if (!regex) step.refuse("pattern", "must be a \"Regex\"");
  return *regex;
}

// One step of a pre-tokenizer in one word, or "?" for a step that no known model has.
std::string step_text(const DocumentFields& step) {
  const std::string type = step.text("type").value_or("");
  if (type == "ByteLevel") {
    if (step.flag("add_prefix_space").value_or(true)) return "?";
    return step.flag("use_regex").value_or(true) ? "bytes-and-words" : "bytes";
  }
  if (type == "Digits") return step.flag("individual_digits").value_or(false) ? "digits" : "?";
  if (type != "Split" || step.text("behavior").value_or("") != "Isolated" ||
      step.flag("invert").value_or(false))
    return "?";
  return "split:" + pattern_of(step);
}

// The steps of a pre-tokenizer, with blanks between them.
std::string steps_of(const DocumentFields& tokenizer) {
  const Document* root = tokenizer.find("pre_tokenizer");
  if (root == nullptr) return "none";
  const std::string origin = fmt::format("{}: \"pre_tokenizer\"", kFile);
  const DocumentFields fields(*root, origin);
  if (fields.text("type").value_or("") != "Sequence") return step_text(fields);
  const Document* steps = fields.find("pretokenizers");
  if (steps == nullptr || !steps->is_array() || steps->size() > kMaxSteps) {
    fields.refuse("pretokenizers", "must be an array of at most 16 steps");
  }
  std::string text;
  for (const Document& step : *steps) {
    if (!text.empty()) text += ' ';
    text += step_text(DocumentFields(step, origin));
  }
  return text;
}

std::string_view cutting_name(const DocumentFields& tokenizer) {
  const std::string steps = steps_of(tokenizer);
  const auto* known = std::ranges::find(kCuttings, steps, &Cutting::steps);
  if (known != kCuttings.end()) return known->name;
  std::string names;
  for (const Cutting& cutting : kCuttings)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", cutting.name);
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: \"pre_tokenizer\" cuts texts in a way that is not known here "
                          "(known: those of {}); give a GGUF file",
                          kFile, names));
}

// Texts may be composed (NFC), which nearly all are already: other programs with GGUF files do
// without.
void check_normalizer(const DocumentFields& tokenizer) {
  const Document* normalizer = tokenizer.find("normalizer");
  if (normalizer == nullptr) return;
  const std::string origin = fmt::format("{}: \"normalizer\"", kFile);
  const std::string type = DocumentFields(*normalizer, origin).text("type").value_or("");
  if (type == "NFC") return;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: '{}' is not supported (known: NFC)", origin, type));
}

}  // namespace

Vocabulary read_language_vocabulary(const Sources& sources, uint32_t n_rows) {
  const auto document = sources.document(kFile);
  if (!document) {
    throw Error(ErrorCode::kInvalidInput, "tokenizer.json is missing; send it with the weights");
  }
  const DocumentFields tokenizer(*document, kFile);
  const Document* model = tokenizer.find("model");
  if (model == nullptr) tokenizer.refuse("model", "is missing");
  const DocumentFields fields(*model, fmt::format("{}: \"model\"", kFile));
  const std::string type = fields.text("type").value_or("");
  if (type != "BPE" || fields.flag("byte_fallback").value_or(false)) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{}: a vocabulary of the kind '{}' cannot be converted for a language "
                            "model (known: BPE of bytes); give a GGUF file",
                            kFile, type == "BPE" ? "BPE with byte_fallback" : type));
  }
  Vocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = std::string(cutting_name(tokenizer));
  vocabulary.pieces = empty_pieces(n_rows);
  check_normalizer(tokenizer);
  read_pairs_of_bytes(tokenizer, vocabulary);
  read_language_tokens(sources, *document, vocabulary);
  for (const auto& id :
       {vocabulary.special.bos, vocabulary.special.eos, vocabulary.special.padding}) {
    if (id) vocabulary.pieces[*id].type = TokenType::kControl;
  }
  return vocabulary;
}

}  // namespace billow::convert
