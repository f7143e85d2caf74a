#include "llama/projector.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gguf/writer.h"
#include "llama/facts.h"

namespace billow::llama {
namespace {

using context::PictureRule;
using Kind = PictureRule::Kind;
using Numbers = std::vector<std::pair<std::string, uint32_t>>;

gguf::File projector_file(const std::string& type, const Numbers& numbers) {
  static std::vector<std::vector<std::byte>> kept;  // files are views
  gguf::Writer writer;
  writer.set_string("general.architecture", "clip");
  writer.set_string("general.type", "mmproj");
  writer.set_bool("clip.has_vision_encoder", type != "ultravox");
  writer.set_bool("clip.has_audio_encoder", type == "ultravox");
  writer.set_string("clip.projector_type", type);
  for (const auto& [name, value] : numbers) writer.set_uint("clip.vision." + name, value);
  kept.push_back(writer.to_bytes());
  return gguf::File::parse(kept.back(), "mmproj.gguf");
}

PictureRule rule(const std::string& type, const Numbers& numbers) {
  return projector_of(projector_file(type, numbers)).pictures.value();
}

TEST(Projector, CountsRowsOfPictures) {
  const PictureRule gemma = rule("gemma3", {{"image_size", 896}, {"patch_size", 14}});
  EXPECT_EQ(gemma, (PictureRule{.kind = Kind::kSquare, .cell = 56, .edge = 896}));
  const PictureRule qwen = rule("qwen2.5vl_merger", {{"image_size", 560}, {"patch_size", 14}});
  EXPECT_EQ(qwen.kind, Kind::kScaled);
  EXPECT_EQ(qwen.cell, 28u);
  EXPECT_EQ(qwen.max_rows, 4096u);
  const PictureRule smol =
      rule("idefics3", {{"image_size", 512}, {"patch_size", 16}, {"preproc_image_size", 2048}});
  EXPECT_EQ(smol.kind, Kind::kTiled);
  EXPECT_EQ(smol.max_tiles, 16u);
  const PictureRule unknown = rule("something", {});
  EXPECT_EQ(unknown.kind, Kind::kScaled);
  EXPECT_EQ(unknown.max_rows, 4096u);
  EXPECT_EQ(rule("something", {{"image_size", 0}, {"patch_size", 0}}).edge, 1u);
  EXPECT_FALSE(projector_of(projector_file("ultravox", {})).pictures);
}

TEST(Projector, CountsInMemoryOfModel) {
  const Projector projector = projector_of(projector_file("gemma3", {{"image_size", 896}}));
  EXPECT_GT(projector.weight_bytes, 0u);
  EXPECT_GT(projector.scratch_bytes, 0u);
  gguf::Writer writer;
  writer.set_string("general.architecture", "unheard");
  for (const char* name : {"block_count", "embedding_length", "context_length"})
    writer.set_uint(std::string("unheard.") + name, 64);
  const std::vector<std::byte> bytes = writer.to_bytes();
  const gguf::File file = gguf::File::parse(bytes, "model.gguf");
  const context::MemoryNeed without = facts_of(file, {}).memory;
  const context::MemoryNeed with = facts_of(file, {}, &projector).memory;
  EXPECT_EQ(with.weight_bytes, without.weight_bytes + projector.weight_bytes);
  EXPECT_EQ(with.scratch[0].bytes, without.scratch[0].bytes + projector.scratch_bytes);
}

TEST(Projector, RefusesOtherFiles) {
  gguf::Writer writer;
  writer.set_string("general.architecture", "llama");
  const std::vector<std::byte> bytes = writer.to_bytes();
  try {
    projector_of(gguf::File::parse(bytes, "model.gguf"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "model.gguf: not a projector: its architecture is \"llama\"");
  }
}

}  // namespace
}  // namespace billow::llama
