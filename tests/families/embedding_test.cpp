// Tests the tiny embedding models and rerankers of tests/families/embedding: their vectors equal
// those of the models' own library, a batch changes no bit, and scratch memory stays within its
// bound. make_embedding_fixtures.py makes the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/test_source_dir.h"
#include "engine/changed_file.h"
#include "engine/describe.h"
#include "engine/embed/load.h"
#include "engine/tiny_embedder.h"
#include "gguf/writer.h"

namespace billow::families {
namespace {

using engine::EmbedModel;
using engine::EmbedText;
using engine::EmbedVector;
using engine::EngineOptions;
using engine::Vector;

constexpr const char* kFamilies[] = {"eurobert",
                                     "llama-bidirectional",
                                     "qwen2-bidirectional",
                                     "qwen3-bidirectional",
                                     "gemma-embedding",
                                     "jina-bert-v2",
                                     "jina-bert-v3",
                                     "modern-bert",
                                     "modern-bert-reranker",
                                     "neo-bert",
                                     "nomic-bert-moe",
                                     "qwen3-embedding",
                                     "qwen3-reranker"};

// Max |found - expected| / |expected| with float weights. The rest of the error comes from the
// order of sums, and from rounding if the keys and values of decoders are codes. Scores may differ
// more, because they are differences.
constexpr double kMaxError = 3e-6;
constexpr double kMaxErrorOfScores = 2e-5;
constexpr double kMaxErrorOfCodes = 3e-3;
// For BF16 weights: some processors multiply them with BF16 activations.
constexpr double kMinCosine = 0.9999;
constexpr double kMaxScoreError = 0.1;

std::string path_of(const std::string& name, const char* suffix) {
  return source_dir() + "/tests/families/embedding/" + name + suffix;
}

double cosine(const Vector& a, const Vector& b) {
  double product = 0.0;
  double a_square = 0.0;
  double b_square = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    product += x * y;
    a_square += x * x;
    b_square += y * y;
  }
  return product / std::sqrt(a_square * b_square);
}

class EmbeddingFamilies : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::ifstream in(path_of(GetParam(), ".json"));
    const Json json = Json::parse(in);
    judge_ = json["judge"];
    llama_cpp_ = json["llama_cpp_is_apart"].dump();
    for (const Json& text : json["texts"]) {
      texts_.push_back({.tokens = text["tokens"]});
      expected_.push_back(text["vector"]);
    }
    ASSERT_GT(texts_.size(), 4u);
  }

  // Loads the file, with its matrices as floats if as_floats is set.
  std::unique_ptr<EmbedModel> load(const EngineOptions& options, bool as_floats = false) {
    gguf::File file = gguf::File::open(path_of(GetParam(), ".gguf"));
    if (!as_floats) return engine::load_embed_model(std::move(file), options);
    gguf::Writer writer;
    for (const gguf::Entry& entry : file.metadata()) writer.set(entry.key, entry.value);
    std::vector<Vector> matrices;
    matrices.reserve(file.tensors().size());
    for (const gguf::TensorInfo& tensor : file.tensors()) {
      Vector& values = matrices.emplace_back(tensor.n_elements());
      quant::find_type(tensor.type)->decode(tensor.data.data(), values.size(), values.data());
      writer.add_tensor(tensor.name, 0, std::span(tensor.shape).first(tensor.n_dims),
                        std::as_bytes(std::span(values)));
    }
    bytes_ = writer.to_bytes();
    return engine::load_embed_model(gguf::File::parse(bytes_, GetParam()), options);
  }

  // Returns the vector of each text, each in its own pass.
  std::vector<Vector> alone(EmbedModel& model) const {
    std::vector<Vector> vectors;
    for (const EmbedText& text : texts_) vectors.push_back(engine::vector_of(model, text));
    return vectors;
  }

  // Returns the fixture's texts, and prefixes of the longest text.
  std::vector<EmbedText> many_texts() const {
    std::vector<EmbedText> texts = texts_;
    const std::vector<int32_t>& longest = texts_.back().tokens;
    for (size_t n = 1; n <= longest.size(); n += 3)
      texts.push_back({.tokens = {longest.begin(), longest.begin() + static_cast<long>(n)}});
    return texts;
  }

  std::vector<EmbedText> texts_;
  std::vector<Vector> expected_;
  std::string judge_;
  std::string llama_cpp_;
  std::vector<std::byte> bytes_;
};

TEST_P(EmbeddingFamilies, VectorsEqualTheModelsOwnLibrary) {
  double worst_of_first = 0.0;
  for (const kernels::KernelTable* table : engine::usable_tables()) {
    const auto model =
        load({.n_threads = 2, .kv_type = kernels::KvType::kF32, .kernels = table}, true);
    const std::vector<Vector> found = alone(*model);
    for (size_t i = 0; i < found.size(); ++i) {
      const double error = engine::error_of(expected_[i], found[i]);
      EXPECT_LT(error, found[i].size() == 1 ? kMaxErrorOfScores : kMaxError)
          << table->name << ", " << texts_[i].tokens.size() << " tokens";
      if (table == engine::usable_tables().front())
        worst_of_first = std::max(worst_of_first, error);
    }
  }
  std::printf("%s: difference to %s %.1e, of llama.cpp %s\n", GetParam(), judge_.c_str(),
              worst_of_first, llama_cpp_.c_str());
}

TEST_P(EmbeddingFamilies, VectorsOfTheUnchangedFileAreClose) {
  for (const kernels::KernelTable* table : engine::usable_tables()) {
    const auto model = load({.n_threads = 2, .kernels = table});
    const std::vector<Vector> found = alone(*model);
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].size(), expected_[i].size());
      if (found[i].size() == 1)
        EXPECT_NEAR(found[i][0], expected_[i][0], kMaxScoreError) << table->name;
      else
        EXPECT_GT(cosine(found[i], expected_[i]), kMinCosine) << table->name;
    }
    const auto floats = load({.n_threads = 2, .kernels = table}, true);
    const std::vector<Vector> nearer = alone(*floats);
    for (size_t i = 0; i < nearer.size(); ++i)
      EXPECT_LT(engine::error_of(expected_[i], nearer[i]), kMaxErrorOfCodes) << table->name;
  }
}

TEST_P(EmbeddingFamilies, EQ_1_EQ_3_SameBitsAloneAndBatchedForAnyThreadCount) {
  const std::vector<EmbedText> texts = many_texts();
  for (const kernels::KernelTable* table : engine::usable_tables()) {
    const auto single = load({.n_threads = 1, .kernels = table});
    std::vector<Vector> own;
    for (const EmbedText& text : texts) own.push_back(engine::vector_of(*single, text));
    for (const int n_threads : {1, 2}) {
      const auto model = load({.n_threads = n_threads, .kernels = table});
      const std::vector<EmbedVector> packed = engine::embedded(*model, texts);
      for (size_t i = 0; i < texts.size(); ++i)
        EXPECT_EQ(packed[i].values, own[i]) << table->name << ", " << n_threads << " threads";
    }
  }
}

TEST_P(EmbeddingFamilies, P_13_NoPassExceedsItsScratchBound) {
  const gguf::File file = gguf::File::open(path_of(GetParam(), ".gguf"));
  for (const int n_threads : {1, 3}) {
    for (const bool pack : {true, false}) {
      const auto model = load({.n_threads = n_threads, .pack_weights = pack});
      engine::embedded(*model, many_texts());
      const engine::MemoryUse use = model->memory();
      EXPECT_GT(use.scratch, 0u);
      EXPECT_LE(use.scratch, use.scratch_granted) << n_threads << " threads, packed: " << pack;
      if (!pack) continue;
      const engine::Description description = engine::describe(file, {.n_threads = n_threads});
      EXPECT_LE(use.scratch_granted, description.memory.scratch_bytes(description.max_context));
    }
  }
}

// Loads a model of any kind. engine::refusal_of() needs a class with this constructor.
struct Loaded {
  Loaded(gguf::File file, const EngineOptions& options)
      : model(engine::load_embed_model(std::move(file), options)) {}
  std::unique_ptr<EmbedModel> model;
};

// Returns whether a file may lack this tensor: other models of the family lack it, or its absence
// has a meaning.
bool is_optional(const std::string& family, const std::string& tensor) {
  const auto is_any_of = [&](std::initializer_list<const char*> ends) {
    return std::ranges::any_of(ends, [&](const char* end) { return tensor.ends_with(end); });
  };
  if (is_any_of({"token_types.weight", "cls.bias", "cls.norm.weight", "cls.output.bias"}))
    return true;
  if (family == "jina-bert-v2") {
    return is_any_of({"attn_norm_2.weight", "attn_norm_2.bias", "attn_q_norm.bias",
                      "attn_k_norm.bias"}) ||
           tensor == "blk.0.attn_q_norm.weight" || tensor == "blk.0.attn_k_norm.weight";
  }
  if (family == "qwen2-bidirectional")
    return is_any_of({"attn_q.bias", "attn_k.bias", "attn_v.bias"});
  if (family == "nomic-bert-moe") return tensor == "blk.0.ffn_up.bias";
  if (family == "modern-bert-reranker") return tensor.starts_with("cls");
  if (family == "qwen3-reranker" || family == "qwen3-embedding") return tensor == "output.weight";
  return false;
}

TEST_P(EmbeddingFamilies, NamesEveryMissingTensor) {
  std::ifstream in(path_of(GetParam(), ".gguf"), std::ios::binary);
  const std::string read((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(read));
  const gguf::File file = gguf::File::open(path_of(GetParam(), ".gguf"));
  EXPECT_EQ(engine::refusal_of<Loaded>(bytes, {}), "");
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::string name(tensor.name);
    const std::string message = engine::refusal_of<Loaded>(bytes, {.drop_tensor = name});
    if (is_optional(GetParam(), name)) continue;
    // If a joint matrix is missing, the loader looks for its parts.
    const bool named =
        engine::names(message, name) ||
        (name.ends_with("attn_qkv.weight") && engine::names(message, "attn_q.weight")) ||
        (name.ends_with("ffn_up.weight") && engine::names(message, "ffn_gate.weight"));
    EXPECT_TRUE(named) << name << ": " << message;
  }
}

// If header bytes are random, loading gives a model or a one-line error. A loaded model gives
// vectors or errors.
TEST_P(EmbeddingFamilies, SurvivesRandomHeaderBytes) {
  std::ifstream in(path_of(GetParam(), ".gguf"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const gguf::File file = gguf::File::open(path_of(GetParam(), ".gguf"));
  size_t n_data = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) n_data += tensor.data.size();
  // Texts of the vocabulary fill most of the header. Another test covers them.
  const size_t n_header = std::min<size_t>(whole.size() - n_data, 2000);
  std::mt19937 random(7);
  for (int round = 0; round < 150; ++round) {
    std::string read = whole;
    for (unsigned i = 0; i <= random() % 3; ++i)
      read[random() % n_header] = static_cast<char>(random());
    try {
      const auto model = engine::load_embed_model(
          gguf::File::parse(std::as_bytes(std::span(read)), "changed.gguf"),
          {.n_threads = 1, .memory_budget = uint64_t{256} << 20});
      const EmbedText& text = texts_[2];
      if (model->refusal(text).empty()) engine::embedded(*model, {&text, 1});
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
}

TEST_P(EmbeddingFamilies, RefusesTooLongTexts) {
  const auto model = load({.n_threads = 1});
  const size_t max = model->info().max_tokens;
  EXPECT_EQ(model->refusal({.tokens = std::vector<int32_t>(max, 9)}), "");
  EXPECT_NE(model->refusal({.tokens = std::vector<int32_t>(max + 1, 9)}), "");
}

// Ollama's converter uses other names for the parts of EmbeddingGemma.
TEST(EmbeddingGemma, LoadsWithNamesOfOllamasConverter) {
  const std::string path = path_of("gemma-embedding", ".gguf");
  const gguf::File file = gguf::File::open(path);
  gguf::Writer writer;
  const auto renamed = [](std::string name, const std::string& from, const std::string& to) {
    return name.starts_with(from) ? to + name.substr(from.size()) : name;
  };
  for (const gguf::Entry& entry : file.metadata())
    writer.set(renamed(std::string(entry.key), "gemma-embedding.", "gemma3."), entry.value);
  writer.set_string("general.architecture", "gemma3");
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::string first = renamed(std::string(tensor.name), "dense_2", "dense.0");
    writer.add_tensor(renamed(first, "dense_3", "dense.1"), tensor.type,
                      std::span(tensor.shape).first(tensor.n_dims), tensor.data);
  }
  const std::vector<std::byte> bytes = writer.to_bytes();
  const auto ours = engine::load_embed_model(path, {.n_threads = 1});
  const auto theirs =
      engine::load_embed_model(gguf::File::parse(bytes, "gemma3"), {.n_threads = 1});
  const EmbedText text = {.tokens = {1, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 2}};
  EXPECT_EQ(engine::vector_of(*theirs, text), engine::vector_of(*ours, text));
  EXPECT_EQ(theirs->info().architecture, "gemma3");
}

std::string test_name(const testing::TestParamInfo<const char*>& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, EmbeddingFamilies, testing::ValuesIn(kFamilies), test_name);

}  // namespace
}  // namespace billow::families
