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
constexpr const char* kJsonFile = "chat_template.json";
constexpr std::string_view kMoreBegin = "additional_chat_templates/";  // contains files NAME.jinja
constexpr std::string_view kMoreEnd = ".jinja";
constexpr std::string_view kKey = "tokenizer.chat_template";
constexpr std::string_view kDefault = "default";
constexpr size_t kMaxTemplates = 64;

using Templates = std::map<std::string, std::string>;  // by name

Templates templates_of(const DocumentFields& fields) {
  Templates templates;
  const Document* value = fields.find("chat_template");
  if (value == nullptr) return templates;
  if (value->is_string()) return {{std::string(kDefault), value->get<std::string>()}};
  if (!value->is_array() || value->size() > kMaxTemplates)
    fields.refuse("chat_template", "must be a string, or an array of at most 64 named templates");
  for (const Document& entry : *value) {
    const DocumentFields one(entry, fmt::format("{}: \"chat_template\"", fields.origin()));
    const auto name = one.text("name");
    const auto text = one.text("template");
    if (!name || !text) one.refuse(name ? "template" : "name", "is missing");
    templates[*name] = *text;
  }
  return templates;
}

// Reads chat_template.jinja and the folder of additional templates.
Templates templates_of_files(const Sources& sources) {
  Templates templates;
  const auto text = sources.text(kFile);
  if (!text || text->empty()) return templates;
  templates[std::string(kDefault)] = *text;
  for (const SourceFile& file : sources.files()) {
    const std::string_view name = file.name;
    if (!name.starts_with(kMoreBegin) || !name.ends_with(kMoreEnd)) continue;
    const std::string_view stem =
        name.substr(kMoreBegin.size(), name.size() - kMoreBegin.size() - kMoreEnd.size());
    if (stem.find('/') != std::string_view::npos || templates.size() > kMaxTemplates) continue;
    templates.try_emplace(std::string(stem), sources.text(name).value());
  }
  return templates;
}

// Returns the templates of the first file that has any, in the order of transformers: the file of
// templates replaces those of tokenizer_config.json, which can be old.
Templates find_templates(const Sources& sources) {
  Templates templates = templates_of_files(sources);
  for (const char* name : {kConfig, kJsonFile}) {
    if (!templates.empty()) break;
    if (const auto document = sources.document(name))
      templates = templates_of(DocumentFields(*document, name));
  }
  return templates;
}

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

void write_chat_templates(const Sources& sources, gguf::Writer& writer) {
  std::vector<std::string> names;
  for (const auto& [name, text] : find_templates(sources)) {
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
