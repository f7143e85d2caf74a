// Compares logits of prompts with pictures with those of Hugging Face transformers, on the tiny
// models of ../shared/data/vision. The embeddings of the pictures are those of transformers, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/test_folder.h"
#include "base/test_source_dir.h"
#include "engine/divergence.h"
#include "engine/tiny_engine.h"
#include "families/family_files.h"
#include "image/picture.h"
#include "vision/pixels.h"

namespace billow::families {
namespace {

using engine::Engine;
using engine::EngineOptions;
using engine::Picture;

// Max mean KL divergence of our logits from those of transformers, with F32 weights and KV.
constexpr double kMaxDivergence = 1e-9;

constexpr double kMaxDivergenceFromFile = 1e-6;

struct Case {
  const char* name;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

constexpr Case kCases[] = {{"gemma3"},     {"gemma4"},   {"gemma4-e"}, {"internvl"},
                           {"lfm2_vl"},    {"llama4"},   {"mistral3"}, {"qwen2_vl"},
                           {"qwen2_5_vl"}, {"qwen3_vl"}, {"qwen3_5"},  {"smolvlm"}};

std::string folder() { return source_dir() + "/../shared/data/vision/"; }

// A prompt with a picture, as transformers evaluated it.
struct Prompt {
  std::vector<int32_t> tokens;
  std::vector<std::shared_ptr<Picture>> pictures;
  Matrix logits;
};

// Adds a tile that is not to be encoded.
void add_tile(Picture& picture, uint32_t n_rows, uint32_t n_cols) {
  vision::Tile tile;
  tile.token_rows = n_rows;
  tile.token_cols = n_cols;
  picture.tiles.push_back(tile);
}

Prompt read_prompt(const std::string& name) {
  std::ifstream in(folder() + name + ".json");
  const Json facts = Json::parse(in);
  Prompt prompt;
  const int32_t of_picture = facts.at("image_token");
  prompt.tokens = facts.at("tokens").get<std::vector<int32_t>>();
  std::ranges::replace(prompt.tokens, of_picture, engine::kPictureToken);
  auto picture = std::make_shared<Picture>();
  picture->digest = "picture.png";
  picture->embeddings = std::make_shared<const std::vector<float>>(
      read_npy(folder() + name + ".features.npy").values);
  if (facts.contains("image_grid_thw")) {
    constexpr uint32_t kMerged = 2;  // patches per token, in each direction
    const Json& grid = facts.at("image_grid_thw")[0];
    add_tile(*picture, grid[1].get<uint32_t>() / kMerged, grid[2].get<uint32_t>() / kMerged);
  } else {
    for (const Json& n_tokens : facts.at("features_per_picture"))
      add_tile(*picture, 1, n_tokens.get<uint32_t>());
  }
  prompt.pictures = {picture};
  prompt.logits = read_npy(folder() + name + ".npy");
  return prompt;
}

std::vector<float> logits_of(Engine& engine, const Prompt& prompt) {
  std::vector<float> all;
  engine.evaluate(
      prompt.tokens, 0,
      [&](size_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); },
      {.pictures = prompt.pictures});
  return all;
}

// Returns the rule of the engine's projector, with the limits that the fixture was made with.
vision::Rule rule_of(const Engine& engine, const std::string& name) {
  std::ifstream in(folder() + name + ".json");
  const Json processor = Json::parse(in).at("processor");
  vision::Rule rule = *engine.picture_rule();
  if (processor.contains("max_soft_tokens")) {
    const uint64_t token = rule.token_size();
    rule.max_pixels = processor["max_soft_tokens"].get<uint64_t>() * token * token;
  }
  if (processor.contains("size") && processor["size"].contains("shortest_edge") &&
      processor.at("image_processor_type") == "Qwen2VLImageProcessor") {
    rule.min_pixels = processor["size"]["shortest_edge"];
    rule.max_pixels = processor["size"]["longest_edge"];
  }
  return rule;
}

// Returns picture.png as a request has it: without embeddings.
std::shared_ptr<Picture> from_file(const Engine& engine, const std::string& name) {
  std::ifstream in(folder() + "picture.png", std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  vision::Pixels pixels = vision::preprocess(rule_of(engine, name), image::decode(bytes));
  return std::make_shared<Picture>(Picture{.digest = "picture.png",
                                           .tiles = std::move(pixels.plan.tiles),
                                           .patches = std::move(pixels.patches),
                                           .embeddings = nullptr});
}

EngineOptions exact() {
  return {.n_threads = 2, .kv_type = kernels::KvType::kF32, .max_cached = 64 << 20};
}

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  size_t n_shared = 0;  // tokens of the prompt from the cache
  bool operator==(const Answer& other) const {
    return tokens == other.tokens && logprobs == other.logprobs;
  }
};

EngineOptions with_projector(const std::string& name) {
  EngineOptions options = exact();
  options.projector = folder() + name + ".mmproj.gguf";
  return options;
}

// Continues each prompt greedily. All run at the same time.
std::vector<Answer> answers(Engine& engine, std::span<const Prompt> prompts) {
  std::vector<std::shared_ptr<const engine::Sequence>> sequences;
  for (const Prompt& prompt : prompts) {
    engine::SequenceOptions options = engine::greedy(8);
    options.sampling.logprobs = true;
    options.pictures = prompt.pictures;
    sequences.push_back(engine.start(prompt.tokens, options));
  }
  std::vector<Answer> all(prompts.size());
  while (!engine.idle()) {
    for (const Engine::Token& token : engine.step()) {
      const auto of = std::ranges::find(sequences, token.sequence) - sequences.begin();
      all[static_cast<size_t>(of)].tokens.push_back(token.sampled.token);
      all[static_cast<size_t>(of)].logprobs.push_back(token.sampled.logprob);
    }
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_EQ(sequences[i]->error(), "");
    EXPECT_FALSE(all[i].tokens.empty());
    all[i].n_shared = sequences[i]->n_shared();
  }
  return all;
}

class Pictures : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder())) GTEST_SKIP() << folder() << " does not exist";
    prompt_ = read_prompt(GetParam().name);
    path_ = folder() + GetParam().name + ".gguf";
  }

  Prompt prompt_;
  std::string path_;
};

// Returns the mean KL divergence of logits from the expected ones; infinity for another number.
double mean_divergence(const Matrix& expected, std::span<const float> found) {
  if (found.size() != expected.values.size()) return INFINITY;
  double sum = 0.0;
  for (size_t at = 0; at < found.size(); at += expected.n_cols) {
    sum += engine::divergence(std::span(expected.values).subspan(at, expected.n_cols),
                              found.subspan(at, expected.n_cols));
  }
  return sum / static_cast<double>(expected.n_rows);
}

TEST_P(Pictures, GiveTheLogitsOfTransformers) {
  Engine engine(path_, exact());
  const double mean = mean_divergence(prompt_.logits, logits_of(engine, prompt_));
  std::printf("%s: mean KL divergence %.2e\n", GetParam().name, mean);
  EXPECT_LE(mean, kMaxDivergence);
}

// The same, but our encoder makes the embeddings of the PNG file.
TEST_P(Pictures, GiveTheLogitsOfTransformersFromTheFile) {
  Engine engine(path_, with_projector(GetParam().name));
  prompt_.pictures = {from_file(engine, GetParam().name)};
  const double mean = mean_divergence(prompt_.logits, logits_of(engine, prompt_));
  std::printf("%s: mean KL divergence %.2e\n", GetParam().name, mean);
  EXPECT_LE(mean, kMaxDivergenceFromFile);
}

// Steps of text and stages of the encoder alternate. The answers are those of each prompt alone,
// and equal pictures are encoded once.
TEST_P(Pictures, GiveTheSameAnswersWhenTheyAreEncodedInStages) {
  EngineOptions options = with_projector(GetParam().name);
  options.max_pass_time = std::chrono::nanoseconds(1);
  Prompt text = prompt_;
  std::erase(text.tokens, engine::kPictureToken);
  text.pictures.clear();
  std::vector<Answer> alone;
  for (const bool has_picture : {false, true}) {
    Engine engine(path_, options);
    if (has_picture) prompt_.pictures = {from_file(engine, GetParam().name)};
    alone.push_back(answers(engine, {has_picture ? &prompt_ : &text, 1})[0]);
  }
  Engine engine(path_, options);
  const uint64_t before = engine.memory().held();
  Prompt again = prompt_;
  prompt_.pictures = {from_file(engine, GetParam().name)};
  again.pictures = {from_file(engine, GetParam().name)};
  std::vector<Prompt> prompts = {text, prompt_, again};
  EXPECT_EQ(answers(engine, prompts), (std::vector<Answer>{alone[0], alone[1], alone[1]}));
  EXPECT_EQ(again.pictures[0]->embeddings, prompt_.pictures[0]->embeddings);
  EXPECT_EQ(engine.memory().pictures_cached, 0u);  // the prompts still use them
  prompts.clear();
  prompt_.pictures.clear();
  again.pictures.clear();
  EXPECT_GT(engine.memory().pictures_cached, 0u);
  EXPECT_GT(engine.memory().held(), before);
  engine.set_memory_budget(0);  // frees all that is cached
  EXPECT_EQ(engine.memory().cached(), 0u);
}

// KV on disk is that of one projector: the same picture has other embeddings with another one.
TEST_P(Pictures, KvOnDiskIsOfOneProjector) {
  const TestFolder temporary;
  const std::string projector = temporary.path() + "/mmproj.gguf";
  std::filesystem::copy_file(folder() + GetParam().name + ".mmproj.gguf", projector);
  const auto n_shared = [&] {
    EngineOptions options = exact();
    options.projector = projector;
    options.sessions = {temporary.path() + "/sessions", uint64_t{1} << 30};
    Engine engine(path_, options);
    prompt_.pictures = {from_file(engine, GetParam().name)};
    const size_t n = answers(engine, {&prompt_, 1})[0].n_shared;
    while (engine.has_to_save()) engine.save_one();
    return n;
  };
  EXPECT_EQ(n_shared(), 0u);
  const bool is_kept = n_shared() > 0;  // not if the prompt is shorter than a block
  std::filesystem::last_write_time(
      projector, std::filesystem::last_write_time(projector) + std::chrono::seconds(5));
  EXPECT_EQ(n_shared(), 0u);
  EXPECT_EQ(n_shared() > 0, is_kept);
}

TEST_P(Pictures, GiveTheSameBitsInAnyChunks) {
  Engine whole(path_, exact());
  const std::vector<float> expected = logits_of(whole, prompt_);
  EngineOptions options = exact();
  options.n_batch = whole.model().sees_whole_pictures ? prompt_.pictures[0]->n_tokens() : 7;
  Engine cut(path_, options);
  const std::vector<float> found = logits_of(cut, prompt_);
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), expected.size() * sizeof(float)), 0);
}

TEST_P(Pictures, GiveTheSameAnswerAmongOthersAndFromTheCache) {
  Prompt other = prompt_;
  const auto changed = std::make_shared<Picture>(*prompt_.pictures[0]);
  changed->digest = "another picture";
  auto values = std::make_shared<std::vector<float>>(*changed->embeddings);
  for (float& value : *values) value = -value;
  changed->embeddings = values;
  other.pictures = {changed};
  Prompt text = prompt_;
  std::erase(text.tokens, engine::kPictureToken);
  text.pictures.clear();
  const std::vector<Prompt> prompts = {other, prompt_, text};
  std::vector<Answer> alone;
  for (const Prompt& prompt : prompts) {
    Engine engine(path_, exact());
    alone.push_back(answers(engine, {&prompt, 1})[0]);
  }
  EXPECT_NE(alone[0].logprobs, alone[1].logprobs);
  Engine engine(path_, exact());
  EXPECT_EQ(answers(engine, prompts), alone);
  for (int turn = 0; turn < 2; ++turn) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      const Answer again = answers(engine, {&prompts[i], 1})[0];
      EXPECT_EQ(again, alone[i]) << i;
      const size_t n_tokens = prompts[i].tokens.size();
      EXPECT_EQ(again.n_shared, (n_tokens - 1) / kv::kBlockPositions * kv::kBlockPositions);
    }
  }
}

TEST_P(Pictures, TheirPassEndsWithTheLastSequence) {
  EngineOptions options = with_projector(GetParam().name);
  options.max_pass_time = std::chrono::nanoseconds(1);
  Engine engine(path_, options);
  const std::shared_ptr<Picture> picture = from_file(engine, GetParam().name);
  const uint64_t before = engine.memory().held();
  engine::SequenceOptions request = engine::greedy(8);
  request.pictures = {picture};
  const auto sequence = engine.start(prompt_.tokens, request);
  engine.step();  // the text before the picture, and the first stage
  EXPECT_EQ(picture->embeddings, nullptr);
  EXPECT_GT(engine.memory().scratch_granted, 0u);
  const uint64_t scratch = engine.memory().scratch_granted;
  engine.finish(*sequence, engine::FinishReason::kStop);
  EXPECT_TRUE(engine.idle());
  EXPECT_LT(engine.memory().scratch_granted, scratch);
  EXPECT_GE(engine.memory().held(), before);
  prompt_.pictures = {from_file(engine, GetParam().name)};
  EXPECT_EQ(answers(engine, {&prompt_, 1})[0].tokens.size(), 8u);
}

TEST_P(Pictures, AreRefusedIfTheyDoNotFitThePrompt) {
  Engine engine(path_, exact());
  Prompt more = prompt_;
  more.tokens.push_back(engine::kPictureToken);
  EXPECT_THROW(answers(engine, {&more, 1}), Error);
  Prompt fewer = prompt_;
  fewer.tokens.erase(std::ranges::find(fewer.tokens, engine::kPictureToken));
  EXPECT_THROW(answers(engine, {&fewer, 1}), Error);
  Prompt none = prompt_;
  none.pictures.clear();
  EXPECT_THROW(answers(engine, {&none, 1}), Error);
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Pictures, testing::ValuesIn(kCases), name_of_case);

}  // namespace
}  // namespace billow::families
