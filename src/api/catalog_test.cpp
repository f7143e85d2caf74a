#include "api/catalog.h"

#include <gtest/gtest.h>

#include "api/sample_served.h"
#include "http/status.h"

namespace billow::api {
namespace {

int status_of(SampleStore& models, const std::string& name) {
  try {
    models.catalog.find(name);
    return 200;
  } catch (const http::StatusError& error) {
    return error.status();
  }
}

TEST(Catalog, FindsModelsAsClientsWriteThem) {
  SampleStore models;
  models.add({.name = "Foo:Bar", .go = kLines});
  for (const char* name : {"foo:bar", "FOO:BAR", " foo:bar\n", "library/foo:bar",
                           "registry.ollama.ai/library/foo:bar", "foo:bar:local"}) {
    const auto model = models.catalog.find(name);
    ASSERT_NE(model, nullptr) << name;
    EXPECT_EQ(model->name, "Foo:Bar");
    EXPECT_EQ(model->full_name, "registry.ollama.ai/library/Foo:Bar");
  }
  EXPECT_EQ(models.catalog.find("foo"), nullptr);
  EXPECT_EQ(models.n_described, 1) << "one file is looked at once";
}

TEST(Catalog, RefusesNamesThatBreakTheGrammarAndThoseOfTheCloud) {
  SampleStore models;
  for (const char* name : {"", "../m", "m:", "a b", "-m", "m:ta g"})
    EXPECT_EQ(status_of(models, name), 400) << name;
  EXPECT_EQ(status_of(models, "m:cloud"), 403);
  EXPECT_EQ(status_of(models, "m:local:cloud"), 400);
}

TEST(Catalog, RefusesModelsThatMakeImages) {
  SampleStore models;
  store::Config config;
  config.model_format = "safetensors";
  config.capabilities = {"image"};
  store::Manifest manifest;
  manifest.config = models.store.add_layer(store::kConfigType, store::to_text(config));
  models.store.put(*store::parse_name("painter"), manifest);
  try {
    models.catalog.find("painter");
    FAIL();
  } catch (const http::StatusError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_STREQ(error.what(), "image generation models are not currently supported");
  }
}

TEST(Catalog, KeepsAModelAsLongAsItsFilesAreTheSame) {
  SampleStore models;
  models.add({.go = kLines, .system = "one"});
  const auto first = models.catalog.find("m");
  EXPECT_EQ(models.catalog.find("m"), first);
  models.add({.go = kLines, .system = "two, which is longer"});
  const auto second = models.catalog.find("m");
  EXPECT_NE(second, first);
  EXPECT_EQ(second->stored.system, "two, which is longer");
  EXPECT_EQ(first->stored.system, "one") << "requests that have it keep it";
  EXPECT_EQ(second->weights, first->weights) << "the file itself is the same";
  ASSERT_TRUE(models.store.remove(*store::parse_name("m")));
  EXPECT_EQ(models.catalog.find("m"), nullptr);
}

TEST(Catalog, ModelsOfOneFileShareItsRunner) {
  SampleStore models;
  models.add({.name = "a", .go = kLines});
  models.add({.name = "b", .go = kLines, .system = "other"});
  EXPECT_EQ(models.catalog.find("a")->key, models.catalog.find("b")->key);
  models.add({.name = "c", .go = kLines, .max_context = 4096});
  EXPECT_NE(models.catalog.find("a")->key, models.catalog.find("c")->key);
}

TEST(Catalog, ChoosesTheTemplateThatCanDoMore) {
  constexpr const char* kJinja =
      "{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}{{ tools }}{% endif %}"
      "{% if m.role == 'tool' %}{% endif %}";
  SampleStore models;
  models.add({.name = "go", .go = kLines});
  models.add({.name = "jinja", .jinja = kJinja});
  models.add({.name = "both", .jinja = kJinja, .detected = kLines});
  models.add({.name = "given", .go = kLines, .jinja = kJinja});
  models.add({.name = "none"});
  using Source = store::PromptTraits::Source;
  const auto source = [&](const char* name) { return models.catalog.find(name)->template_source; };
  EXPECT_EQ(source("go"), Source::kModel);
  EXPECT_EQ(source("jinja"), Source::kFile);
  EXPECT_EQ(source("both"), Source::kFile);
  EXPECT_EQ(source("none"), Source::kNone);
  EXPECT_EQ(source("given"), Source::kModel) << "what a user gives goes first";
  EXPECT_FALSE(models.catalog.find("given")->can("tools"));
  store::CreateRequest heir;
  heir.model = "heir";
  heir.from = "given";
  store::create_model(models.store, heir, {});
  EXPECT_EQ(source("heir"), Source::kModel) << "it is inherited";
  store::CreateRequest other;
  other.model = "other";
  other.from = "both";
  other.template_text = "<{{ .Prompt }}>";
  store::create_model(models.store, other, {});
  EXPECT_EQ(source("other"), Source::kModel);
  EXPECT_TRUE(models.catalog.find("both")->can("tools"));
  EXPECT_FALSE(models.catalog.find("go")->can("tools"));
  EXPECT_TRUE(models.catalog.find("none")->can("completion"));
}

TEST(Catalog, ABrokenJinjaTemplateIsAsGoodAsNone) {
  SampleStore models;
  models.add({.jinja = "{% for m in %}"});
  EXPECT_EQ(models.catalog.find("m")->template_source, store::PromptTraits::Source::kNone);
}

TEST(Catalog, AFileThatCannotBeRunIsAnErrorThatSaysWhy) {
  SampleStore models;
  models.add({});
  Catalog other(models.store, [](const std::string&) -> scheduler::ModelFacts {
    throw Error(ErrorCode::kUnsupported, "architecture 'mamba' is not known");
  });
  try {
    other.find("m");
    FAIL();
  } catch (const http::StatusError& error) {
    EXPECT_EQ(error.status(), 500);
    EXPECT_STREQ(error.what(), "architecture 'mamba' is not known");
  }
}

}  // namespace
}  // namespace billow::api
