#include "api/catalog.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <stop_token>
#include <string>

#include "api/sample_served.h"
#include "base/error.h"
#include "http/status.h"
#include "store/sample_gguf.h"

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

TEST(Catalog, FindsModelsByAnySpelling) {
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
  EXPECT_EQ(models.n_described, 1) << "each file is read only once";
}

TEST(Catalog, RefusesMalformedNamesAndCloudModels) {
  SampleStore models;
  for (const char* name : {"", "../m", "m:", "a b", "-m", "m:ta g"})
    EXPECT_EQ(status_of(models, name), 400) << name;
  EXPECT_EQ(status_of(models, "m:cloud"), 403);
  EXPECT_EQ(status_of(models, "m:local:cloud"), 400);
}

TEST(Catalog, RefusesImageGenerationModels) {
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

// A model with a usable draft model has its own runner. With an unusable draft model, it is served
// like the model without one.
TEST(Catalog, UsableDraftModelIsPartOfTheRunner) {
  SampleStore models;
  models.add({.name = "plain", .go = kLines});
  store::Manifest manifest =
      store::load_model(models.store, *store::parse_name("plain"))->stored.manifest;
  store::Layer draft = manifest.layers.front();
  ASSERT_EQ(draft.media_type, store::kModelLayer);
  draft.media_type = store::kDraftLayer;
  manifest.layers.push_back(draft);
  models.store.put(*store::parse_name("drafting"), manifest);
  for (const bool is_usable : {true, false}) {
    Catalog catalog(models.store, [&](const std::string&, const scheduler::EngineChoice& wanted,
                                      const std::stop_token&) {
      scheduler::ModelFacts facts = models.facts;
      if (wanted.draft.empty()) return facts;
      if (!is_usable) throw Error(ErrorCode::kUnsupported, "it cannot draft");
      facts.memory.weight_bytes += 7;
      return facts;
    });
    const auto plain = catalog.find("plain");
    const auto drafting = catalog.find("drafting");
    EXPECT_TRUE(plain->engine().draft.empty());
    EXPECT_EQ(drafting->engine().draft, is_usable ? drafting->stored.draft : "");
    EXPECT_FALSE(drafting->stored.draft.empty());
    EXPECT_EQ(drafting->key != plain->key, is_usable);
    EXPECT_EQ(drafting->facts().memory.weight_bytes - plain->facts().memory.weight_bytes,
              is_usable ? 7u : 0u);
  }
}

TEST(Catalog, CachesAModelUntilItsFilesChange) {
  SampleStore models;
  models.add({.go = kLines, .system = "one"});
  const auto first = models.catalog.find("m");
  EXPECT_EQ(models.catalog.find("m"), first);
  models.add({.go = kLines, .system = "two, which is longer"});
  const auto second = models.catalog.find("m");
  EXPECT_NE(second, first);
  EXPECT_EQ(second->stored.system, "two, which is longer");
  EXPECT_EQ(first->stored.system, "one") << "running requests keep the old model";
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

TEST(Catalog, ChoosesTheTemplateWithMoreFeatures) {
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
  EXPECT_EQ(source("given"), Source::kModel) << "the user's template takes precedence";
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

TEST(Catalog, IgnoresABrokenJinjaTemplate) {
  SampleStore models;
  models.add({.jinja = "{% for m in %}"});
  EXPECT_EQ(models.catalog.find("m")->template_source, store::PromptTraits::Source::kNone);
}

TEST(Catalog, KeepsTheTemplateWhenMemoryIsShort) {
  SampleStore models;
  models.add({.jinja = "{{ messages }}"});
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &old), 0);
  rlimit low = old;
  size_t n_kib = 0;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmData:")) n_kib = std::stoul(line.substr(7));
  low.rlim_cur = (n_kib << 10) + (size_t{200} << 20);  // less than a rendering's stack
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &low), 0);
  int refusal = 0;
  try {
    models.catalog.find("m");
  } catch (const http::StatusError& error) {
    refusal = error.status();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &old), 0);
  EXPECT_EQ(refusal, 503);
  EXPECT_EQ(models.catalog.find("m")->template_source, store::PromptTraits::Source::kFile);
}

std::string error_of(Catalog& catalog, const std::string& name, int status) {
  try {
    catalog.find(name);
    ADD_FAILURE() << name << " was found";
    return "";
  } catch (const http::StatusError& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    return error.what();
  }
}

TEST(Catalog, UnsupportedFileIsAnErrorWithTheReason) {
  SampleStore models;
  models.add({});
  Catalog other(models.store,
                [](const std::string&, const scheduler::EngineChoice&,
                   std::stop_token) -> scheduler::ModelFacts {
                  throw Error(ErrorCode::kUnsupported, "architecture 'mamba' is not known");
                });
  EXPECT_EQ(error_of(other, "m", 500), "architecture 'mamba' is not known");
}

TEST(Catalog, CachesAnErrorUntilTheFilesChange) {
  SampleStore models;
  models.add({});
  int n_described = 0;
  const auto describe = [&](const std::string&, const scheduler::EngineChoice&,
                            std::stop_token) -> scheduler::ModelFacts {
    throw Error(ErrorCode::kUnsupported, "broken " + std::to_string(++n_described));
  };
  Catalog patient(models.store, describe, {.failure_time = std::chrono::hours(1)});
  for (const char* name : {"m", "m", "M:latest", "library/m"})
    EXPECT_EQ(error_of(patient, name, 500), "broken 1");
  models.add({.system = "another manifest"});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(error_of(patient, "m", 500), "broken 2");
  const std::string weights = store::load_model(models.store, *store::parse_name("m"))->weights;
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) + 1);
  EXPECT_EQ(error_of(patient, "m", 500), "broken 3") << "the file has changed";
  Catalog hasty(models.store, describe, {.failure_time = std::chrono::milliseconds(0)});
  EXPECT_EQ(error_of(hasty, "m", 500), "broken 4");
  EXPECT_EQ(error_of(hasty, "m", 500), "broken 5");
}

// Hangs like a stuck program until release() or a stop request.
class HangingDescription {
 public:
  scheduler::ModelFacts operator()(const std::string& path, const scheduler::EngineChoice&,
                                   std::stop_token stop) {
    if (path == hanging_path) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [&] { return released_; });
      if (stop.stop_requested()) throw Error(ErrorCode::kIo, "stopped");
    }
    return {.architecture = "llama", .max_context = 2048, .memory = {.kv_groups = {{10, 0}}}};
  }
  void release() {
    const std::scoped_lock lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  std::string hanging_path;

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool released_ = false;
};

// A pull may replace a model and remove its files while a request reads them.
TEST(Catalog, StartsOverIfTheModelIsReplaced) {
  SampleStore models;
  models.add({.go = kLines, .system = "old", .max_context = 1024});
  int n_described = 0;
  Catalog catalog(models.store, [&](const std::string& path, const scheduler::EngineChoice&,
                                    const std::stop_token&) {
    if (++n_described == 1) models.add({.go = kLines, .system = "the new one"});
    if (!std::filesystem::exists(path)) throw Error(ErrorCode::kNotFound, "no such file");
    return models.facts;
  });
  EXPECT_EQ(catalog.find("m")->stored.system, "the new one");
  EXPECT_EQ(n_described, 2);
}

TEST(Catalog, ReadsAModelAgainWhoseProjectorWasMissing) {
  SampleStore models;
  models.add({.go = kLines});
  gguf::Writer projector = store::sample_gguf("clip");
  projector.set_bool("clip.has_vision_encoder", true);
  const store::Digest digest = store::add_gguf(models.store, projector);
  store::Manifest manifest = models.store.find(*store::parse_name("m"))->manifest;
  manifest.layers.push_back({.media_type = std::string(store::kProjectorLayer),
                             .digest = digest,
                             .size_bytes = 1,
                             .from = "",
                             .name = ""});
  models.store.put(*store::parse_name("m"), manifest);
  const std::string path = models.store.blob_path(digest);
  Catalog catalog(models.store,
                  [&](const std::string&, const scheduler::EngineChoice&, const std::stop_token&) {
                    return models.facts;
                  },
                  {.failure_time = std::chrono::milliseconds(0)});
  std::filesystem::rename(path, path + ".away");
  EXPECT_FALSE(catalog.find("m")->can("vision"));
  std::filesystem::rename(path + ".away", path);
  const auto model = catalog.find("m");
  EXPECT_TRUE(model->can("vision"));
  EXPECT_EQ(model->projector, path);
  EXPECT_EQ(catalog.find("m"), model) << "now it is cached";
}

TEST(Catalog, StuckModelDelaysNoOther) {
  SampleStore models;
  models.add({.name = "slow"});
  models.add({.name = "quick", .max_context = 4096});
  HangingDescription describe;
  describe.hanging_path = store::load_model(models.store, *store::parse_name("slow"))->weights;
  Catalog catalog(models.store, std::ref(describe));
  auto waiting = std::async(std::launch::async, [&] { return catalog.find("slow"); });
  EXPECT_NE(catalog.find("quick"), nullptr);
  EXPECT_EQ(catalog.find("nothing"), nullptr);
  try {
    catalog.find("slow", {}, std::chrono::milliseconds(0));
    ADD_FAILURE();
  } catch (const http::StatusError& error) {
    EXPECT_EQ(error.status(), 503) << "a timeout of 0 does not wait";
  }
  describe.release();
  ASSERT_NE(waiting.get(), nullptr);
  EXPECT_NE(catalog.find("slow"), nullptr) << "a slow lookup is not an error";
}

TEST(Catalog, CancelEndsStuckLookups) {
  SampleStore models;
  models.add({.name = "slow"});
  HangingDescription describe;
  describe.hanging_path = store::load_model(models.store, *store::parse_name("slow"))->weights;
  Catalog catalog(models.store, std::ref(describe));
  auto waiting = std::async(std::launch::async, [&] { error_of(catalog, "slow", 503); });
  catalog.cancel();
  waiting.get();
  error_of(catalog, "quick", 503);
}

// Opening a pipe would block until there is a writer.
TEST(Catalog, PipeInsteadOfAFileIsANamedError) {
  for (int victim = 0; victim < 3; ++victim) {
    SampleStore models;
    models.add({});
    const auto stored = *models.store.find(*store::parse_name("m"));
    const std::string paths[] = {
        models.store.folder() + "/manifests/" + store::manifest_path(stored.name),
        models.store.blob_path(stored.manifest.config.digest),
        models.store.blob_path(stored.manifest.layers.at(0).digest)};
    const std::string& path = paths[victim];
    std::filesystem::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    if (victim == 0) {
      EXPECT_EQ(models.catalog.find("m"), nullptr) << "a pipe is not a manifest";
    } else {
      EXPECT_NE(error_of(models.catalog, "m", 500).find("sha256-"), std::string::npos);
    }
    EXPECT_EQ(models.catalog.find("other"), nullptr);
  }
}

TEST(Catalog, RendererSelectsTheFilesTemplateAndUnknownOnesAreRefused) {
  SampleStore models;
  const auto refusal = [&](const Sample& sample) -> std::string {
    models.add(sample);
    try {
      models.catalog.find(sample.name);
      return "none";
    } catch (const http::StatusError& error) {
      return std::to_string(error.status()) + " " + error.what();
    }
  };
  EXPECT_EQ(refusal({.name = "a", .go = kLines, .renderer = "nosuch"}),
            "500 unknown renderer \"nosuch\"");
  EXPECT_EQ(refusal({.name = "b", .go = kLines, .parser = "nosuch"}),
            "500 unknown parser \"nosuch\"");
  EXPECT_EQ(refusal({.name = "c", .go = kLines, .jinja = "{{ messages }}", .renderer = "qwen3.5"}),
            "none");
  EXPECT_EQ(models.catalog.find("c")->template_source, store::PromptTraits::Source::kFile);
  EXPECT_FALSE(models.catalog.find("c")->go.has_value());
  EXPECT_EQ(refusal({.name = "d", .go = kLines, .renderer = "qwen3.5"}), "none");
  EXPECT_TRUE(models.catalog.find("d")->go.has_value());
  EXPECT_TRUE(
      refusal({.name = "e", .renderer = "qwen3.5"}).starts_with("500 renderer \"qwen3.5\" needs"));
}

}  // namespace
}  // namespace billow::api
