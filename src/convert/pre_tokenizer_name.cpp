#include "convert/pre_tokenizer_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "convert/known_vocabularies.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "tokenizer/pretokenizer_table.h"
#include "tokenizer/tokenizer.h"

namespace billow::convert {
namespace {

constexpr size_t kMaxSteps = 16;
// Every known vocabulary has more pieces.
constexpr size_t kMinKnownPieces = 10'000;

// A way in which tokenizer.json splits texts, and the name of the rule in GGUF.
struct Cutting {
  std::string_view steps;  // in the format of steps_of()
  std::string_view name;   // tokenizer.ggml.pre
};

// Parts that several rules share. The regular expressions are those of the models' own files.
#define BILLOW_CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BILLOW_SYMBOLS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define BILLOW_BLANKS "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BILLOW_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define BILLOW_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BILLOW_LEAD "[^\\r\\n\\p{L}\\p{N}]?"

constexpr std::array kCuttings{
    Cutting{"bytes-and-words", "gpt-2"},
    Cutting{"digits bytes-and-words", "smollm"},
    Cutting{"split:" BILLOW_CONTRACTION "|" BILLOW_LEAD
            "\\p{L}+|\\p{N}{1,3}|" BILLOW_SYMBOLS BILLOW_BLANKS " bytes",
            "llama-bpe"},
    Cutting{"split:" BILLOW_CONTRACTION "|" BILLOW_LEAD
            "\\p{L}+|\\p{N}|" BILLOW_SYMBOLS BILLOW_BLANKS " bytes",
            "qwen2"},
    Cutting{"split:" BILLOW_CONTRACTION "|" BILLOW_LEAD
            "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" BILLOW_BLANKS " bytes",
            "qwen35"},
    Cutting{"split:" BILLOW_LEAD BILLOW_UPPER "*" BILLOW_LOWER "+" BILLOW_CONTRACTION
            "?|" BILLOW_LEAD BILLOW_UPPER "+" BILLOW_LOWER "*" BILLOW_CONTRACTION
            "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" BILLOW_BLANKS " bytes",
            "gpt-4o"},
    Cutting{"split:" BILLOW_LEAD BILLOW_UPPER "*" BILLOW_LOWER "+|" BILLOW_LEAD BILLOW_UPPER
            "+" BILLOW_LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" BILLOW_BLANKS " bytes",
            "tekken"},
    Cutting{"split:\\p{N}{1,3} split:[一-龥぀-ゟ゠-ヿ]+ "
            "split:[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
            "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" BILLOW_BLANKS
            " bytes",
            "deepseek-v3"},
};

#undef BILLOW_CONTRACTION
#undef BILLOW_SYMBOLS
#undef BILLOW_BLANKS
#undef BILLOW_UPPER
#undef BILLOW_LOWER
#undef BILLOW_LEAD

std::string pattern_of(const DocumentFields& step) {
  const Document* pattern = step.find("pattern");
  if (pattern == nullptr) step.refuse("pattern", "is missing");
  const DocumentFields fields(*pattern, step.origin());
  const auto regex = fields.text("Regex");
  return regex ? *regex : "'" + fields.text("String").value_or("") + "'";
}

// Returns one step of a pre-tokenizer as a word, or "?" for a step that no known model has.
std::string step_text(const DocumentFields& step) {
  const std::string type = step.text("type").value_or("");
  if (type == "ByteLevel") {
    if (step.flag("add_prefix_space").value_or(true)) return "?";
    return step.flag("use_regex").value_or(true) ? "bytes-and-words" : "bytes";
  }
  if (type == "Digits") return step.flag("individual_digits").value_or(false) ? "digits" : "?";
  if (type != "Split") return "?";
  const std::string behavior = step.text("behavior").value_or("");
  const bool is_inverted = step.flag("invert").value_or(false);
  if (behavior == "Isolated") return "split:" + pattern_of(step);
  // Drops the text between the matches. Patterns that match everything drop nothing.
  if (behavior == "Removed" && is_inverted) return "split:" + pattern_of(step);
  return "?";
}

// Returns the steps of a pre-tokenizer, separated by blanks.
std::string steps_of(const DocumentFields& tokenizer) {
  const Document* root = tokenizer.find("pre_tokenizer");
  if (root == nullptr) return "none";
  const std::string origin = fmt::format("{}: \"pre_tokenizer\"", tokenizer.origin());
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

std::string_view first_name(const tokenizer::PreTokenizerFamily& family) {
  return family.names.substr(0, family.names.find(' '));
}

// Returns the name of the published vocabulary that has the same tokens under the rule `pre`.
std::optional<std::string_view> known_name(Vocabulary vocabulary, std::string_view pre) {
  vocabulary.pre = std::string(pre);
  SpecialTokens& special = vocabulary.special;
  special.adds_bos = special.adds_bos.value_or(false);
  special.adds_eos = special.adds_eos.value_or(false);
  special.adds_separator = false;  // irrelevant for a single text
  gguf::Writer writer;
  vocabulary.write(writer);
  const std::vector<std::byte> bytes = writer.to_bytes();
  const auto reader = tokenizer::Tokenizer::load(gguf::File::parse(bytes, "vocabulary"));
  return find_known_vocabulary(reader.encode(probe_text()));
}

std::optional<std::string_view> known_name_of(const tokenizer::PreTokenizerFamily& family,
                                              const Vocabulary& vocabulary) {
  const auto name = known_name(vocabulary, first_name(family));
  if (!name || tokenizer::find_pre_tokenizer_family(*name) != &family) return std::nullopt;
  return name;
}

[[noreturn]] void not_known(const std::string& steps) {
  std::string names;
  for (const Cutting& cutting : kCuttings)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", cutting.name);
  throw Error(ErrorCode::kUnsupported,
              fmt::format("tokenizer.json: \"pre_tokenizer\" splits texts in an unknown way "
                          "({}), and the vocabulary is not a published one (known "
                          "rules: those of {}); give a GGUF file",
                          steps.size() > 100 ? steps.substr(0, 97) + "..." : steps, names));
}

}  // namespace

std::string pre_tokenizer_name(const DocumentFields* tokenizer, const Vocabulary& vocabulary) {
  const std::string steps = tokenizer == nullptr ? "no tokenizer.json" : steps_of(*tokenizer);
  const auto* cutting = std::ranges::find(kCuttings, steps, &Cutting::steps);
  if (cutting != kCuttings.end()) {
    const auto* family = tokenizer::find_pre_tokenizer_family(cutting->name);
    return std::string(known_name_of(*family, vocabulary).value_or(cutting->name));
  }
  if (vocabulary.pieces.size() < kMinKnownPieces) not_known(steps);
  for (const tokenizer::PreTokenizerFamily& family : tokenizer::pre_tokenizer_families()) {
    if ((family.flags & tokenizer::kRawText) != 0) continue;
    if (const auto name = known_name_of(family, vocabulary)) return std::string(*name);
  }
  not_known(steps);
}

std::string word_piece_name(const Vocabulary& vocabulary) {
  return std::string(known_name(vocabulary, "default").value_or("default"));
}

}  // namespace billow::convert
