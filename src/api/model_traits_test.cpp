#include "api/model_traits.h"

#include <gtest/gtest.h>

#include <string>

namespace billow::api {
namespace {

using prompt::GoTemplateUse;
using Source = store::PromptTraits::Source;

constexpr const char* kPlain = "<{{ .Prompt }}>";
constexpr const char* kThinks = "{{ '<think>' }}{{ '</think>' }}";

store::Model model_of(const std::string& go, const std::string& jinja) {
  store::Model model;
  model.template_text = go;
  model.weights_facts = store::GgufFacts();
  model.weights_facts->chat_template = jinja;
  return model;
}

store::PromptTraits traits(const store::Model& model, GoTemplateUse use = GoTemplateUse::kAuto) {
  return traits_of(model, use);
}

TEST(ModelTraits, UsesTheTemplateWithMoreFeatures) {
  const store::PromptTraits jinja = traits(model_of(kPlain, kThinks));
  EXPECT_EQ(jinja.source, Source::kFile);
  EXPECT_EQ(jinja.text, kThinks);
  EXPECT_TRUE(jinja.thinking);
  EXPECT_FALSE(jinja.tools);
  const store::PromptTraits go = traits(model_of(kPlain, kThinks), GoTemplateUse::kAlways);
  EXPECT_EQ(go.source, Source::kModel);
  EXPECT_EQ(go.text, kPlain);
  EXPECT_FALSE(go.thinking);
}

TEST(ModelTraits, KnowTheMarkersOfThinkingOfAllFamilies) {
  for (const char* writes_thinking :
       {"{{ '[THINK]' }}{{ '[TOOL_CALLS]' }}", "{{ '<|channel>thought' }}{{ '<|tool_call>call:' }}",
        "{{ '<seed:think>' }}", "{{ '<|START_THINKING|>' }}{{ '<|START_ACTION|>' }}",
        "{{ '<|inner_prefix|>' }}{{ '<|tools_prefix|>' }}", "{{ '[BEGIN FINAL RESPONSE]' }}"})
    EXPECT_TRUE(traits(model_of("", writes_thinking)).thinking) << writes_thinking;
  for (const char* writes_none : {"{{ '[TOOL_CALLS]' }}", "{{ '<tool_call>' }}", "{{ m.content }}"})
    EXPECT_FALSE(traits(model_of("", writes_none)).thinking) << writes_none;
}

TEST(ModelTraits, UsersTemplateTakesPrecedence) {
  store::Model model = model_of(kPlain, kThinks);
  model.config.template_from = store::kTemplateOfUser;
  EXPECT_EQ(traits(model).source, Source::kModel);
  EXPECT_EQ(traits(model, GoTemplateUse::kNever).source, Source::kFile);
  model.template_text = "{{ if }}";
  EXPECT_EQ(traits(model).source, Source::kFile) << "a template that cannot be parsed is ignored";
}

TEST(ModelTraits, WithoutATemplateThePromptIsUnchanged) {
  for (const store::Model& model :
       {model_of("", ""), store::Model(), model_of("{{ if }}", "{% for m in %}")}) {
    EXPECT_EQ(traits(model).source, Source::kNone);
    EXPECT_EQ(traits(model).text, "{{ .Prompt }}");
  }
}

TEST(ModelTraits, IncludeFeaturesOfTheGoTemplate) {
  const store::PromptTraits found = traits(model_of(
      "{{ .Suffix }}{{ .Tools }}{{ range .Messages }}{{ if .Thinking }}<think>{{ .Thinking "
      "}}</think>{{ end }}{{ .Content }}{{ end }}",
      ""));
  EXPECT_EQ(found.source, Source::kModel);
  EXPECT_TRUE(found.insert);
  EXPECT_TRUE(found.tools);
  EXPECT_TRUE(found.thinking);
}

}  // namespace
}  // namespace billow::api
