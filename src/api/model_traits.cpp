#include "api/model_traits.h"

#include "base/error.h"
#include "base/log.h"
#include "prompt/go_template.h"

namespace billow::api {

TemplateTraits template_traits(const store::Model& model) {
  TemplateTraits traits;
  if (!model.template_text.empty()) {
    try {
      traits.go = prompt::capabilities_of(prompt::GoTemplate(model.template_text));
    } catch (const Error& error) {
      log::warn(store::display_name(model.stored.name) + ": " + error.what());
    }
  }
  if (model.weights_facts && !model.weights_facts->chat_template.empty()) {
    traits.jinja = prompt::capabilities_of_jinja(model.weights_facts->chat_template);
  }
  return traits;
}

store::PromptTraits traits_of(const store::Model& model) {
  const auto go = template_traits(model).go.value_or(prompt::TemplateCapabilities());
  return {.template_tools = go.tools,
          .template_insert = go.insert,
          .template_thinking = go.thinking,
          .parser_tools = false,
          .parser_thinking = false};
}

}  // namespace billow::api
