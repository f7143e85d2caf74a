#include "convert/chat_templates.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "convert/json_document.h"

namespace billow::convert {
namespace {

constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kFile = "chat_template.jinja";
constexpr std::string_view kKey = "tokenizer.chat_template";
constexpr std::string_view kDefault = "default";
constexpr size_t kMaxTemplates = 64;

using Templates = std::map<std::string, std::string>;  // by their names

Templates templates_of(const DocumentFields& fields) {
  Templates templates;
  const Document* value = fields.find("chat_template");
  if (value == nullptr) return templates;
  if (value->is_string()) return {{std::string(kDefault), value->get<std::string>()}};
  if (!value->is_array() || value->size() > kMaxTemplates)
    fields.refuse("chat_template", "must be a text, or an array of at most 64 with names");
  for (const Document& entry : *value) {
    const DocumentFields one(entry, fmt::format("{}: \"chat_template\"", kConfig));
    const auto name = one.text("name");
    const auto text = one.text("template");
    if (!name || !text) one.refuse(name ? "template" : "name", "is missing");
    templates[*name] = *text;
  }
  return templates;
}

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

void write_chat_templates(const Sources& sources, gguf::Writer& writer) {
  Templates templates;
  if (const auto document = sources.document(kConfig))
    templates = templates_of(DocumentFields(*document, kConfig));
  if (const auto text = sources.text(kFile)) templates.try_emplace(std::string(kDefault), *text);
  std::vector<std::string> names;
  for (const auto& [name, text] : templates) {
    if (name == kDefault) {
      writer.set_string(kKey, text);
      continue;
    }
    std::string key_name = name;
    for (char& c : key_name)
      if (!is_plain(c)) c = '_';
    names.push_back(key_name);
    writer.set_string(fmt::format("{}.{}", kKey, key_name), text);
  }
  if (!names.empty()) writer.set_strings("tokenizer.chat_templates", names);
}

}  // namespace billow::convert
