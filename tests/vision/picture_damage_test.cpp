// Tests changed files of every family: names of other converters, and damage. A damaged file is
// refused with a one-line error that names the file, or it works, but it never crashes. Without the
// folder ../shared the tests are skipped.
// BILLOW_DAMAGES is the number of random changes per family (40), BILLOW_DAMAGE_SEED the seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/vision/picture_families.h"
#include "base/error.h"
#include "vision/family.h"
#include "vision/tiny_pictures.h"

namespace billow::pictures {
namespace {

const kernels::KernelTable& scalar() { return *kernels::tables().back(); }

// Loads the file and encodes a picture. Returns the error, or an empty string on success.
std::string tried(const std::vector<std::byte>& bytes) {
  try {
    const gguf::File file = gguf::File::parse(bytes, "changed.gguf");
    const Loaded loaded = load(file, scalar(), false);
    vision::Rule rule = loaded.encoder->rule();
    constexpr uint64_t kFewPixels = 1 << 12;
    rule.max_pixels = std::max(rule.min_pixels, std::min(rule.max_pixels, kFewPixels));
    const vision::Pixels pixels = vision::preprocess(rule, drawn({40, 30}));
    if (pixels.patches.size() > (size_t{1} << 22)) return "";  // too slow for a test
    loaded.encoder->check(pixels.plan.tiles);
    run(*loaded.encoder, scalar(), pixels);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string tried(const gguf::File& file, const Change& change) {
  return tried(changed(file, change));
}

bool names(const std::string& message, const std::string& what) {
  return message.find(what) != std::string::npos;
}

unsigned setting(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

class PictureDamage : public testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    if (const std::string missing = missing_data(); !missing.empty()) GTEST_SKIP() << missing;
  }
};

// Some models of the family lack these tensors, or the encoder does not need them.
bool is_optional(const std::string& family, const std::string& tensor) {
  if (tensor == "v.token_embd.img_break") return true;  // a word of the text
  const bool is_qkv_bias = tensor.ends_with("attn_q.bias") || tensor.ends_with("attn_k.bias") ||
                           tensor.ends_with("attn_v.bias");
  if (family != "internvl") return false;
  // Without the bias of the first norm, norms are RMS norms, as in InternViT-6B.
  return is_qkv_bias || tensor == "v.blk.0.ln1.bias";
}

TEST_P(PictureDamage, AMissingTensorIsNamed) {
  const gguf::File file = open(GetParam());
  ASSERT_EQ(tried(file, {}), "");
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::string message = tried(file, {.drop_tensor = tensor.name});
    if (is_optional(GetParam().name, tensor.name)) {
      EXPECT_EQ(message, "") << tensor.name;
    } else {
      // Without the joint matrix, the three matrices are looked for.
      std::string named = tensor.name;
      if (const size_t at = named.find("attn_qkv.weight"); at != std::string::npos)
        named.replace(at, std::string::npos, "attn_q.weight");
      EXPECT_TRUE(names(message, "changed.gguf: tensor " + named + " is missing"))
          << tensor.name << ": " << message;
    }
  }
}

TEST_P(PictureDamage, ATensorOfAWrongShapeIsNamed) {
  const gguf::File file = open(GetParam());
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const bool is_square = tensor.shape[0] == tensor.shape[tensor.n_dims - 1];
    if (tensor.n_dims < 2 || is_square || tensor.n_elements() == tensor.shape[0]) continue;
    const std::string message = tried(file, {.turn_tensor = tensor.name});
    EXPECT_TRUE(names(message, "changed.gguf: tensor ") || names(message, "changed.gguf: norm "))
        << tensor.name << ": " << message;
  }
}

TEST_P(PictureDamage, AnUnsupportedFormatIsNamed) {
  const gguf::File file = open(GetParam());
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.name == "v.token_embd.img_break") continue;
    const std::string message = tried(file, {.retype_tensor = tensor.name});
    EXPECT_TRUE(names(message, "changed.gguf: tensor " + tensor.name + " has the format I16"))
        << tensor.name << ": " << message;
  }
}

TEST_P(PictureDamage, AnyDamageGivesAOneLineErrorOrWorks) {
  const gguf::File file = open(GetParam());
  std::mt19937 random(setting("BILLOW_DAMAGE_SEED", 1) +
                      static_cast<unsigned>(std::hash<std::string>{}(GetParam().name)));
  const auto pick = [&random](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  std::vector<std::string> keys;
  for (const gguf::Entry& entry : file.metadata())
    if (entry.key.starts_with("clip.")) keys.emplace_back(entry.key);
  for (unsigned i = 0; i < setting("BILLOW_DAMAGES", 40); ++i) {
    const std::string key = keys[pick(keys.size())];
    const gguf::Value* value = file.find(key);
    Change change;
    std::string what = "without " + key;
    if (pick(4) == 0) {
      change.drop_key = key;
    } else if (value->type == gguf::ValueType::kF32) {
      constexpr std::array<float, 6> kFloats = {0.0f, -1.0f, 1e30f, 1e-30f, NAN, INFINITY};
      const float number = kFloats[pick(kFloats.size())];
      change.add = [=](gguf::Writer& writer) { writer.set_float(key, number); };
      what = key + " = " + std::to_string(number);
    } else {
      const uint64_t old = gguf::as_uint(*value).value_or(2);
      const std::array<uint64_t, 10> numbers = {0,       1,       3,          old + 1,    old - 1,
                                                old * 2, old / 2, 0x7FFFFFFF, 0xFFFFFFFF, random()};
      const auto number = static_cast<uint32_t>(numbers[pick(numbers.size())]);
      change.add = [=](gguf::Writer& writer) { writer.set_uint(key, number); };
      what = key + " = " + std::to_string(number);
    }
    SCOPED_TRACE(what);
    const std::string message = tried(file, change);
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 1000u) << message;
  }
}

// The features of the changed file are those of the file, bit for bit.
void expect_same(const gguf::File& file, const Change& change) {
  const std::vector<std::byte> bytes = changed(file, change);
  const gguf::File other = gguf::File::parse(bytes, "changed.gguf");
  const vision::Pixels pixels = pixels_of_picture(vision::rule_of(file));
  EXPECT_EQ(run(*load(other, scalar()).encoder, scalar(), pixels),
            run(*load(file, scalar()).encoder, scalar(), pixels));
}

// Older converters exchanged the names.
TEST_P(PictureDamage, UpAndDownMayBeExchanged) {
  const gguf::File file = open(GetParam());
  expect_same(file, {.rename = [](const std::string& name) {
                std::string other = name;
                if (const size_t up = name.find("ffn_up"); up != std::string::npos)
                  other.replace(up, 6, "ffn_down");
                if (const size_t down = name.find("ffn_down"); down != std::string::npos)
                  other.replace(down, 8, "ffn_up");
                return other;
              }});
}

INSTANTIATE_TEST_SUITE_P(TinyModels, PictureDamage, testing::ValuesIn(families()), test_name);

class PictureFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = missing_data(); !missing.empty()) GTEST_SKIP() << missing;
  }
  static gguf::File open_family(const std::string& name) {
    return gguf::File::open(folder() + name + ".mmproj.gguf");
  }
};

TEST(PictureFamilies, ExistForAllProjectorsThatArePreprocessed) {
  for (const vision::Family& family : vision::families()) {
    EXPECT_TRUE(std::ranges::any_of(arch::picture_families(), [&](const arch::PictureFamily& row) {
      return row.projector == family.projector;
    })) << family.projector;
  }
}

TEST_F(PictureFiles, AnUnknownProjectorIsNamed) {
  const std::string message = tried(open_family("smolvlm"), {.add = [](gguf::Writer& writer) {
                                      writer.set_string("clip.projector_type", "cubist");
                                    }});
  EXPECT_TRUE(names(message, "changed.gguf: clip.projector_type \"cubist\" is not supported"))
      << message;
}

// A part that the family does not have would change the result, so it is not ignored.
TEST_F(PictureFiles, AnUnexpectedTensorIsNamed) {
  const gguf::File file = open_family("smolvlm");
  const std::array<float, 4> values{};
  const auto with = [&](const std::string& added) {
    return tried(file, {.add = [&](gguf::Writer& writer) {
                   const std::array<uint64_t, 1> shape = {values.size()};
                   writer.add_tensor(added, 0, shape, std::as_bytes(std::span(values)));
                 }});
  };
  for (const char* added : {"v.blk.0.ls1.weight", "v.blk.2.attn_q_norm.weight", "v.blk.1.sinks",
                            "v.blk.3.ln1.weight", "v.blk.x.ln1.weight", "v.pre_ln.weight",
                            "v.class_embd", "v.deepstack.0.fc1.weight", "v.patch_embd.weight.1"}) {
    const std::string message = with(added);
    EXPECT_TRUE(names(message, std::string("changed.gguf: tensor ") + added + " is not expected"))
        << message;
  }
  EXPECT_EQ(with("a.blk.0.ln1.weight"), "");  // of an encoder of sounds in the same file
}

TEST_F(PictureFiles, FewerLayersThanTheFileHasAreRefused) {
  const std::string message =
      tried(open_family("qwen2_vl"),
            {.add = [](gguf::Writer& writer) { writer.set_uint("clip.vision.block_count", 2); }});
  EXPECT_TRUE(names(message, "changed.gguf: tensor v.blk.2.")) << message;
}

// Converters write 0 or the width of the text model for Qwen2-VL.
TEST_F(PictureFiles, AWrongFeedForwardLengthOfQwen2IsReadFromTheTensor) {
  for (const uint32_t wrong : {0u, 48u})
    expect_same(open_family("qwen2_vl"), {.add = [=](gguf::Writer& writer) {
                  writer.set_uint("clip.vision.feed_forward_length", wrong);
                }});
}

TEST_F(PictureFiles, TheClassRowMayBeInAnotherFormat) {
  const gguf::File file = open_family("internvl");
  const gguf::TensorInfo& row = *file.find_tensor("v.class_embd");
  const std::vector<std::byte> bf16 = encoded(row, quant::Type::kBF16);
  expect_same(file, {.drop_tensor = "v.class_embd", .add = [&](gguf::Writer& writer) {
                       const std::array<uint64_t, 3> shape = {row.shape[0], 1, 1};
                       writer.add_tensor("v.class_embd", static_cast<uint32_t>(quant::Type::kBF16),
                                         shape, bf16);
                     }});
}

TEST_F(PictureFiles, QueryKeyAndValueMayBeOneMatrix) {
  const gguf::File file = open_family("smolvlm");
  std::vector<std::vector<std::byte>> joined;
  Change change;
  change.rename = [](const std::string& name) {
    const size_t at = name.find(".attn_");
    const bool is_part = at != std::string::npos && name.substr(at + 7, 1) == "." &&
                         name.find("attn_out") == std::string::npos;
    return is_part ? "unused." + name : name;
  };
  change.add = [&](gguf::Writer& writer) {
    for (int layer = 0; layer < 3; ++layer) {
      for (const char* kind : {".weight", ".bias"}) {
        const std::string prefix = "v.blk." + std::to_string(layer) + ".attn_";
        std::vector<std::byte> bytes;
        std::vector<uint64_t> shape;
        for (const char* part : {"q", "k", "v"}) {
          const gguf::TensorInfo* tensor = file.find_tensor(prefix + part + kind);
          ASSERT_NE(tensor, nullptr);
          shape.assign(tensor->shape.begin(), tensor->shape.begin() + tensor->n_dims);
          bytes.insert(bytes.end(), tensor->data.begin(), tensor->data.end());
        }
        shape.back() *= 3;
        joined.push_back(std::move(bytes));
        writer.add_tensor(prefix + "qkv" + kind, 0, shape, joined.back());
      }
    }
  };
  joined.reserve(6);
  expect_same(file, change);
}

TEST_F(PictureFiles, SomeConvertersNameASecondNormOfLlama4Otherwise) {
  expect_same(open_family("llama4"), {.rename = [](const std::string& name) {
                std::string other = name;
                if (const size_t at = name.find(".ln2."); at != std::string::npos)
                  other.replace(at, 5, ".attn_post_norm.");
                return other;
              }});
}

TEST_F(PictureFiles, SomeModelsOfLfm2HaveNoNormInTheProjector) {
  const gguf::File file = open_family("lfm2_vl");
  EXPECT_EQ(tried(file, {.rename =
                             [](const std::string& name) {
                               return name.starts_with("mm.input_norm.") ? "unused." + name : name;
                             }}),
            "");
}

// Returns the features of a file with limits around the products of one matrix.
std::vector<float> with_limits(const gguf::File& file, const std::string& matrix,
                               std::array<float, 4> limits) {
  constexpr std::array<const char*, 4> kNames = {".input_min", ".input_max", ".output_min",
                                                 ".output_max"};
  Change change;
  change.add = [&](gguf::Writer& writer) {
    const std::array<uint64_t, 1> shape = {1};
    for (size_t i = 0; i < limits.size(); ++i)
      writer.add_tensor(matrix + kNames[i], 0, shape, std::as_bytes(std::span(&limits[i], 1)));
  };
  const std::vector<std::byte> bytes = changed(file, change);
  const gguf::File other = gguf::File::parse(bytes, "changed.gguf");
  const Loaded loaded = load(other, scalar());
  vision::Rule rule = loaded.encoder->rule();
  rule.max_pixels = 6 * rule.token_size() * rule.token_size();
  return run(*loaded.encoder, scalar(), vision::preprocess(rule, drawn({60, 40})));
}

TEST_F(PictureFiles, LimitsOfGemma4ClampProducts) {
  const gguf::File file = open_family("gemma4-e");
  constexpr std::array<float, 4> kWide = {-1e30f, 1e30f, -1e30f, 1e30f};
  for (const char* part : {"attn_q", "attn_v", "attn_out", "ffn_gate", "ffn_up", "ffn_down"}) {
    const std::string matrix = std::string("v.blk.1.") + part;
    const std::vector<float> wide = with_limits(file, matrix, kWide);
    EXPECT_TRUE(std::ranges::none_of(wide, [](float value) { return std::isnan(value); }));
    EXPECT_EQ(wide, with_limits(file, "unused.matrix", kWide)) << part;
    EXPECT_NE(wide, with_limits(file, matrix, {-0.01f, 0.01f, -1e30f, 1e30f})) << part;
    EXPECT_NE(wide, with_limits(file, matrix, {-1e30f, 1e30f, -0.01f, 0.01f})) << part;
  }
  // An output of exactly 0 makes the attention's result 0, like a matrix that is 0.
  const std::vector<float> zero_out = with_limits(file, "v.blk.1.attn_out", {-1, 1, 0, 0});
  EXPECT_EQ(zero_out, with_limits(file, "v.blk.1.attn_out", {0, 0, -1, 1}));
  EXPECT_THROW(with_limits(file, "v.blk.1.attn_out", {1, -1, 0, 0}), Error);
  EXPECT_THROW(with_limits(file, "v.blk.1.attn_out", {NAN, 1, 0, 0}), Error);
}

TEST_F(PictureFiles, Gemma4StandardisesPooledPatches) {
  const gguf::File file = open_family("gemma4");
  const size_t n = file.find_tensor("v.patch_embd.weight")->shape[3];
  const auto features = [&](float bias, float scale) {
    const std::vector<float> biases(n, bias);
    const std::vector<float> scales(n, scale);
    Change change;
    change.add = [&](gguf::Writer& writer) {
      const std::array<uint64_t, 1> shape = {n};
      writer.add_tensor("v.std_bias", 0, shape, std::as_bytes(std::span(biases)));
      writer.add_tensor("v.std_scale", 0, shape, std::as_bytes(std::span(scales)));
    };
    const std::vector<std::byte> bytes = changed(file, change);
    const gguf::File other = gguf::File::parse(bytes, "changed.gguf");
    return run(*load(other, scalar()).encoder, scalar(),
               pixels_of_picture(rule_of(families()[1], file)));
  };
  const std::vector<float> plain =
      run(*load(file, scalar()).encoder, scalar(), pixels_of_picture(rule_of(families()[1], file)));
  EXPECT_EQ(features(0.0f, 1.0f), plain);
  EXPECT_GT(relative_difference(features(0.5f, 1.0f), plain), 0.01);
  // The following norm removes a common scale.
  EXPECT_LT(relative_difference(features(0.0f, 8.0f), plain), 1e-5);
}

TEST_F(PictureFiles, ATileWithoutPositionsIsRefused) {
  const auto refusal = [](const std::string& name, uint32_t rows, uint32_t cols) -> std::string {
    const gguf::File file = open_family(name);
    const vision::Tile tile{.size = {}, .rows = rows, .cols = cols};
    try {
      load(file, scalar(), false).encoder->check(std::span(&tile, 1));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("gemma4", 64, 64), "");
  EXPECT_EQ(refusal("gemma4", 3, 66),
            "the picture has 66 x 3 patches; the model has positions for 64 x 64 at most");
  EXPECT_EQ(refusal("smolvlm", 8, 8), "");
  EXPECT_EQ(refusal("smolvlm", 8, 4),
            "the picture has 4 x 8 patches; the model has positions for 8 x 8 only");
  EXPECT_EQ(refusal("qwen3_vl", 300, 200), "");
}

// Sizes are known before any memory is taken, even for the largest pass.
TEST_F(PictureFiles, MemoryOfTheLargestPassIsKnown) {
  const gguf::File file = open_family("qwen3_vl");
  const Loaded loaded = load(file, scalar(), false);
  const size_t n = vision::kMaxTilePixels / (16 * 16);
  const arch::PictureLimits limits{.n_patches = n, .n_tile_patches = n, .n_tiles = 1};
  const size_t bytes = loaded.encoder->scratch_bytes(scalar(), limits);
  EXPECT_GT(bytes, n * 4 * 32 * sizeof(float));  // q, k, v and the result of attention
  EXPECT_LT(bytes, size_t{1} << 30);
  EXPECT_EQ(loaded.encoder->state_floats(n, 1), n * (32 + 16));  // values and angles
  EXPECT_EQ(loaded.encoder->info().n_deep, 2u);
  EXPECT_EQ(loaded.encoder->info().n_embd, 64u);
  EXPECT_EQ(loaded.encoder->row_floats(), 192u);
  EXPECT_EQ(loaded.encoder->info().n_stages, 6u);
  EXPECT_EQ(loaded.encoder->info().projector, "qwen3vl_merger");
}

}  // namespace
}  // namespace billow::pictures
