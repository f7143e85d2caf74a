// Tests encoders: equal to the reference, equal alone and batched, memory use, and refusals.
#include "engine/embed/encoder_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "engine/describe.h"
#include "engine/embed/load.h"
#include "engine/tiny_embedder.h"
#include "reference/reference_encoder.h"

namespace billow::engine {
namespace {

using reference::TinyEncoderOptions;

// Returns the allowed error: 8-bit activations and 16-bit floats are less exact than F32.
double bound(kernels::InputKind kind) {
  if (kind == kernels::InputKind::kCodes) return 4e-2;
  return kind == kernels::InputKind::kF32 ? 1e-5 : 1e-2;
}

TEST(Encoder, EveryVariantEqualsTheReferenceOnEveryKernelTable) {
  for (const auto& [name, options] : reference::tiny_encoder_variants()) {
    const std::vector<std::byte> bytes = reference::make_tiny_encoder(options);
    const gguf::File file = gguf::File::parse(bytes, name);
    const reference::ReferenceEncoder reference(file);
    std::vector<EmbedText> texts;
    std::vector<Vector> expected;
    for (const size_t n : {1u, 2u, 17u, 60u, 128u}) {
      texts.push_back(random_text(n, static_cast<unsigned>(n)));
      texts.back().pooling = Pooling::kNone;
      expected.push_back(reference.hidden(texts.back().tokens));
    }
    for (const kernels::KernelTable* table : usable_tables()) {
      TinyEncoder tiny(bytes, {.n_threads = 2, .kernels = table});
      for (size_t i = 0; i < texts.size(); ++i)
        EXPECT_LT(error_of(expected[i], vector_of(tiny.model, texts[i])), 1e-5)
            << name << " " << table->name << ", " << texts[i].tokens.size() << " tokens";
    }
  }
}

TEST(Encoder, EQ_6_WeightFormatsStayCloseToTheReference) {
  for (const quant::Type type : {quant::Type::kF16, quant::Type::kBF16, quant::Type::kQ8_0}) {
    for (const char* architecture : {"bert", "nomic-bert"}) {
      const TinyEncoderOptions options{.architecture = architecture, .type = type};
      const std::vector<std::byte> bytes = reference::make_tiny_encoder(options);
      const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
      const EmbedText text = random_text(50, 3);
      Vector expected(options.n_embd);
      const Vector hidden = reference::ReferenceEncoder(file).hidden(text.tokens);
      for (size_t i = 0; i < hidden.size(); ++i) expected[i % options.n_embd] += hidden[i] / 50.0f;
      for (const kernels::KernelTable* table : usable_tables()) {
        for (const bool pack : {true, false}) {
          TinyEncoder tiny(bytes, {.n_threads = 2, .pack_weights = pack, .kernels = table});
          EXPECT_LT(error_of(expected, vector_of(tiny.model, text)),
                    bound(table->of(type).input->kind))
              << architecture << " " << quant::row(type).name << " " << table->name;
        }
      }
    }
  }
}

TEST(Encoder, PoolsAsTheFileOrTheTextSpecifies) {
  const TinyEncoderOptions options{.pooling = 2};
  TinyEncoder tiny(options);
  EmbedText text = random_text(20, 1);
  text.pooling = Pooling::kNone;
  const Vector all = vector_of(tiny.model, text);
  const size_t n = options.n_embd;
  ASSERT_EQ(all.size(), 20 * n);
  const auto row = [&](size_t i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * n);
    return Vector(begin, begin + static_cast<std::ptrdiff_t>(n));
  };
  text.pooling.reset();
  EXPECT_EQ(vector_of(tiny.model, text), row(0));
  text.pooling = Pooling::kLast;
  EXPECT_EQ(vector_of(tiny.model, text), row(19));
  text.pooling = Pooling::kMax;
  const Vector max = vector_of(tiny.model, text);
  text.pooling = Pooling::kMean;
  const Vector mean = vector_of(tiny.model, text);
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;
    float expected = -std::numeric_limits<float>::infinity();
    for (size_t token = 0; token < 20; ++token) {
      sum += static_cast<double>(row(token)[i]);
      expected = std::max(expected, row(token)[i]);
    }
    EXPECT_EQ(max[i], expected);
    EXPECT_FLOAT_EQ(mean[i], static_cast<float>(sum / 20));
  }
  TinyEncoder silent(TinyEncoderOptions{.pooling = {}});
  EXPECT_EQ(silent.model.info().pooling, Pooling::kMean);
  TinyEncoder ranks(TinyEncoderOptions{.n_labels = 1, .pooling = {}});
  EXPECT_EQ(ranks.model.info().pooling, Pooling::kRank);
}

// 40 texts of all lengths, some of them pairs.
std::vector<EmbedText> many_texts() {
  std::vector<EmbedText> texts;
  for (unsigned i = 0; i < 40; ++i) {
    texts.push_back(random_text(1 + i * i % 61, i));
    if (i % 3 == 1) texts.back().n_first = texts.back().tokens.size() / 2;
    if (i % 7 == 2) texts.back().pooling = Pooling::kNone;
  }
  texts.push_back(random_text(128, 99));
  return texts;
}

std::vector<reference::TinyEncoderOptions> packed_models() {
  return {{},
          {.type = quant::Type::kF16},
          {.type = quant::Type::kQ8_0},
          {.architecture = "nomic-bert", .type = quant::Type::kF16},
          {.n_labels = 1, .pooling = 4}};
}

std::vector<Vector> alone(const reference::TinyEncoderOptions& options,
                          const std::vector<EmbedText>& texts,
                          const kernels::KernelTable* table = nullptr) {
  TinyEncoder tiny(options, {.n_threads = 1, .kernels = table});
  std::vector<Vector> vectors;
  for (const EmbedText& text : texts) vectors.push_back(vector_of(tiny.model, text));
  return vectors;
}

TEST(Encoder, EQ_1_EQ_3_SameBitsAloneAndBatchedForAnyThreadCount) {
  const std::vector<EmbedText> texts = many_texts();
  for (const TinyEncoderOptions& options : packed_models()) {
    for (const kernels::KernelTable* table : usable_tables()) {
      if (table->name == "scalar" && options.type != quant::Type::kF32) continue;  // slow
      const std::vector<Vector> expected = alone(options, texts, table);
      for (const int n_threads : {1, 2, 4}) {
        TinyEncoder tiny(options, {.n_threads = n_threads, .kernels = table});
        const std::vector<EmbedVector> found = embedded(tiny.model, texts);
        for (size_t i = 0; i < texts.size(); ++i)
          EXPECT_EQ(found[i].values, expected[i]) << table->name << ", text " << i;
      }
    }
  }
}

TEST(Encoder, EQ_2_OrderOfTextsChangesNoBit) {
  std::vector<EmbedText> texts;
  for (unsigned i = 0; i < 64; ++i) texts.push_back(random_text(1 + i % 23, i));
  const TinyEncoderOptions options{.type = quant::Type::kF16, .n_layers = 2};
  const std::vector<Vector> expected = alone(options, texts);
  TinyEncoder tiny(options, {.n_threads = 2});
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    std::vector<EmbedText> shuffled;
    for (const size_t i : order) shuffled.push_back(texts[i]);
    const std::vector<EmbedVector> found = embedded(tiny.model, shuffled);
    for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(found[i].values, expected[order[i]]);
  }
}

TEST(Encoder, EQ_4_SizeOfAPassChangesNoBit) {
  std::vector<EmbedText> texts;
  for (unsigned i = 0; i < 150; ++i) texts.push_back(random_text(1 + i % 40, i));
  const TinyEncoderOptions options{.type = quant::Type::kQ8_0, .n_layers = 2};
  TinyEncoder tiny(options, {.n_threads = 2});
  const std::vector<EmbedVector> expected = embedded(tiny.model, texts);  // several passes
  for (const size_t n_at_once : {1u, 3u, 20u, 70u}) {
    for (size_t i = 0; i < texts.size(); i += n_at_once) {
      const size_t n = std::min(n_at_once, texts.size() - i);
      const std::vector<EmbedVector> found = embedded(tiny.model, std::span(texts).subspan(i, n));
      for (size_t j = 0; j < n; ++j) EXPECT_EQ(found[j].values, expected[i + j].values);
    }
  }
}

TEST(Encoder, EQ_7_PositionsBeginAtZeroInEachTextOfAPass) {
  for (const char* architecture : {"bert", "nomic-bert"}) {
    const TinyEncoderOptions options{.architecture = architecture, .n_layers = 2, .n_context = 512};
    const std::vector<std::byte> bytes = reference::make_tiny_encoder(options);
    const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
    const reference::ReferenceEncoder reference(file);
    std::vector<EmbedText> texts;
    for (unsigned i = 0; i < 4; ++i) {
      texts.push_back(random_text(512, i));
      texts.back().pooling = Pooling::kNone;
    }
    TinyEncoder tiny(bytes, {.n_threads = 2});
    const std::vector<EmbedVector> found = embedded(tiny.model, texts);
    for (size_t i = 0; i < texts.size(); ++i)
      EXPECT_LT(error_of(reference.hidden(texts[i].tokens), found[i].values), 1e-5);
  }
}

TEST(Encoder, SV_11_PairsHaveTwoSegmentsAndAreScored) {
  for (const bool dense : {true, false}) {
    const TinyEncoderOptions options{
        .n_labels = dense ? 1u : 3u, .dense = dense, .pooling = 4, .seed = 5};
    const std::vector<std::byte> bytes = reference::make_tiny_encoder(options);
    const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
    const reference::ReferenceEncoder reference(file);
    TinyEncoder tiny(bytes, {.n_threads = 2});
    EmbedText text = random_text(30, 2);
    for (const size_t n_first : {0u, 1u, 12u, 30u}) {
      text.n_first = n_first;
      Vector hidden = reference.hidden(text.tokens, n_first);
      hidden.resize(options.n_embd);
      const Vector expected = reference.scores(hidden);
      const Vector found = vector_of(tiny.model, text);
      ASSERT_EQ(found.size(), options.n_labels);
      EXPECT_LT(error_of(expected, found), 1e-4);
    }
    text.n_first = 0;
    const Vector one = vector_of(tiny.model, text);
    text.n_first = 15;
    EXPECT_NE(vector_of(tiny.model, text), one);
  }
}

// Returns a model whose embedding has a NaN in row `token`.
std::vector<std::byte> with_broken_token(const TinyEncoderOptions& options, size_t token) {
  std::vector<std::byte> bytes = reference::make_tiny_encoder(options);
  const gguf::File file = gguf::File::parse(bytes, "tiny.gguf");
  const std::byte* row =
      file.find_tensor("token_embd.weight")->data.data() + token * options.n_embd * sizeof(float);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + (row - bytes.data()) + 4 * sizeof(float), &nan, sizeof nan);
  return bytes;
}

TEST(Encoder, SV_8_NanFailsOnlyItsText) {
  for (const bool ranks : {false, true}) {
    const TinyEncoderOptions options{.n_labels = ranks ? 1u : 0u, .pooling = ranks ? 4u : 1u};
    TinyEncoder whole(options);
    TinyEncoder broken(with_broken_token(options, 77), {.n_threads = 2});
    std::vector<EmbedText> texts;
    for (unsigned i = 0; i < 9; ++i) {
      texts.push_back(random_text(10, i));
      std::ranges::replace(texts.back().tokens, 77, 78);
    }
    texts[4].tokens[6] = 77;
    const std::vector<EmbedVector> found = embedded(broken.model, texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(found[i].error.empty(), i != 4);
      EXPECT_EQ(found[i].error.find('\n'), std::string::npos);
      EXPECT_EQ(found[i].values, i == 4 ? Vector{} : vector_of(whole.model, texts[i]));
    }
  }
}

TEST(Encoder, RefusesInvalidTextsWithOneLineErrors) {
  TinyEncoder tiny(TinyEncoderOptions{.n_context = 64});
  EXPECT_EQ(tiny.model.info().max_tokens, 64u);
  EXPECT_EQ(tiny.model.refusal(random_text(64, 1)), "");
  const auto refused = [&](const EmbedText& text, const char* what) {
    const std::string why = tiny.model.refusal(text);
    EXPECT_NE(why.find(what), std::string::npos) << why;
    EXPECT_EQ(why.find('\n'), std::string::npos);
    EXPECT_THROW(embedded(tiny.model, {&text, 1}), Error);
  };
  refused({}, "no tokens");
  refused(random_text(65, 1), "64");
  refused({.tokens = {3, 130}}, "130");
  refused({.tokens = {3, -1}}, "-1");
  refused({.tokens = {3, 4}, .n_first = 3}, "segment");
  refused({.tokens = {3, 4}, .pooling = Pooling::kRank}, "rank");
  EXPECT_TRUE(embedded(tiny.model, {}).empty());
  EXPECT_EQ(tiny.model.refusal(random_text(5, 1)), "");
  EXPECT_EQ(vector_of(tiny.model, random_text(5, 1)).size(), 128u);
  TinyEncoder limited(TinyEncoderOptions{}, {.n_threads = 1, .max_context = 10});
  EXPECT_NE(limited.model.refusal(random_text(11, 1)), "");
}

TEST(Encoder, OM_25_PassAboveBudgetIsOutOfMemoryAndSmallerPassRuns) {
  const TinyEncoderOptions options{.n_ff = 4096, .n_context = 2048};
  TinyEncoder tiny(options, {.n_threads = 2});
  const EmbedText small = random_text(50, 1);
  const EmbedText large = random_text(2048, 2);
  const Vector expected = vector_of(tiny.model, small);
  tiny.model.set_memory_budget(tiny.model.memory().held() + 1000);
  try {
    embedded(tiny.model, {&large, 1});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
  EXPECT_EQ(vector_of(tiny.model, small), expected);
  EXPECT_THROW(TinyEncoder(options, {.n_threads = 1, .memory_budget = 1000}), Error);
}

TEST(Encoder, P_13_NoPassExceedsItsScratchBound) {
  std::vector<TinyEncoderOptions> models = {
      {.type = quant::Type::kF16, .n_layers = 1, .n_ff = 2048},
      {.type = quant::Type::kQ8_0, .n_layers = 1, .n_ff = 128, .n_head = 1, .n_context = 1024},
      {.architecture = "nomic-bert", .type = quant::Type::kF16, .n_layers = 1, .n_ff = 1024},
      {.n_layers = 1, .n_context = 2048, .n_labels = 2, .pooling = 4}};
  for (const TinyEncoderOptions& options : models) {
    for (const int n_threads : {1, 3}) {
      for (const bool pack : {true, false}) {
        TinyEncoder tiny(options, {.n_threads = n_threads, .pack_weights = pack});
        std::vector<EmbedText> texts = {random_text(options.n_context, 1)};
        for (unsigned i = 0; i < 60; ++i) texts.push_back(random_text(1 + i, i));
        embedded(tiny.model, texts);
        const MemoryUse use = tiny.model.memory();
        EXPECT_LE(use.scratch, use.scratch_granted) << options.architecture;
        EXPECT_GE(use.scratch, use.scratch_granted / 2) << options.architecture;
        EXPECT_LE(use.held(), use.budget);
      }
    }
  }
}

TEST(Describe, ReportsMemoryOfAnEncoder) {
  const TinyEncoderOptions options{.type = quant::Type::kF16, .n_context = 512, .pooling = 2};
  TinyEncoder tiny(options, {.n_threads = 2});
  const Description description = describe(tiny.model.file(), {.n_threads = 2});
  EXPECT_EQ(description.memory.weight_bytes, tiny.model.memory().weights);
  EXPECT_EQ(description.max_context, 512u);
  std::vector<EmbedText> texts;
  for (unsigned i = 0; i < 4; ++i) texts.push_back(random_text(512, i));
  embedded(tiny.model, texts);
  EXPECT_LE(tiny.model.memory().scratch_granted, description.memory.scratch_bytes(512));
  const Json json = description_json(description);
  EXPECT_EQ(json["architecture"], "bert");
  EXPECT_EQ(json["is_embedding"], true);
  EXPECT_EQ(json["pooling"], "cls");
  EXPECT_EQ(json["embedding_length"], 128);
  EXPECT_EQ(json["memory"]["kv_groups"], Json::array());
  EXPECT_EQ(json["memory"]["weight_bytes"], description.memory.weight_bytes);
  EXPECT_EQ(json["memory"]["scratch"].size(), 1u);
}

TEST(DecoderModel, EQ_5_BatchedVectorsEqualTheEngines) {
  const reference::TinyModelOptions options{
      .architecture = "qwen2", .n_context = 256, .pooling = 3};
  const std::vector<std::byte> bytes = reference::make_tiny_model(options);
  const auto model = load_embed_model(gguf::File::parse(bytes, "tiny.gguf"), {.n_threads = 2});
  EXPECT_EQ(model->info().pooling, Pooling::kLast);
  EXPECT_EQ(model->info().max_tokens, 256u);
  EXPECT_EQ(model->info().n_embd, 256u);
  std::vector<EmbedText> texts;
  for (unsigned i = 0; i < 12; ++i) texts.push_back(random_text(1 + 23 * i, i));
  const std::vector<EmbedVector> packed = embedded(*model, texts);
  TinyEngine tiny(options, {.n_threads = 1});
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto embedding = tiny.engine.embed(texts[i].tokens);
    while (!tiny.engine.idle()) tiny.engine.step();
    EXPECT_EQ(packed[i].error, "");
    EXPECT_EQ(packed[i].values, embedding->vector());
  }
  EXPECT_NE(model->refusal({}), "");
  EXPECT_NE(model->refusal(random_text(257, 1)), "");
  EXPECT_NE(model->refusal({.tokens = {99999}}), "");
  EXPECT_NE(model->refusal({.tokens = {1}, .pooling = Pooling::kMean}), "");
  EXPECT_EQ(model->refusal({.tokens = {1}, .pooling = Pooling::kLast}), "");
}

TEST(LoadEmbedModel, RecognizesAndLoadsEachKind) {
  const auto is_embedding = [](const std::vector<std::byte>& bytes) {
    return is_embedding_file(gguf::File::parse(bytes, "tiny.gguf"));
  };
  EXPECT_TRUE(is_embedding(reference::make_tiny_encoder({})));
  EXPECT_TRUE(is_embedding(reference::make_tiny_encoder({.pooling = {}})));
  EXPECT_TRUE(is_embedding(reference::make_tiny_model({.pooling = 1})));
  EXPECT_FALSE(is_embedding(reference::make_tiny_model({})));
  const std::vector<std::byte> bytes = reference::make_tiny_encoder({});
  EXPECT_EQ(load_embed_model(gguf::File::parse(bytes, "t"))->info().architecture, "bert");
  // An encoder writes no text.
  EXPECT_THROW(Engine(gguf::File::parse(bytes, "t"), {}), Error);
  const std::vector<std::byte> decoder = reference::make_tiny_model({});
  EXPECT_THROW(EncoderModel(gguf::File::parse(decoder, "t")), Error);
}

}  // namespace
}  // namespace billow::engine
