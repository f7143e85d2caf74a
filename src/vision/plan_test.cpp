#include "vision/plan.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/error.h"
#include "vision/family.h"
#include "vision/resize.h"
#include "vision/test_support.h"

namespace billow::vision {
namespace {

using image::Size;
using test::projector;

TEST(Plan, FixedSizeHasTheSameTokensForAllPictures) {
  const Rule rule = test::rule_of(projector("gemma3", 896, 14));
  for (const Size size : {Size{1, 1}, Size{896, 896}, Size{4000, 30}}) {
    const Plan plan = plan_of(rule, size);
    EXPECT_EQ(plan.n_patches, 4096u);
    EXPECT_EQ(plan.n_tokens, 256u);
    const std::vector<Piece> pieces{
        {"\n\n<start_of_image>", 0}, {"", 256}, {"<end_of_image>\n\n", 0}};
    EXPECT_EQ(plan.pieces, pieces);
  }
}

TEST(Plan, TilesFollowOneAnother) {
  gguf::Writer writer = projector("idefics3", 512, 16);
  writer.set_uint("clip.vision.preproc_image_size", 2048);
  writer.set_uint("clip.vision.projector.scale_factor", 4);
  const Plan plan = plan_of(test::rule_of(writer), {1920, 1080});
  ASSERT_EQ(plan.tiles.size(), 13u);  // 4 x 3 and the whole
  EXPECT_EQ(plan.n_tokens, 13u * 64);
  for (size_t i = 0; i < plan.tiles.size(); ++i) EXPECT_EQ(plan.tiles[i].first_patch, i * 32 * 32);
  EXPECT_EQ(plan.pieces.front().text, "<fake_token_around_image><row_1_col_1>");
  EXPECT_EQ(plan.pieces[24].text, "\n\n<fake_token_around_image><global-img>");
}

// The text and the tokens of any picture agree with its tiles, for each family.
TEST(Plan, PiecesHaveTheTokensOfAllTiles) {
  for (const Family& family : families()) {
    const Rule rule = test::rule_of(
        projector(std::string(family.projector), 448, 14 + 2 * (family.projector == "lfm2")));
    for (uint32_t width = 1; width < 3000; width = width * 3 / 2 + 1) {
      for (uint32_t height = width / 150 + 1; height < 3000 && height < width * 150;
           height = height * 5 / 3 + 1) {
        const Plan plan = plan_of(rule, {width, height});
        size_t n_tokens = 0;
        for (const Piece& piece : plan.pieces) {
          EXPECT_NE(piece.text.empty(), piece.n_tokens == 0);
          n_tokens += piece.n_tokens;
        }
        EXPECT_EQ(n_tokens, plan.n_tokens) << family.projector;
        EXPECT_GT(n_tokens, 0u);
        for (const Tile& tile : plan.tiles) {
          EXPECT_EQ(tile.token_rows * rule.token_size(), tile.size.height) << family.projector;
          EXPECT_EQ(tile.token_cols * rule.token_size(), tile.size.width) << family.projector;
        }
      }
    }
  }
}

TEST(Plan, RefusesPicturesBeyondTheLimits) {
  const auto code = [](const gguf::Writer& writer, Size size) {
    try {
      plan_of(test::rule_of(writer), size);
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.code();
    }
    return ErrorCode::kIo;
  };
  const gguf::Writer qwen = projector("qwen2vl_merger", 560, 14);
  EXPECT_EQ(code(qwen, {0, 10}), ErrorCode::kInvalidInput);
  EXPECT_EQ(code(qwen, {10, 0}), ErrorCode::kInvalidInput);
  EXPECT_EQ(code(qwen, {kMaxSide + 1, 10}), ErrorCode::kTooLarge);
  EXPECT_EQ(code(qwen, {201, 1}), ErrorCode::kInvalidInput);
  // More tiles than allowed.
  gguf::Writer small_tiles = projector("idefics3", 14, 7);
  small_tiles.set_uint("clip.vision.preproc_image_size", 4096);
  EXPECT_EQ(code(small_tiles, {4000, 4000}), ErrorCode::kTooLarge);
  // More pixels than allowed, in tiles of a large size.
  gguf::Writer large_tiles = projector("internvl", 4088, 14);
  EXPECT_EQ(code(large_tiles, {4000, 2000}), ErrorCode::kTooLarge);
  // A picture of 1 x 60,000 pixels in 896 columns is too large in between.
  EXPECT_EQ(code(projector("gemma3", 3584, 14), {1, 60000}), ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace billow::vision
