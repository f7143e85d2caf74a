#include "vision/embedded_projector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_folder.h"
#include "gguf/writer.h"
#include "vision/embedded_family.h"
#include "vision/family.h"
#include "vision/projector_file.h"

namespace billow::vision {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kF16 = 1;
constexpr uint32_t kQ8 = 8;

// A model's file with some tensors of its encoder. Byte i of a tensor is i modulo 256.
class Model {
 public:
  explicit Model(const std::string& architecture) : prefix_(architecture + ".vision.") {
    writer.set_string("general.architecture", architecture);
    for (const auto& [key, number] :
         {std::pair{"block_count", 4u}, std::pair{"patch_size", 2u},
          std::pair{"embedding_length", 8u}, std::pair{"attention.head_count", 2u},
          std::pair{"image_size", 8u}})
      writer.set_uint(prefix_ + key, number);
    add("token_embd.weight", kF32, {8, 4});
  }
  void add(const std::string& name, uint32_t type, std::vector<uint64_t> shape) {
    uint64_t n = type == kF32 ? 4 : type == kF16 ? 2 : 1;
    for (const uint64_t size : shape) n *= size;
    if (type == kQ8) n = n / 32 * 34;
    std::vector<std::byte>& bytes = data_.emplace_back(n);
    for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i);
    writer.add_tensor(name, type, shape, bytes);
  }
  std::string key(const std::string& name) const { return prefix_ + name; }
  void set_layers(const std::string& name, std::initializer_list<int32_t> layers) {
    writer.set_ints(key(name), std::vector<int32_t>(layers));
  }
  // Returns the message of the error; empty if there is none.
  std::string refusal(ErrorCode code = ErrorCode::kInvalidInput) const {
    const std::vector<std::byte> bytes = writer.to_bytes();
    try {
      const gguf::File file = gguf::File::parse(bytes, "m.gguf");
      (void)embedded_projector(file);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_TRUE(std::string(error.what()).starts_with("m.gguf: ")) << error.what();
      return error.what();
    }
    return "";
  }

  gguf::Writer writer;

 private:
  std::string prefix_;
  std::vector<std::vector<std::byte>> data_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Opened {
 public:
  explicit Opened(const Model& model) {
    const std::string path = folder_.file("embedded.gguf");
    model.writer.write(path);
    file.emplace(ProjectorFile::open(path));
  }
  std::optional<ProjectorFile> file;

 private:
  TestFolder folder_;
};

TEST(EmbeddedProjector, EachRowNamesAFamilyOfProjectors) {
  for (const EmbeddedFamily& row : embedded_families())
    EXPECT_NE(std::ranges::find(families(), row.projector, &Family::projector), families().end())
        << row.architecture;
}

TEST(EmbeddedProjector, IsOnlyInModelsWithTensorsOfAnEncoder) {
  Model text("gemma3");
  EXPECT_TRUE(has(text.refusal(ErrorCode::kUnsupported), "no projector"));
  Model unknown("no-such-architecture");
  unknown.add("v.patch_embedding.weight", kF32, {2, 2, 3, 8});
  EXPECT_TRUE(has(unknown.refusal(ErrorCode::kUnsupported), "no-such-architecture"));
  EXPECT_THROW(Opened{unknown}, Error);
}

TEST(EmbeddedProjector, KeepsDataInTheModelsFile) {
  Model model("gemma3");
  model.add("v.patch_embedding.weight", kF16, {2, 2, 3, 8});
  model.add("v.blk.3.mlp.fc1.weight", kF32, {8, 16});
  model.add("mm.mm_soft_emb_norm.weight", kF32, {8});
  const Opened opened(model);
  const ProjectorFile& file = *opened.file;
  ASSERT_TRUE(file.is_embedded());
  EXPECT_EQ(file.file().get_string("clip.projector_type"), "gemma3");
  EXPECT_EQ(file.file().get_uint("clip.vision.image_size"), 8u);
  EXPECT_EQ(file.file().tensors().size(), 3u);
  for (const auto& [name, source] :
       {std::pair{"v.patch_embd.weight", "v.patch_embedding.weight"},
        std::pair{"v.blk.3.ffn_up.weight", "v.blk.3.mlp.fc1.weight"},
        std::pair{"mm.soft_emb_norm.weight", "mm.mm_soft_emb_norm.weight"}}) {
    const gguf::TensorInfo* tensor = file.file().find_tensor(name);
    const gguf::TensorInfo* original = file.origin().find_tensor(source);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->shape, original->shape);
    EXPECT_TRUE(std::ranges::equal(tensor->data, original->data)) << name;
    file.release(tensor->data);
    EXPECT_TRUE(std::ranges::equal(tensor->data, original->data)) << name;
  }
  EXPECT_LT(file.n_own_bytes(), 65536u);
  EXPECT_EQ(rule_at(file.origin().path()).image_size, 8u);
}

TEST(EmbeddedProjector, SplitsTheFramesOfAPatchEmbedding) {
  Model model("qwen3vl");
  model.add("v.patch_embed.weight", kF16, {2, 2, 2, 24});
  const Opened opened(model);
  const gguf::File& file = opened.file->file();
  for (size_t frame : {0u, 1u}) {
    const gguf::TensorInfo* tensor =
        file.find_tensor(frame == 0 ? "v.patch_embd.weight" : "v.patch_embd.weight.1");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->shape, (std::array<uint64_t, 4>{2, 2, 3, 8}));
    // A plane of a frame has 8 bytes.
    EXPECT_EQ(tensor->data[0], static_cast<std::byte>(8 * frame));
    EXPECT_EQ(tensor->data[15], static_cast<std::byte>(16 + 8 * frame + 7));
  }
}

TEST(EmbeddedProjector, InterleavesTheHalvesOfHeads) {
  Model model("mistral3");
  model.add("v.blk.0.attn_q.weight", kQ8, {32, 8});  // 2 heads of 4 rows
  model.add("v.blk.0.attn_v.weight", kQ8, {32, 8});
  const Opened opened(model);
  const gguf::File& file = opened.file->file();
  const auto row_of = [](const gguf::TensorInfo* tensor, size_t row) {
    return tensor->data[row * 34];
  };
  const gguf::TensorInfo* q = file.find_tensor("v.blk.0.attn_q.weight");
  const gguf::TensorInfo* v = file.find_tensor("v.blk.0.attn_v.weight");
  const std::array<size_t, 8> rows = {0, 2, 1, 3, 4, 6, 5, 7};
  for (size_t row = 0; row < rows.size(); ++row) {
    EXPECT_EQ(row_of(q, row), static_cast<std::byte>(rows[row] * 34));
    EXPECT_EQ(row_of(v, row), static_cast<std::byte>(row * 34));
  }
}

TEST(EmbeddedProjector, RefusesInvalidTensorsAndKeys) {
  Model deep("qwen3vl");
  deep.set_layers("deepstack_visual_indexes", {1});
  deep.add("v.deepstack.1.norm.weight", kF32, {8});
  EXPECT_TRUE(has(deep.refusal(), "v.deepstack.1.norm.weight"));
  Model no_layer("qwen3vl");
  no_layer.set_layers("deepstack_visual_indexes", {4});
  no_layer.add("v.post_ln.weight", kF32, {8});
  EXPECT_TRUE(has(no_layer.refusal(), "qwen3vl.vision.deepstack_visual_indexes"));
  Model frames("qwen3vl");
  frames.add("v.patch_embd.weight", kF32, {2, 2, 3, 8});
  EXPECT_TRUE(has(frames.refusal(ErrorCode::kUnsupported), "v.patch_embd.weight"));
  Model heads("mistral3");
  heads.add("v.blk.0.attn_k.weight", kF32, {8, 6});
  EXPECT_TRUE(has(heads.refusal(), "v.blk.0.attn_k.weight"));
  Model ratio("llama4");
  ratio.add("v.class_embedding", kF32, {8});
  ratio.writer.set_float(ratio.key("pixel_shuffle_ratio"), 0.7f);
  EXPECT_TRUE(has(ratio.refusal(), "pixel_shuffle_ratio"));
  Model limits("gemma4");
  limits.add("v.clamp_data", kF32, {8});
  EXPECT_TRUE(has(limits.refusal(), "v.clamp_data"));
  Model windows("qwen25vl");
  windows.set_layers("fullatt_block_indexes", {0, 3});
  windows.add("v.merger.ln_q.weight", kF32, {8});
  EXPECT_TRUE(has(windows.refusal(ErrorCode::kUnsupported), "fullatt_block_indexes"));
}

}  // namespace
}  // namespace billow::vision
