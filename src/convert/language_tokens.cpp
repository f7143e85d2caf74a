// Finds the tokens that begin, end and separate the texts of a language model. The rules are those
// of llama.cpp's converter (gguf-py/gguf/vocab.py, SpecialVocab). The post-processor of
// tokenizer.json defines the tokens around a text and overrides the flags of tokenizer_config.json.
// The id of a token comes from its text in tokenizer_config.json, or else from config.json.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "convert/vocabulary.h"

namespace billow::convert {
namespace {

constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kTokenizer = "tokenizer.json";
constexpr size_t kMaxSteps = 16;

struct Role {
  std::string_view name;  // "NAME_token", "NAME_token_id"
  std::optional<uint32_t> SpecialTokens::* id;
};
constexpr std::array kRoles{
    Role{"bos", &SpecialTokens::bos},     Role{"eos", &SpecialTokens::eos},
    Role{"unk", &SpecialTokens::unknown}, Role{"sep", &SpecialTokens::separator},
    Role{"pad", &SpecialTokens::padding}, Role{"cls", &SpecialTokens::cls},
    Role{"mask", &SpecialTokens::mask},   Role{"eot", &SpecialTokens::eot},
    Role{"eom", &SpecialTokens::eom}};

// Reads "NAME_token": a string, or an object with the text. Returns "" if it is absent.
std::string token_text(const DocumentFields& fields, std::string_view role) {
  const std::string name = fmt::format("{}_token", role);
  const Document* value = fields.find(name);
  if (value == nullptr || value->is_boolean()) return "";
  if (value->is_object())
    return DocumentFields(*value, fmt::format("{}: \"{}\"", fields.origin(), name))
        .text("content")
        .value_or("");
  return fields.text(name).value_or("");
}

// Returns the text of a special token in a template, or "". Sets `sequence` to the id of a text's
// place.
std::string template_token(const DocumentFields& step, const Document& element,
                           std::string* sequence = nullptr) {
  const DocumentFields fields(element, step.origin());
  for (const char* kind : {"SpecialToken", "Sequence"}) {
    const Document* value = fields.find(kind);
    if (value == nullptr) continue;
    const std::string id = DocumentFields(*value, step.origin()).text("id").value_or("");
    if (std::string_view(kind) == "SpecialToken") return id;
    if (sequence != nullptr) *sequence = id;
  }
  return "";
}

const Document* template_of(const DocumentFields& step, const char* name) {
  const Document* elements = step.find(name);
  if (elements == nullptr) return nullptr;
  if (!elements->is_array() || elements->size() > kMaxSteps)
    step.refuse(name, "must be an array of at most 16 parts");
  return elements;
}

class TokenReader {
 public:
  TokenReader(const Sources& sources, const Document* tokenizer, Vocabulary& vocabulary)
      : sources_(sources), tokenizer_(tokenizer), vocabulary_(vocabulary) {
    for (uint32_t id = 0; id < vocabulary.pieces.size(); ++id) {
      const Piece& piece = vocabulary.pieces[id];
      if (piece.type != tokenizer::TokenType::kUnused) ids_.emplace(piece.text, id);
    }
  }

  void read() {
    read_texts();
    if (texts_["bos"].empty()) texts_["bos"] = texts_["cls"];
    if (texts_["eos"].empty()) texts_["eos"] = texts_["sep"];
    if (tokenizer_ != nullptr) read_post_processor();
    read_flags();
    for (const Role& role : kRoles) set_by_text(role);
    read_ids();
  }

 private:
  SpecialTokens& special() { return vocabulary_.special; }

  void read_texts() {
    for (const char* file : {kConfig, "special_tokens_map.json"}) {
      const auto document = sources_.document(file);
      if (!document) continue;
      const DocumentFields fields(*document, file);
      for (const Role& role : kRoles) {
        std::string& text = texts_[std::string(role.name)];
        if (text.empty()) text = token_text(fields, role.name);
      }
    }
  }

  void read_post_processor() {
    const DocumentFields fields(*tokenizer_, kTokenizer);
    const Document* processor = fields.find("post_processor");
    if (processor == nullptr) return;
    const DocumentFields step(*processor, fmt::format("{}: \"post_processor\"", kTokenizer));
    const Document* all = step.find("processors");
    if (all == nullptr) return read_step(step);
    if (!all->is_array() || all->size() > kMaxSteps)
      step.refuse("processors", "must be an array of at most 16 steps");
    for (const Document& one : *all) read_step(DocumentFields(one, step.origin()));
  }

  void read_step(const DocumentFields& step) {
    const std::string type = step.text("type").value_or("");
    if (type == "ByteLevel") {
      if (!special().adds_bos) special().adds_bos = false;
      if (!special().adds_eos) special().adds_eos = false;
    } else if (type == "RobertaProcessing") {
      special().adds_bos = special().adds_eos = special().adds_separator = true;
      read_brackets(step);
    } else if (type == "TemplateProcessing") {
      read_template(step);
    } else {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{}: '{}' is not supported (known: ByteLevel, TemplateProcessing, "
                              "RobertaProcessing)",
                              step.origin(), type));
    }
  }

  // Reads ["text", id] of the tokens that begin and end a text, if the other files do not name
  // them.
  void read_brackets(const DocumentFields& step) {
    for (const auto& [name, role] : {std::pair("cls", "bos"), std::pair("sep", "eos")}) {
      const Document* pair = step.find(name);
      if (pair == nullptr || !pair->is_array() || pair->empty() || !pair->front().is_string())
        step.refuse(name, "must be an array of a token and its number");
      for (const char* each : {name, role})
        if (texts_[each].empty()) texts_[each] = pair->front().get<std::string>();
    }
  }

  void read_template(const DocumentFields& step) {
    const Document* single = template_of(step, "single");
    std::string first, last;
    if (single != nullptr && single->size() > 1) {
      first = template_token(step, single->front());
      last = template_token(step, single->back());
    }
    if (!first.empty()) read_first(first);
    if (!last.empty()) read_last(last);
    if (const Document* pair = template_of(step, "pair")) read_pair(step, *pair, first, last);
  }

  void read_first(const std::string& first) {
    if (texts_["bos"].empty()) texts_["bos"] = first;
    if (texts_["cls"].empty() && first != texts_["bos"]) texts_["cls"] = first;
    special().adds_bos = first == texts_["bos"] || first == texts_["cls"];
  }

  // If the last token differs from the configured "eos", the configured token ends a turn.
  void read_last(const std::string& last) {
    std::string& eos = texts_["eos"];
    if (last != eos && !eos.empty()) texts_[texts_["eot"].empty() ? "eot" : "eom"] = eos;
    eos = last;
    special().adds_eos = true;
  }

  void read_pair(const DocumentFields& step, const Document& pair, const std::string& first,
                 const std::string& last) {
    size_t begin = 0;
    size_t end = pair.size();
    if (begin < end && !first.empty() && template_token(step, pair[begin]) == first) ++begin;
    if (begin < end && !last.empty() && template_token(step, pair[end - 1]) == last) --end;
    if (end - begin < 3) return;
    std::string a, b;
    template_token(step, pair[begin], &a);
    template_token(step, pair[end - 1], &b);
    if (a != "A" || b != "B") return;
    const auto parts = [&](const std::string& token) {
      return !token.empty() && (token == texts_["sep"] || token == texts_["eos"]);
    };
    bool adds = parts(template_token(step, pair[begin + 1])) && last.empty();
    if (end - begin == 4 && parts(template_token(step, pair[begin + 2]))) adds = true;
    special().adds_separator = adds;
    if (adds && texts_["sep"].empty()) texts_["sep"] = texts_["eos"];
  }

  void read_flags() {
    const auto document = sources_.document(kConfig);
    if (!document) return;
    const DocumentFields fields(*document, kConfig);
    const std::pair<const char*, std::optional<bool>*> flags[] = {
        {"add_bos_token", &special().adds_bos},
        {"add_eos_token", &special().adds_eos},
        {"add_sep_token", &special().adds_separator}};
    for (const auto& [name, flag] : flags) {
      const Document* value = fields.find(name);
      if (!*flag && value != nullptr && value->is_boolean()) *flag = value->get<bool>();
    }
  }

  void set_by_text(const Role& role) {
    auto& id = special().*role.id;
    const auto at = ids_.find(texts_[std::string(role.name)]);
    if (!id && at != ids_.end()) id = at->second;
  }

  // Reads "NAME_token_id" of config.json if it is one number, from the root or the text part.
  void read_ids() {
    const auto document = sources_.document("config.json");
    if (!document || !document->is_object()) return;
    const auto text_part = document->find("text_config");
    for (const Role& role : kRoles) {
      auto& id = special().*role.id;
      if (id) continue;
      const std::string name = fmt::format("{}_token_id", role.name);
      const auto found = [&](const Document& object) -> const Document* {
        const auto at = object.find(name);
        return at == object.end() || at->is_null() ? nullptr : &*at;
      };
      const Document* value = found(*document);
      if (value == nullptr && text_part != document->end() && text_part->is_object())
        value = found(*text_part);
      if (value == nullptr || !value->is_number_unsigned()) continue;
      const auto number = value->get<uint64_t>();
      if (number < vocabulary_.pieces.size()) id = static_cast<uint32_t>(number);
    }
  }

  const Sources& sources_;
  const Document* tokenizer_;
  Vocabulary& vocabulary_;
  std::map<std::string_view, uint32_t> ids_;  // the first token with each text
  std::map<std::string, std::string> texts_;  // by role
};

// Tokens that some classes have in addition to those that their files name.
struct ClassToken {
  std::string_view pre;  // tokenizer.ggml.pre
  std::optional<uint32_t> SpecialTokens::* role;
  std::string_view text;
};
constexpr std::array kClassTokens{
    ClassToken{"glm4", &SpecialTokens::bos, "[gMASK]"},
    ClassToken{"glm4", &SpecialTokens::eot, "<|user|>"},
    ClassToken{"glm4", &SpecialTokens::unknown, "<|endoftext|>"},
    ClassToken{"glm4", &SpecialTokens::eom, "<|observation|>"},
    ClassToken{"chatglm-bpe", &SpecialTokens::bos, "[gMASK]"},
    ClassToken{"chatglm-bpe", &SpecialTokens::eot, "<|user|>"},
    ClassToken{"chatglm-bpe", &SpecialTokens::unknown, "<|endoftext|>"},
    ClassToken{"chatglm-bpe", &SpecialTokens::eom, "<|observation|>"}};

}  // namespace

void read_language_tokens(const Sources& sources, const Document* tokenizer,
                          Vocabulary& vocabulary) {
  TokenReader(sources, tokenizer, vocabulary).read();
}

void add_tokens_of_class(Vocabulary& vocabulary) {
  for (const ClassToken& token : kClassTokens) {
    auto& id = vocabulary.special.*token.role;
    if (token.pre != vocabulary.pre || id) continue;
    for (uint32_t i = 0; i < vocabulary.pieces.size() && !id; ++i)
      if (vocabulary.pieces[i].text == token.text) id = i;
  }
}

}  // namespace billow::convert
