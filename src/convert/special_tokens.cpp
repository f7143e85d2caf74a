// Finds the tokens that begin, end and separate texts.
#include <array>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "convert/vocabulary.h"

namespace billow::convert {
namespace {

struct Role {
  std::string_view name;           // "NAME_token" in the files
  std::string_view in_word_piece;  // default if no file names the token
  std::string_view elsewhere;
  std::optional<uint32_t> SpecialTokens::* id;
};
constexpr std::array kRoles{
    Role{"bos", "[CLS]", "<s>", &SpecialTokens::bos},
    Role{"eos", "[SEP]", "</s>", &SpecialTokens::eos},
    Role{"unk", "[UNK]", "<unk>", &SpecialTokens::unknown},
    Role{"sep", "[SEP]", "</s>", &SpecialTokens::separator},
    Role{"pad", "[PAD]", "<pad>", &SpecialTokens::padding},
    Role{"cls", "[CLS]", "<s>", &SpecialTokens::cls},
    Role{"mask", "[MASK]", "<mask>", &SpecialTokens::mask},
};

using Ids = std::unordered_map<std::string_view, uint32_t>;

Ids ids_of(const Vocabulary& vocabulary) {
  Ids ids;
  for (uint32_t i = 0; i < vocabulary.pieces.size(); ++i) {
    const Piece& piece = vocabulary.pieces[i];
    if (piece.type != tokenizer::TokenType::kUnused) ids.emplace(piece.text, i);
  }
  return ids;
}

std::optional<uint32_t> id_of(const Ids& ids, std::string_view text) {
  const auto at = ids.find(text);
  return at == ids.end() ? std::nullopt : std::optional(at->second);
}

// Reads "NAME_token" of a file: a string, or an object with the text.
std::optional<std::string> named_token(const std::optional<Document>& document,
                                       const std::string& file, std::string_view role) {
  if (!document) return std::nullopt;
  const std::string name = std::string(role) + "_token";
  const DocumentFields fields(*document, file);
  const Document* value = fields.find(name);
  if (value != nullptr && value->is_object()) {
    return DocumentFields(*value, file + ": \"" + name + "\"").text("content");
  }
  return fields.text(name);
}

void read_names(const Sources& sources, const Ids& ids, bool is_word_piece,
                SpecialTokens& special) {
  constexpr const char* kFiles[] = {"tokenizer_config.json", "special_tokens_map.json"};
  const std::array documents{sources.document(kFiles[0]), sources.document(kFiles[1])};
  for (const Role& role : kRoles) {
    auto& id = special.*role.id;
    for (size_t i = 0; i < documents.size() && !id; ++i) {
      if (const auto text = named_token(documents[i], kFiles[i], role.name)) id = id_of(ids, *text);
    }
    if (!id) id = id_of(ids, is_word_piece ? role.in_word_piece : role.elsewhere);
  }
}

// Reads ["text", id].
std::optional<uint32_t> bracket(const DocumentFields& step, const Ids& ids, const char* name) {
  const Document* pair = step.find(name);
  if (pair == nullptr || !pair->is_array() || pair->empty() || !pair->front().is_string()) {
    step.refuse(name, "must be an array of a token and its number");
  }
  return id_of(ids, pair->front().get<std::string>());
}

// Returns the text of a special token in a template, or nullopt for the place of a text.
std::optional<std::string> template_token(const DocumentFields& step, const Document& element) {
  const DocumentFields fields(element, step.origin());
  const Document* token = fields.find("SpecialToken");
  if (token == nullptr) return std::nullopt;
  return DocumentFields(*token, step.origin()).text("id");
}

void read_template(const DocumentFields& step, const Ids& ids, SpecialTokens& special) {
  const Document* single = step.find("single");
  std::optional<std::string> first, last;
  const bool has_three = single != nullptr && single->is_array() && single->size() == 3;
  if (has_three && !template_token(step, (*single)[1])) {
    first = template_token(step, (*single)[0]);
    last = template_token(step, (*single)[2]);
  }
  const auto begin = first ? id_of(ids, *first) : std::nullopt;
  const auto end = last ? id_of(ids, *last) : std::nullopt;
  if (!begin || !end) {
    throw Error(ErrorCode::kUnsupported,
                step.origin() + ": only texts between one token and another are supported");
  }
  special.bos = special.cls = begin;
  special.eos = special.separator = end;
  const Document* pair = step.find("pair");
  if (pair == nullptr || !pair->is_array() || pair->size() != 6) return;
  special.adds_separator =
      template_token(step, (*pair)[2]).has_value() && template_token(step, (*pair)[3]).has_value();
}

void read_post_processor(const Document& tokenizer, const Ids& ids, SpecialTokens& special) {
  const DocumentFields fields(tokenizer, "tokenizer.json");
  const Document* processor = fields.find("post_processor");
  if (processor == nullptr) return;
  const DocumentFields step(*processor, "tokenizer.json: \"post_processor\"");
  const std::string type = step.text("type").value_or("");
  if (type == "TemplateProcessing") return read_template(step, ids, special);
  if (type != "RobertaProcessing" && type != "BertProcessing") {
    throw Error(ErrorCode::kUnsupported,
                step.origin() + ": '" + type +
                    "' is not supported (known: TemplateProcessing, RobertaProcessing, "
                    "BertProcessing)");
  }
  special.bos = special.cls = bracket(step, ids, "cls");
  special.eos = special.separator = bracket(step, ids, "sep");
  special.adds_separator = type == "RobertaProcessing";
}

}  // namespace

SpecialTokens read_special_tokens(const Sources& sources, const Document* tokenizer,
                                  const Vocabulary& vocabulary) {
  const Ids ids = ids_of(vocabulary);
  SpecialTokens special;
  const bool is_word_piece = vocabulary.model == "bert";
  read_names(sources, ids, is_word_piece, special);
  if (is_word_piece) {  // BERT has its own names for the begin and end tokens
    special.bos = special.cls;
    special.eos = special.separator;
  }
  special.adds_bos = special.adds_eos = true;
  special.adds_separator = false;
  if (tokenizer != nullptr) read_post_processor(*tokenizer, ids, special);
  if (!special.bos || !special.eos) {
    throw Error(ErrorCode::kInvalidInput,
                "the vocabulary needs a token that begins texts and a token that ends them");
  }
  return special;
}

}  // namespace billow::convert
