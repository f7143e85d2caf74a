#include "arch/decoder/read.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace billow::arch {
namespace {

// Returns the error for a model whose second layer is `layer`. Its first layer has both parts.
std::string refusal(const LayerStyle& layer) {
  DecoderStyle style;
  style.layers = {{.mixer = AttentionStyle{}, .dense = FeedForwardStyle{}}, layer};
  try {
    check_layers(style, "m.gguf");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "";
}

TEST(CheckLayers, AcceptsLayersWithOnePartOrBoth) {
  EXPECT_EQ(refusal({.mixer = AttentionStyle{}}), "");
  EXPECT_EQ(refusal({.mixer = LatentAttentionStyle{}, .experts = ExpertsStyle{}}), "");
  EXPECT_EQ(refusal({.dense = FeedForwardStyle{}}), "");
  EXPECT_EQ(refusal({.experts = ExpertsStyle{}}), "");
  EXPECT_EQ(refusal({.mixer = AttentionStyle{}, .dense = FeedForwardStyle{}, .parallel = true}),
            "");
}

TEST(CheckLayers, NamesTheMissingPart) {
  EXPECT_EQ(refusal({}), "m.gguf: layer 1 has neither heads of attention nor a feed-forward part");
  EXPECT_EQ(refusal({.mixer = AttentionStyle{}, .parallel = true}),
            "m.gguf: layer 1 has no feed-forward part");
  EXPECT_EQ(refusal({.dense = FeedForwardStyle{}, .parallel = true}),
            "m.gguf: layer 1 has no heads of attention");
}

TEST(CheckLayers, RequiresTheDensePartOfParallelExperts) {
  const ExpertsStyle parallel = {.adds_dense = true};
  EXPECT_EQ(refusal({.mixer = AttentionStyle{}, .experts = parallel}),
            "m.gguf: layer 1 has experts, but lacks the dense part that runs in parallel");
  EXPECT_EQ(refusal({.mixer = AttentionStyle{}, .dense = FeedForwardStyle{}, .experts = parallel}),
            "");
}

}  // namespace
}  // namespace billow::arch
