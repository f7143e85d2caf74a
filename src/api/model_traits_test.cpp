#include "api/model_traits.h"

#include <gtest/gtest.h>

namespace billow::api {
namespace {

store::Model model_of(const char* go, const char* jinja) {
  store::Model model;
  model.template_text = go;
  model.weights_facts = store::GgufFacts();
  model.weights_facts->chat_template = jinja;
  return model;
}

TEST(ModelTraits, AreReadOffBothTemplates) {
  const TemplateTraits traits =
      template_traits(model_of("{{ .Tools }}{{ .Prompt }}", "{{ '<think>' }}{{ '</think>' }}"));
  EXPECT_TRUE(traits.go->tools);
  EXPECT_FALSE(traits.go->thinking);
  EXPECT_FALSE(traits.jinja->tools);
  EXPECT_TRUE(traits.jinja->thinking);
}

TEST(ModelTraits, TemplatesThatAreNotThereHaveNone) {
  EXPECT_FALSE(template_traits(model_of("", "")).go);
  EXPECT_FALSE(template_traits(model_of("", "")).jinja);
  EXPECT_FALSE(template_traits(store::Model()).jinja);
  EXPECT_FALSE(template_traits(model_of("{{ if }}", "")).go);
}

TEST(ModelTraits, OfTheGoTemplateReachTheCapabilities) {
  const store::PromptTraits traits = traits_of(model_of(
      "{{ .Suffix }}{{ .Tools }}{{ range .Messages }}{{ if .Thinking }}<think>{{ .Thinking "
      "}}</think>{{ end }}{{ .Content }}{{ end }}",
      ""));
  EXPECT_TRUE(traits.template_insert);
  EXPECT_TRUE(traits.template_tools);
  EXPECT_TRUE(traits.template_thinking);
  EXPECT_FALSE(traits.parser_tools);
}

}  // namespace
}  // namespace billow::api
