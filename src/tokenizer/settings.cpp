#include "tokenizer/settings.h"

#include "base/log.h"
#include "gguf/file.h"
#include "tokenizer/vocabulary.h"

namespace billow::tokenizer {
namespace {

constexpr KindDefaults kKinds[] = {
    {.name = "llama",
     .kind = Kind::kSpm,
     .bos = 1,
     .eos = 2,
     .unknown = 0,
     .separator = kNoToken,
     .padding = kNoToken,
     .mask = kNoToken,
     .add_bos = true,
     .add_eos = false,
     .add_sep = false,
     .add_space_prefix = true,
     .clean_spaces = false},
    {.name = "gpt2",
     .kind = Kind::kBpe,
     .bos = 11,
     .eos = 11,
     .unknown = kNoToken,
     .separator = kNoToken,
     .padding = kNoToken,
     .mask = kNoToken,
     .add_bos = false,
     .add_eos = false,
     .add_sep = false,
     .add_space_prefix = false,
     .clean_spaces = false},
    {.name = "gemma4",
     .kind = Kind::kBpe,
     .bos = kNoToken,
     .eos = kNoToken,
     .unknown = kNoToken,
     .separator = kNoToken,
     .padding = kNoToken,
     .mask = kNoToken,
     .add_bos = true,
     .add_eos = false,
     .add_sep = false,
     .add_space_prefix = false,
     .clean_spaces = false},
    {.name = "bert",
     .kind = Kind::kWordPiece,
     .bos = 101,
     .eos = kNoToken,
     .unknown = 100,
     .separator = 102,
     .padding = 0,
     .mask = 103,
     .add_bos = true,
     .add_eos = false,
     .add_sep = true,
     .add_space_prefix = false,
     .clean_spaces = true},
    {.name = "t5",
     .kind = Kind::kUnigram,
     .bos = kNoToken,
     .eos = 1,
     .unknown = 2,
     .separator = kNoToken,
     .padding = 0,
     .mask = kNoToken,
     .add_bos = false,
     .add_eos = true,
     .add_sep = false,
     .add_space_prefix = false,
     .clean_spaces = false},
    {.name = "rwkv",
     .kind = Kind::kLongestMatch,
     .bos = kNoToken,
     .eos = kNoToken,
     .unknown = kNoToken,
     .separator = kNoToken,
     .padding = kNoToken,
     .mask = kNoToken,
     .add_bos = false,
     .add_eos = false,
     .add_sep = false,
     .add_space_prefix = false,
     .clean_spaces = false},
};

const KindDefaults& kind_of(const gguf::File& file) {
  const auto name = file.get_string("tokenizer.ggml.model");
  if (!name)
    throw vocabulary_error(file, "tokenizer.ggml.model is missing; the file has no vocabulary");
  // Ollama's files of Gemma 4 name the kind "llama" instead.
  const bool is_gemma4 = name == "llama" && file.get_string("tokenizer.ggml.pre") == "gemma4";
  const std::string_view wanted = is_gemma4 ? "gemma4" : *name;
  for (const KindDefaults& kind : kKinds) {
    if (kind.name == wanted) return kind;
  }
  throw vocabulary_error(file,
                         "tokenizer.ggml.model '" + std::string(*name) +
                             "' is not supported (known: llama, gpt2, gemma4, bert, t5, rwkv)",
                         ErrorCode::kUnsupported);
}

// Returns the pre-tokeniser of a model whose files from Ollama name none or "default". Returns an
// empty text for all other models.
std::string_view unnamed_pre(const gguf::File& file) {
  const auto architecture = file.get_string("general.architecture");
  if (architecture == "mistral3" && file.find("mistral3.vision.block_count") != nullptr)
    return "tekken";
  if (architecture == "lfm2" && file.find_tensor("output_norm.weight") != nullptr) return "lfm2";
  return "";
}

// Returns the name of the pre-tokeniser of a BPE vocabulary.
std::string pre_name(const gguf::File& file, const KindDefaults& kind) {
  if (kind.name == "gemma4") return "gemma4";
  const auto name = file.get_string("tokenizer.ggml.pre");
  const std::string_view unnamed = unnamed_pre(file);
  if (!unnamed.empty() && name.value_or("default") == "default") return std::string(unnamed);
  if (name && !name->empty()) return std::string(*name);
  log::warn("vocabulary of '" + file.path() +
            "': tokenizer.ggml.pre is missing; words are split by the rules of 'default', which is "
            "wrong for most models; convert the model again");
  return "default";
}

void apply_family(const gguf::File& file, Settings& settings) {
  settings.pre = pre_name(file, *settings.defaults);
  settings.family = find_pre_tokenizer_family(settings.pre);
  if (settings.family == nullptr) {
    throw vocabulary_error(file, "tokenizer.ggml.pre '" + settings.pre + "' is not supported",
                           ErrorCode::kUnsupported);
  }
  settings.add_bos = settings.has_flag(kAddBos);
  settings.add_sep = settings.has_flag(kAddSep);
  settings.clean_spaces = settings.has_flag(kCleanSpaces);
}

}  // namespace

Settings load_settings(const gguf::File& file) {
  const KindDefaults& kind = kind_of(file);
  Settings settings;
  settings.defaults = &kind;
  settings.kind = kind.kind;
  settings.add_bos = kind.add_bos;
  settings.add_eos = kind.add_eos;
  settings.add_sep = kind.add_sep;
  settings.add_space_prefix = kind.add_space_prefix;
  settings.clean_spaces = kind.clean_spaces;
  if (kind.kind == Kind::kBpe) apply_family(file, settings);
  const auto read = [&file](const char* key, bool& flag) {
    flag = file.get_bool(std::string("tokenizer.ggml.") + key).value_or(flag);
  };
  read("add_bos_token", settings.add_bos);
  read("add_eos_token", settings.add_eos);
  read("add_sep_token", settings.add_sep);
  read("add_space_prefix", settings.add_space_prefix);
  read("remove_extra_whitespaces", settings.remove_extra_whitespaces);
  settings.max_word_characters =
      file.get_uint(kMaxWordCharacters).value_or(settings.max_word_characters);
  read("normalizer.lowercase", settings.lowercase);
  settings.strip_accents = settings.lowercase;
  read("normalizer.strip_accents", settings.strip_accents);
  if (settings.has_flag(kForceBos)) settings.add_bos = true;
  return settings;
}

}  // namespace billow::tokenizer
