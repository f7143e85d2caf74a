#include "api/model_traits.h"

#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "output/format.h"
#include "prompt/chat_template.h"
#include "prompt/go_template.h"

namespace billow::api {
namespace {

using prompt::TemplateCapabilities;

// Returns nothing for an empty template and for one that cannot be parsed.
std::optional<TemplateCapabilities> parsed(
    const store::Model& model, const std::string& source,
    const std::function<TemplateCapabilities(const std::string&)>& parse) {
  if (source.empty()) return std::nullopt;
  try {
    return parse(source);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;  // the template itself may be correct
    log::warn(store::display_name(model.stored.name) + ": " + error.what() +
              "; the model is used without this template");
    return std::nullopt;
  }
}

TemplateCapabilities parse_go(const std::string& source) {
  return prompt::capabilities_of(prompt::GoTemplate(source));
}

TemplateCapabilities parse_jinja(const std::string& source) {
  [[maybe_unused]] const prompt::ChatTemplate compiled(source);  // throws if it does not compile
  TemplateCapabilities can = prompt::capabilities_of_jinja(source);
  // Families that write thinking between markers of their own.
  can.thinking |= !output::recognise({.jinja = source}).thinking.close.empty();
  return can;
}

store::PromptTraits traits(store::PromptTraits::Source source, const std::string& text,
                           const TemplateCapabilities& can) {
  return {.source = source,
          .text = text,
          .tools = can.tools,
          .insert = can.insert,
          .thinking = can.thinking};
}

}  // namespace

store::PromptTraits traits_of(const store::Model& model, prompt::GoTemplateUse use) {
  using Source = store::PromptTraits::Source;
  const std::string& go_text = model.template_text;
  const std::string jinja_text = model.weights_facts ? model.weights_facts->chat_template : "";
  const auto go = parsed(model, go_text, parse_go);
  const auto jinja = parsed(model, jinja_text, parse_jinja);
  const bool is_of_user = model.config.template_from == store::kTemplateOfUser;
  if (is_of_user && use == prompt::GoTemplateUse::kAuto) use = prompt::GoTemplateUse::kAlways;
  switch (prompt::choose_template(go ? &*go : nullptr, jinja ? &*jinja : nullptr, use)) {
    case prompt::TemplateKind::kGo:
      return traits(Source::kModel, go_text, *go);
    case prompt::TemplateKind::kJinja:
      return traits(Source::kFile, jinja_text, *jinja);
    case prompt::TemplateKind::kNone:
      break;
  }
  return {};
}

}  // namespace billow::api
