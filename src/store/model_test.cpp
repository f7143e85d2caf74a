#include "store/model.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "base/test_folder.h"
#include "store/sample_gguf.h"
#include "store/sample_model.h"

namespace billow::store {
namespace {

TEST(GgufFacts, PrintsReadableCounts) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1'000), "1K");
  EXPECT_EQ(human_count(22'700), "23K");
  EXPECT_EQ(human_count(134'515'008), "134.52M");
  EXPECT_EQ(human_count(125'000'000), "125M");
  EXPECT_EQ(human_count(1'235'814'432), "1.2B");
  EXPECT_EQ(human_count(7'000'000'000), "7B");
  EXPECT_EQ(human_count(671'026'419'200), "671.0B");
}

TEST(GgufFacts, AreReadFromMetadata) {
  gguf::Writer writer = sample_gguf("bert");
  writer.set_uint("bert.pooling_type", 1);
  writer.set_uint("bert.vision.block_count", 1);
  writer.set_string("tokenizer.chat_template", "jinja");
  const auto bytes = writer.to_bytes();
  const GgufFacts facts = facts_of(gguf::File::parse(bytes, "m"));
  EXPECT_EQ(facts.architecture, "bert");
  EXPECT_EQ(facts.kind, "model");
  EXPECT_EQ(facts.quantization, "Q4_K_M");
  EXPECT_EQ(facts.chat_template, "jinja");
  EXPECT_EQ(facts.n_parameters, 24u);
  EXPECT_EQ(facts.context_length, 2048u);
  EXPECT_TRUE(facts.has_pooling);
  EXPECT_TRUE(facts.has_vision);
  EXPECT_FALSE(facts.has_audio);
}

TEST(GgufFacts, AnEncoderWithoutAPoolingTypeIsAnEmbeddingModel) {
  for (const bool is_causal : {false, true}) {
    gguf::Writer writer = sample_gguf("bert");
    writer.set_bool("bert.attention.causal", is_causal);
    const auto bytes = writer.to_bytes();
    EXPECT_EQ(facts_of(gguf::File::parse(bytes, "m")).has_pooling, !is_causal);
  }
}

TEST(GgufFacts, IgnoresValuesOfTheWrongType) {
  gguf::Writer writer;
  writer.set_uint("general.architecture", 3);
  writer.set_string("general.file_type", "x");
  const auto bytes = writer.to_bytes();
  const GgufFacts facts = facts_of(gguf::File::parse(bytes, "m"));
  EXPECT_EQ(facts.architecture, "");
  EXPECT_EQ(facts.quantization, "unknown");
  EXPECT_EQ(file_type_name(5), "unknown");
}

TEST(GgufFacts, ReadsTheEncodersOfAProjector) {
  gguf::Writer writer = sample_gguf("clip");
  writer.set_bool("clip.has_audio_encoder", true);
  const auto audio = writer.to_bytes();
  EXPECT_TRUE(facts_of(gguf::File::parse(audio, "m")).has_audio);
  EXPECT_FALSE(facts_of(gguf::File::parse(audio, "m")).has_vision);
  writer.set_bool("clip.has_vision_encoder", true);
  const auto both = writer.to_bytes();
  EXPECT_TRUE(facts_of(gguf::File::parse(both, "m")).has_vision);
}

// A model of an old Ollama: a config with few fields, a legacy template, layers of other types.
TEST(Model, LoadsAModelOfAnOldStoreAndFillsInItsDetails) {
  const TestFolder folder;
  Store store(folder.path());
  const Digest weights = add_gguf(store, sample_gguf());
  Manifest manifest;
  manifest.layers = {{.media_type = std::string(kModelLayer),
                      .digest = weights,
                      .size_bytes = 1,
                      .from = "",
                      .name = ""},
                     store.add_layer(kPromptLayer, "legacy"),
                     store.add_layer("application/vnd.ollama.image.embed", "x"),
                     store.add_layer(kParamsLayer, R"({"stop":["x"],"unknown":{"a":1}})"),
                     store.add_layer(kMessagesLayer, R"([{"role":"user","content":"Hi"}])"),
                     store.add_layer(kLicenseLayer, "MIT")};
  manifest.config =
      store.add_layer(kConfigType, R"({"model_format":"gguf","file_type":"unknown"})");
  store.put(named("m"), manifest);
  const auto model = load_model(store, named("m"));
  ASSERT_TRUE(model);
  EXPECT_EQ(model->weights, store.blob_path(weights));
  EXPECT_EQ(model->template_text, "legacy");
  EXPECT_EQ(model->params_json, R"({"stop":["x"],"unknown":{"a":1}})");
  EXPECT_EQ(model->messages.at(0).role, "user");
  EXPECT_EQ(model->licenses.at(0), "MIT");
  for (const Details& details : {model->details, details_of(store, model->stored)}) {
    EXPECT_EQ(details.quantization_level, "Q4_K_M");
    EXPECT_EQ(details.family, "llama");
    EXPECT_EQ(details.families, std::vector<std::string>{"llama"});
    EXPECT_EQ(details.parameter_size, "24");
    EXPECT_EQ(details.context_length, 2048u);
  }
  EXPECT_FALSE(load_model(store, named("absent")));
}

TEST(Model, ErrorOfABrokenTextNamesTheFile) {
  const TestFolder folder;
  Store store(folder.path());
  Manifest manifest;
  manifest.config = store.add_layer(kConfigType, "{}");
  for (const auto& [type, text] :
       {std::pair{kParamsLayer, "[1]"}, std::pair{kParamsLayer, "{"},
        std::pair{kMessagesLayer, "{}"}, std::pair{kMessagesLayer, R"([{"role":1}])"}}) {
    manifest.layers = {store.add_layer(type, text)};
    store.put(named("m"), manifest);
    try {
      load_model(store, named("m"));
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(folder.path())) << error.what();
    }
  }
}

TEST(Model, LoadsWithoutReadableWeights) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "m", "no GGUF file");
  const auto model = load_model(store, named("m"));
  ASSERT_TRUE(model);
  EXPECT_FALSE(model->weights_facts);
  EXPECT_EQ(capabilities(*model, {}), std::vector<std::string>{"completion"});
}

TEST(Model, CapabilitiesAreInOrderAndUnique) {
  using List = std::vector<std::string>;
  Model model;
  model.weights_facts = GgufFacts{};
  EXPECT_EQ(capabilities(model, {}), List{"completion"});
  model.weights_facts->has_pooling = true;
  EXPECT_EQ(capabilities(model, {}), List{"embedding"});
  model.weights_facts->has_pooling = false;
  model.weights_facts->has_vision = true;
  model.weights_facts->has_audio = true;
  PromptTraits traits;
  traits.tools = traits.insert = traits.thinking = true;
  traits.source = PromptTraits::Source::kModel;
  EXPECT_EQ(capabilities(model, traits),
            (List{"completion", "vision", "audio", "tools", "insert", "thinking"}));
  traits.source = PromptTraits::Source::kFile;
  traits.insert = false;
  EXPECT_EQ(capabilities(model, traits),
            (List{"tools", "thinking", "completion", "vision", "audio"}));
  model.config.capabilities = {"tools", "completion"};
  EXPECT_EQ(capabilities(model, {}), (List{"tools", "completion", "vision", "audio"}));
  model = {};
  model.config.capabilities = {"image"};
  EXPECT_EQ(capabilities(model, {}), List{"image"});
  model.projector_facts = GgufFacts{.architecture = "clip",
                                    .kind = "",
                                    .quantization = "",
                                    .chat_template = "",
                                    .has_vision = true};
  EXPECT_EQ(capabilities(model, {}), (List{"image", "vision"}));
}

TEST(Model, AFamilyCanThinkWithoutATemplate) {
  using List = std::vector<std::string>;
  Model model;
  model.weights_facts = GgufFacts{};
  model.details.family = "gptoss";
  EXPECT_EQ(capabilities(model, {}), (List{"completion", "thinking"}));
}

TEST(Model, OnlyATextGenerationModelLacksATemplate) {
  Model model;
  EXPECT_FALSE(lacks_template(model, {})) << "without weights";
  model.weights_facts = GgufFacts{};
  EXPECT_TRUE(lacks_template(model, {}));
  PromptTraits traits;
  traits.source = PromptTraits::Source::kFile;
  EXPECT_FALSE(lacks_template(model, traits));
  model.weights_facts->has_pooling = true;
  EXPECT_FALSE(lacks_template(model, {}));
}

// Another server may replace the model and remove its files while it is loaded.
TEST(Model, LoadsTheNewVersionOfAModelThatIsReplacedMeanwhile) {
  const TestFolder folder;
  Store store(folder.path());
  const auto put = [&](uint32_t version) {
    Store::Hold hold(store);
    gguf::Writer writer = sample_gguf();
    writer.set_uint("version", version);
    const std::vector<std::byte> weights = writer.to_bytes();
    Config described;
    described.base_name = std::to_string(version);
    const std::string config = to_text(described);
    hold.add(digest_of(weights));
    hold.add(digest_of(config));
    Manifest manifest;
    manifest.layers = {{.media_type = std::string(kModelLayer),
                        .digest = add_file(store, weights),
                        .size_bytes = weights.size(),
                        .from = "",
                        .name = ""}};
    manifest.config = store.add_layer(kConfigType, config);
    store.put(named("m"), manifest);
  };
  put(0);
  std::atomic<bool> is_over = false;
  std::jthread writer([&] {
    for (uint32_t version = 1; version <= 4; ++version) {
      // On a busy machine, three loads in a row must not each overlap a replacement.
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
      put(version);
    }
    is_over = true;
  });
  while (!is_over) {
    std::optional<Model> model;
    EXPECT_NO_THROW(model = load_model(store, named("m")));
    ASSERT_TRUE(model);
    EXPECT_TRUE(has_all_facts(*model));
  }
}

TEST(Model, MessagesKeepThinkingAndImages) {
  const std::string picture("\x89PNG\0\n", 6);
  const std::vector<Message> messages = {{"user", "Hi", "", {picture, "b"}},
                                         {"assistant", "Hello", "Greet."}};
  const std::string text = to_text(messages);
  EXPECT_EQ(text, R"([{"role":"user","content":"Hi","images":["iVBORwAK","Yg=="]},)"
                  R"({"role":"assistant","content":"Hello","thinking":"Greet."}])");
  const std::vector<Message> again = parse_messages(text, "m");
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].images, (std::vector{picture, std::string("b")}));
  EXPECT_EQ(again[1].thinking, "Greet.");
  for (const char* wrong : {R"([{"role":"user","content":"","images":["!"]}])",
                            R"([{"role":"user","content":"","images":[1]}])",
                            R"([{"role":"user","content":"","images":5}])",
                            R"([{"role":"user","content":"","thinking":5}])"})
    EXPECT_THROW(parse_messages(wrong, "m"), Error) << wrong;
}

TEST(Model, ReportsUnreadableFilesOfAModelThatStays) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "m", "not GGUF");
  const auto model = load_model(store, named("m"));
  ASSERT_TRUE(model);
  EXPECT_FALSE(has_all_facts(*model));
  ASSERT_EQ(std::remove(store.blob_path(model->stored.manifest.config.digest).c_str()), 0);
  EXPECT_THROW(load_model(store, named("m")), Error);
}

}  // namespace
}  // namespace billow::store
