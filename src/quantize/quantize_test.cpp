#include "quantize/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "quantize/encode.h"

namespace billow::quantize {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kF32 = 0;
constexpr uint64_t kWidth = 512;
constexpr uint64_t kRows = 200;
constexpr uint64_t kExperts = 3;

struct Source {
  Source() {
    std::mt19937 random(3);
    std::normal_distribution<float> draw(0.0f, 0.02f);
    const auto fill = [&](uint64_t n) {
      std::vector<float> values(n);
      std::ranges::generate(values, [&] { return draw(random); });
      return values;
    };
    matrix = fill(kWidth * kRows);
    experts = fill(kWidth * kRows * kExperts);
    norm = fill(kWidth);
  }

  Bytes file() const {
    gguf::Writer writer;
    writer.set_string("general.architecture", "llama");
    writer.set_uint("llama.block_count", 1);
    writer.set_uint("llama.expert_count", kExperts);
    writer.set_uint("general.file_type", 0);
    writer.set_uint("split.count", 0);
    const auto add = [&](const char* name, std::vector<uint64_t> shape,
                         const std::vector<float>& values) {
      writer.add_tensor(name, kF32, shape, std::as_bytes(std::span(values)));
    };
    add("token_embd.weight", {kWidth, kRows}, matrix);
    add("blk.0.ffn_up_exps.weight", {kWidth, kRows, kExperts}, experts);
    add("blk.0.attn_norm.weight", {kWidth}, norm);
    add("blk.0.attn_k.weight", {kWidth, kRows}, matrix);
    return writer.to_bytes();
  }

  std::vector<float> matrix;
  std::vector<float> experts;
  std::vector<float> norm;
};

Bytes quantised(const gguf::File& file, const Options& options, int n_threads,
                const Listener& listener = {}) {
  Bytes out;
  quantize(
      file, plan(file, options), options, n_threads, listener,
      [&](std::span<const std::byte> piece) { out.insert(out.end(), piece.begin(), piece.end()); });
  return out;
}

Options options_for(std::string_view type, const Importance* importance = nullptr) {
  Options options;
  options.mixture.file_type = find_file_type(type);
  options.importance = importance;
  options.importance_file = "matrix.gguf";
  return options;
}

Importance sample_importance() {
  Importance importance;
  std::vector<float> columns(kWidth * kExperts);
  for (size_t i = 0; i < columns.size(); ++i) columns[i] = 1.0f + static_cast<float>(i % 97);
  importance.entries["blk.0.ffn_up_exps.weight"] = columns;
  importance.entries["blk.0.attn_k.weight"] =
      std::vector<float>(columns.begin(), columns.begin() + kWidth);
  importance.datasets = {"a text"};
  importance.n_chunks = 5;
  return importance;
}

std::string refusal(const gguf::File& file, const Options& options) {
  try {
    quantised(file, options, 2);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(QuantizeTest, WritesThePlannedFile) {
  const Source source;
  const Bytes bytes = source.file();
  const gguf::File file = gguf::File::parse(bytes, "source");
  const Bytes out = quantised(file, options_for("Q4_K_M"), 2);
  const gguf::File made = gguf::File::parse(out, "made");
  EXPECT_EQ(made.get_uint("general.file_type"), 15u);
  EXPECT_EQ(made.get_uint("general.quantization_version"), 2u);
  EXPECT_EQ(made.find("split.count"), nullptr);
  EXPECT_EQ(made.tensors()[0].name, "token_embd.weight");
  EXPECT_EQ(made.tensors()[1].name, "blk.0.attn_k.weight");
  EXPECT_EQ(made.find_tensor("token_embd.weight")->type,
            14u);  // Q6_K: the embeddings are the output, too
  const gguf::TensorInfo* norm = made.find_tensor("blk.0.attn_norm.weight");
  EXPECT_EQ(std::memcmp(norm->data.data(), source.norm.data(), norm->data.size()), 0);
  const gguf::TensorInfo* key = made.find_tensor("blk.0.attn_k.weight");
  std::vector<float> decoded(source.matrix.size());
  quant::row(quant::Type::kQ4_K).decode(key->data.data(), decoded.size(), decoded.data());
  for (size_t i = 0; i < decoded.size(); ++i) ASSERT_NEAR(decoded[i], source.matrix[i], 0.01f);
}

TEST(QuantizeTest, AnyNumberOfThreadsWritesTheSameBytes) {
  const Bytes bytes = Source().file();
  const gguf::File file = gguf::File::parse(bytes, "source");
  const Importance importance = sample_importance();
  for (const std::string_view type : {"Q4_0", "Q3_K_M", "IQ2_XS"}) {
    const Options options = options_for(type, &importance);
    const Bytes one = quantised(file, options, 1);
    EXPECT_TRUE(one == quantised(file, options, 3)) << type;
  }
}

TEST(QuantizeTest, EachExpertHasItsOwnImportance) {
  const Source source;
  const Bytes bytes = source.file();
  const gguf::File file = gguf::File::parse(bytes, "source");
  const Importance importance = sample_importance();
  const Bytes out = quantised(file, options_for("Q4_K_S", &importance), 2);
  const gguf::File made = gguf::File::parse(out, "made");
  const gguf::TensorInfo* experts = made.find_tensor("blk.0.ffn_up_exps.weight");
  const size_t n = kWidth * kRows;
  for (size_t e = 0; e < kExperts; ++e) {
    Bytes expected(quant::row_bytes(quant::Type::kQ4_K, n));
    encode_rows(quant::Type::kQ4_K,
                {std::span<const float>(source.experts).subspan(e * n, n), kWidth,
                 importance.entries.at("blk.0.ffn_up_exps.weight").data() + e * kWidth},
                expected.data());
    EXPECT_EQ(
        std::memcmp(experts->data.data() + e * expected.size(), expected.data(), expected.size()),
        0)
        << e;
  }
  EXPECT_EQ(made.get_string("quantize.imatrix.file"), "matrix.gguf");
  EXPECT_EQ(made.get_string("quantize.imatrix.dataset"), "a text");
  EXPECT_EQ(made.get_uint("quantize.imatrix.entries_count"), 2u);
  EXPECT_EQ(made.get_uint("quantize.imatrix.chunks_count"), 5u);
}

TEST(QuantizeTest, RefusesAnImportanceOfAnotherWidth) {
  const Bytes bytes = Source().file();
  const gguf::File file = gguf::File::parse(bytes, "source");
  Importance importance = sample_importance();
  importance.entries["token_embd.weight"] = {1.0f};  // ignored: embeddings are not multiplied
  EXPECT_EQ(refusal(file, options_for("Q4_K_M", &importance)), "none");
  importance.entries["blk.0.attn_k.weight"].pop_back();
  EXPECT_EQ(refusal(file, options_for("Q4_K_M", &importance)),
            "the importance matrix has 511 columns for 'blk.0.attn_k.weight', which has 512");
}

// The output and the embedding may be types that need importance, if the user says so.
TEST(QuantizeTest, RefusesATypeWithoutTheImportanceThatItNeeds) {
  const Bytes bytes = Source().file();
  const gguf::File file = gguf::File::parse(bytes, "source");
  Importance importance = sample_importance();
  importance.entries.erase("token_embd.weight");
  const std::string wanted =
      "tensor 'token_embd.weight' can become IQ2_XXS only with an importance matrix that has an "
      "entry for it";
  for (const Importance* given :
       {static_cast<const Importance*>(nullptr), static_cast<const Importance*>(&importance)}) {
    Options options = options_for("Q4_K_M", given);
    options.mixture.embedding_type = quant::Type::kIQ2_XXS;
    EXPECT_EQ(refusal(file, options), wanted);
  }
  importance.entries["token_embd.weight"] = {1.0f};  // of another width, which is ignored
  Options options = options_for("Q4_K_M", &importance);
  options.mixture.embedding_type = quant::Type::kIQ2_XXS;
  EXPECT_EQ(refusal(file, options), wanted);
}

TEST(QuantizeTest, RefusesNumbersThatTheTypeCannotHold) {
  for (const float odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Source source;
    source.matrix[77] = odd;
    const Bytes bytes = source.file();
    EXPECT_NE(refusal(gguf::File::parse(bytes, "source"), options_for("Q4_K_M"))
                  .find("' has numbers that are not finite"),
              std::string::npos);
  }
  Source source;
  source.matrix[77] = 1e9f;
  const Bytes bytes = source.file();
  const gguf::File file = gguf::File::parse(bytes, "source");
  EXPECT_NE(refusal(file, options_for("F16")).find("too large for F16"), std::string::npos);
  EXPECT_EQ(refusal(file, options_for("BF16")), "none");
}

TEST(QuantizeTest, RefusesAnImportanceThatMakesInfinity) {
  Source source;
  for (float& value : source.matrix) value *= 100.0f;
  const Bytes bytes = source.file();
  const gguf::File file = gguf::File::parse(bytes, "source");
  Importance importance = sample_importance();
  EXPECT_EQ(refusal(file, options_for("Q4_0", &importance)), "none");
  std::ranges::fill(importance.entries["blk.0.attn_k.weight"], std::numeric_limits<float>::max());
  const std::string text = refusal(file, options_for("Q4_0", &importance));
  EXPECT_NE(text.find("tensor 'blk.0.attn_k.weight' has numbers that are not finite as "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("with this importance matrix"), std::string::npos) << text;
}

TEST(QuantizeTest, ReportsProgressAndStopsWhenTheListenerThrows) {
  const Bytes bytes = Source().file();
  const gguf::File file = gguf::File::parse(bytes, "source");
  std::vector<size_t> begun;
  uint64_t last = 0;
  const Listener listener = {.tensor = [&](size_t i, const Decision&) { begun.push_back(i); },
                             .progress =
                                 [&](uint64_t n_done, uint64_t n_total) {
                                   EXPECT_GT(n_done, last);
                                   EXPECT_LE(n_done, n_total);
                                   last = n_done;
                                 }};
  quantised(file, options_for("Q8_0"), 2, listener);
  EXPECT_EQ(begun, (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_EQ(last, plan(file, options_for("Q8_0")).source_bytes);
  const Listener stops = {.tensor = {}, .progress = [](uint64_t, uint64_t) { throw 7; }};
  EXPECT_THROW(quantised(file, options_for("Q8_0"), 2, stops), int);
}

}  // namespace
}  // namespace billow::quantize
