#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/file.h"
#include "reference/golden_logits.h"
#include "reference/reference_model.h"
#include "reference/rope.h"
#include "reference/tiny_model.h"

namespace billow::reference {
namespace {

std::vector<float> logits_of(const TinyModelOptions& options, const std::vector<int32_t>& tokens) {
  const std::vector<std::byte> bytes = make_tiny_model(options);
  const gguf::File file = gguf::File::parse(bytes, "tiny");
  return ReferenceModel(file).logits(tokens);
}

std::vector<int32_t> some_tokens(size_t n) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>((i * 37 + 11) % 290));
  return tokens;
}

std::vector<float> last_row(const std::vector<float>& logits, size_t n_tokens) {
  return {logits.end() - static_cast<std::ptrdiff_t>(logits.size() / n_tokens), logits.end()};
}

TEST(Rope, KeepsTheLengthAndRotatesTheFirstPairByThePosition) {
  const Rope rope{.n_rot = 8, .adjacent = true, .base = 100};
  std::vector<float> head{1, 0, 0, 2, 3, 0, 0, 1, 7};
  rotate(rope, 3, head.data());
  EXPECT_NEAR(head[0], std::cos(3.0), 1e-6);
  EXPECT_NEAR(head[1], std::sin(3.0), 1e-6);
  EXPECT_NEAR(std::hypot(head[2], head[3]), 2, 1e-6);
  EXPECT_EQ(head[8], 7);
}

TEST(Rope, PairsHalvesWhenNotAdjacent) {
  const Rope rope{.n_rot = 4, .base = 100};
  std::vector<float> head{1, 1, 0, 0};
  rotate(rope, 2, head.data());
  EXPECT_NEAR(head[2], std::sin(2.0), 1e-6);
  EXPECT_NEAR(head[3], std::sin(2 * 0.1), 1e-6);
}

TEST(Rope, LinearScalingDividesThePosition) {
  const Rope plain{.n_rot = 64};
  const Rope halved{.n_rot = 64, .factor = 2};
  for (uint64_t pair = 0; pair < 32; ++pair) {
    EXPECT_DOUBLE_EQ(rope_angle(halved, pair, 10), rope_angle(plain, pair, 5));
  }
}

TEST(Rope, YarnKeepsFastPairsAndDividesSlowOnes) {
  const Rope plain{.n_rot = 64};
  const Rope yarn{.n_rot = 64, .factor = 4, .ramp_weight = 1, .n_context_original = 4096};
  EXPECT_DOUBLE_EQ(rope_angle(yarn, 0, 9), rope_angle(plain, 0, 9));
  EXPECT_DOUBLE_EQ(rope_angle(yarn, 31, 9), rope_angle(plain, 31, 9) / 4);
  const double middle = rope_angle(yarn, 16, 9) / rope_angle(plain, 16, 9);
  EXPECT_GT(middle, 0.25);
  EXPECT_LT(middle, 1);
}

TEST(ReferenceModel, LaterTokensDoNotChangeEarlierLogits) {
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    SCOPED_TRACE(architecture);
    const TinyModelOptions options{.architecture = architecture};
    const std::vector<float> long_one = logits_of(options, some_tokens(40));
    const std::vector<float> short_one = logits_of(options, some_tokens(25));
    ASSERT_LT(short_one.size(), long_one.size());
    EXPECT_TRUE(std::equal(short_one.begin(), short_one.end(), long_one.begin()));
  }
}

TEST(ReferenceModel, SkipsTheFirstRows) {
  const std::vector<std::byte> bytes = make_tiny_model();
  const gguf::File file = gguf::File::parse(bytes, "tiny");
  const ReferenceModel model(file);
  const std::vector<int32_t> tokens = some_tokens(20);
  const std::vector<float> all = model.logits(tokens);
  const std::vector<float> last = model.logits(tokens, 19);
  EXPECT_EQ(last, last_row(all, 20));
}

TEST(ReferenceModel, WindowedLayersIgnoreTokensBeforeTheWindow) {
  // With two layers that see 16 tokens each, the last of 40 tokens does not depend on the first
  // nine.
  TinyModelOptions options{.architecture = "gemma3", .n_layers = 2, .window_period = 6};
  std::vector<int32_t> tokens = some_tokens(40);
  const std::vector<float> before = last_row(logits_of(options, tokens), 40);
  tokens[8] += 1;
  EXPECT_EQ(before, last_row(logits_of(options, tokens), 40));
  tokens[9] += 1;
  EXPECT_NE(before, last_row(logits_of(options, tokens), 40));
  options.window_period = 2;  // the second layer sees all tokens
  const std::vector<float> global = last_row(logits_of(options, tokens), 40);
  tokens[8] -= 1;
  EXPECT_NE(global, last_row(logits_of(options, tokens), 40));
}

TEST(ReferenceModel, EveryRopeScalingChangesTheLogits) {
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    const std::vector<float> plain = logits_of({.architecture = architecture}, some_tokens(80));
    for (const auto scaling : {TinyRopeScaling::kLinear, TinyRopeScaling::kYarn}) {
      const TinyModelOptions options{.architecture = architecture, .rope_scaling = scaling};
      EXPECT_NE(plain, logits_of(options, some_tokens(80))) << architecture;
    }
  }
}

TEST(ReferenceModel, LongRopeChoosesFactorsByTheContext) {
  const TinyModelOptions options{.n_context = 64, .rope_scaling = TinyRopeScaling::kLongRope};
  const std::vector<std::byte> bytes = make_tiny_model(options);
  const gguf::File file = gguf::File::parse(bytes, "tiny");
  const std::vector<int32_t> tokens = some_tokens(8);
  const std::vector<float> within = ReferenceModel(file).logits(tokens);
  EXPECT_EQ(within, ReferenceModel(file, 64).logits(tokens));
  EXPECT_NE(within, ReferenceModel(file, 65).logits(tokens));
}

TEST(ReferenceModel, EightBitWeightsChangeTheLogitsLittle) {
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    SCOPED_TRACE(architecture);
    const std::vector<int32_t> tokens = some_tokens(16);
    const std::vector<float> exact = logits_of({.architecture = architecture}, tokens);
    const std::vector<float> rounded =
        logits_of({.architecture = architecture, .type = quant::Type::kQ8_0}, tokens);
    double squares = 0;
    double differences = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      squares += std::pow(exact[i], 2);
      differences += std::pow(exact[i] - rounded[i], 2);
    }
    EXPECT_GT(differences, 0);
    EXPECT_LT(std::sqrt(differences / squares), 0.03);
  }
}

// Compares with llama.cpp's values for the same models; see golden_logits.h.
TEST(ReferenceModel, AgreesWithRecordedLogits) {
  const std::vector<TinyVariant> variants = tiny_variants();
  EXPECT_EQ(golden_logits().size(), variants.size());
  for (const GoldenLogits& golden : golden_logits()) {
    SCOPED_TRACE(golden.variant);
    const auto variant = std::find_if(variants.begin(), variants.end(),
                                      [&](const auto& v) { return v.name == golden.variant; });
    ASSERT_NE(variant, variants.end());
    const std::vector<float> row =
        last_row(logits_of(variant->options, golden_tokens()), golden_tokens().size());
    // llama.cpp looks GELU up in a table of half floats, so Gemma's logits are less exact.
    const double bound = variant->options.architecture == "gemma3" ? 1e-2 : 5e-4;
    for (size_t i = 0; i < golden.values.size(); ++i) {
      EXPECT_NEAR(row[i * kGoldenStride], golden.values[i], bound) << "token " << i * kGoldenStride;
    }
  }
}

TEST(ReferenceModel, RefusesInvalidTokensAndArchitectures) {
  const std::vector<std::byte> bytes = make_tiny_model();
  const gguf::File file = gguf::File::parse(bytes, "tiny");
  const ReferenceModel model(file);
  EXPECT_THROW(model.logits(std::vector<int32_t>{300}), Error);
  EXPECT_THROW(model.logits(std::vector<int32_t>{-1}), Error);
  const std::vector<std::byte> other = make_tiny_model({.architecture = "mamba"});
  const gguf::File unknown = gguf::File::parse(other, "tiny");
  EXPECT_THROW(ReferenceModel{unknown}, Error);
}

}  // namespace
}  // namespace billow::reference
