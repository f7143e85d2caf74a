#include "tokenizer/token_roles.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>

#include "base/log.h"
#include "gguf/file.h"

namespace billow::tokenizer {
namespace {

struct RoleKey {
  std::string_view key;
  TokenId TokenRoles::* role;
};

// In order: a later key of the same role wins. "seperator" is the real key.
constexpr RoleKey kRoleKeys[] = {
    {"tokenizer.ggml.bos_token_id", &TokenRoles::bos},
    {"tokenizer.ggml.eos_token_id", &TokenRoles::eos},
    {"tokenizer.ggml.eot_token_id", &TokenRoles::eot},
    {"tokenizer.ggml.eom_token_id", &TokenRoles::eom},
    {"tokenizer.ggml.unknown_token_id", &TokenRoles::unknown},
    {"tokenizer.ggml.seperator_token_id", &TokenRoles::separator},
    {"tokenizer.ggml.padding_token_id", &TokenRoles::padding},
    {"tokenizer.ggml.mask_token_id", &TokenRoles::mask},
    {"tokenizer.ggml.prefix_token_id", &TokenRoles::fim_prefix},
    {"tokenizer.ggml.suffix_token_id", &TokenRoles::fim_suffix},
    {"tokenizer.ggml.middle_token_id", &TokenRoles::fim_middle},
    {"tokenizer.ggml.fim_pre_token_id", &TokenRoles::fim_prefix},
    {"tokenizer.ggml.fim_suf_token_id", &TokenRoles::fim_suffix},
    {"tokenizer.ggml.fim_mid_token_id", &TokenRoles::fim_middle},
    {"tokenizer.ggml.fim_pad_token_id", &TokenRoles::fim_padding},
    {"tokenizer.ggml.fim_rep_token_id", &TokenRoles::fim_repository},
    {"tokenizer.ggml.fim_sep_token_id", &TokenRoles::fim_separator},
};

struct RoleTexts {
  TokenId TokenRoles::* role;
  std::initializer_list<std::string_view> texts;  // the first text that the vocabulary has decides
};

const RoleTexts kRoleTexts[] = {
    {&TokenRoles::eot,
     {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
      "<EOT>", "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>"}},
    {&TokenRoles::eom, {"<|eom_id|>"}},
    {&TokenRoles::fim_prefix,
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
      "<|code_prefix|>", "<|prefix|>"}},
    {&TokenRoles::fim_suffix,
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
      "<|code_suffix|>", "<|suffix|>"}},
    {&TokenRoles::fim_middle,
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
      "<|code_middle|>", "<|middle|>"}},
    {&TokenRoles::fim_padding, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {&TokenRoles::fim_repository,
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {&TokenRoles::fim_separator, {"<|file_sep|>"}},
};

constexpr std::string_view kEndTexts[] = {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|flush|>",
                                          "<|calls|>",
                                          "<end_of_turn>",
                                          "<|endoftext|>",
                                          "</s>",
                                          "<|eom_id|>",
                                          "<EOT>",
                                          "_<EOT>",
                                          "[EOT]",
                                          "[EOS]",
                                          "<|end_of_text|>",
                                          "<end_of_utterance>",
                                          "<eos>",
                                          "<turn|>",
                                          "<|tool_response>",
                                          "<｜end▁of▁sentence｜>",
                                          "[e~["};

// Texts that are always rendered, because they carry the structure of a reply. The files mark them
// as control tokens.
constexpr std::string_view kRenderedTexts[] = {"<|channel|>", "<|message|>", "<|start|>",
                                               "<|constrain|>"};

class RoleReader {
 public:
  RoleReader(const gguf::File& file, Settings& settings, Vocabulary& vocabulary)
      : file_(file), settings_(settings), vocabulary_(vocabulary) {}

  TokenRoles read() {
    read_defaults();
    read_keys();
    read_texts();
    check_flag(settings_.add_bos, roles_.bos, "add_bos_token");
    check_flag(settings_.add_eos, roles_.eos, "add_eos_token");
    check_flag(settings_.add_sep, roles_.separator, "add_sep_token");
    collect_ends();
    for (const std::string_view text : kRenderedTexts) {
      const TokenId id = vocabulary_.find(text);
      if (id != kNoToken) vocabulary_.set_type(id, TokenType::kUserDefined);
    }
    return roles_;
  }

 private:
  void warn(const std::string& what) const {
    log::warn("vocabulary of '" + file_.path() + "': " + what);
  }

  void read_defaults() {
    const KindDefaults& kind = *settings_.defaults;
    const auto usable = [this](TokenId id) { return vocabulary_.has(id) ? id : kNoToken; };
    roles_.bos = settings_.has_flag(kNoBos) ? kNoToken : usable(kind.bos);
    roles_.eos = usable(kind.eos);
    roles_.unknown = usable(kind.unknown);
    roles_.separator = usable(kind.separator);
    roles_.padding = usable(kind.padding);
    roles_.mask = usable(kind.mask);
  }

  void read_keys() {
    // BERT's key for the token at the beginning of a text; a BOS in the file wins.
    if (settings_.kind == Kind::kWordPiece) {
      read_key({"tokenizer.ggml.cls_token_id", &TokenRoles::bos});
    }
    for (const RoleKey& entry : kRoleKeys) read_key(entry);
  }

  void read_key(const RoleKey& entry) {
    const gguf::Value* value = file_.find(entry.key);
    if (value == nullptr) return;
    const auto id = gguf::as_uint(*value);
    if (id && *id < static_cast<uint64_t>(vocabulary_.n_tokens())) {
      roles_.*entry.role = static_cast<TokenId>(*id);
    } else {
      warn(std::string(entry.key) + " is not one of the " + std::to_string(vocabulary_.n_tokens()) +
           " tokens and is ignored");
    }
  }

  void read_texts() {
    for (const RoleTexts& entry : kRoleTexts) {
      if (roles_.*entry.role != kNoToken) continue;
      for (const std::string_view text : entry.texts) {
        const TokenId id = vocabulary_.find(text);
        if (id == kNoToken) continue;
        roles_.*entry.role = id;
        make_control(id);
        break;
      }
    }
  }

  void make_control(TokenId id) {
    if (vocabulary_.type(id) == TokenType::kControl) return;
    log::debug("vocabulary of '" + file_.path() + "': token " + std::to_string(id) + " '" +
               std::string(vocabulary_.text(id)) + "' is treated as a control token");
    vocabulary_.set_type(id, TokenType::kControl);
  }

  void check_flag(bool& flag, TokenId id, const char* key) const {
    if (!flag || id != kNoToken) return;
    warn(std::string("tokenizer.ggml.") + key +
         " is on, but the vocabulary has no such token; the flag "
         "is turned off");
    flag = false;
  }

  // Returns whether an end text is only a tag of HTML in this vocabulary: Gemma 1 to 3 have the
  // tags <s> and </s> (struck out) as plain tokens, and another token that ends a text.
  bool is_tag(std::string_view text, TokenId id) const {
    return text == "</s>" && vocabulary_.type(id) == TokenType::kUserDefined &&
           roles_.eos != kNoToken && roles_.eos != id;
  }

  void collect_ends() {
    std::set<TokenId> ends = {roles_.fim_padding,   roles_.fim_repository,
                              roles_.fim_separator, roles_.eos,
                              roles_.eot,           roles_.eom};
    for (const std::string_view text : kEndTexts) {
      const TokenId id = vocabulary_.find(text);
      if (id == kNoToken || is_tag(text, id)) continue;
      make_control(id);
      ends.insert(id);
    }
    const auto ends_by = [&](std::string_view text) {
      const TokenId id = vocabulary_.find(text);
      return id != kNoToken && ends.contains(id);
    };
    // If a reply has several channels, <|end|> closes a channel and not the reply.
    const bool calls = ends_by("<|call|>") || ends_by("<|calls|>");
    if (calls && (ends_by("<|return|>") || ends_by("<|flush|>")) && ends_by("<|end|>")) {
      const TokenId id = vocabulary_.find("<|end|>");
      ends.erase(id);
      vocabulary_.set_type(id, TokenType::kUserDefined);
    }
    if (ends_by("<|tool_response>") && ends_by("</s>")) {
      const TokenId id = vocabulary_.find("</s>");
      ends.erase(id);
      vocabulary_.set_type(id, TokenType::kNormal);
    }
    ends.erase(kNoToken);
    roles_.end_of_generation.assign(ends.begin(), ends.end());
  }

  const gguf::File& file_;
  Settings& settings_;
  Vocabulary& vocabulary_;
  TokenRoles roles_;
};

}  // namespace

TokenRoles load_token_roles(const gguf::File& file, Settings& settings, Vocabulary& vocabulary) {
  return RoleReader(file, settings, vocabulary).read();
}

}  // namespace billow::tokenizer
