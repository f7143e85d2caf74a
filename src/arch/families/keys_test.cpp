// Checks metadata keys that change the style of a family.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "arch/decoder/read.h"
#include "arch/registry.h"
#include "base/error.h"
#include "gguf/writer.h"

namespace billow::arch {
namespace {

constexpr uint32_t kLayers = 8;
constexpr const char* kRouter = "blk.0.ffn_gate_inp.weight";

// Returns the style of a file with the keys that all families have, and the keys that `set` adds.
// The file has the embedding, and a second tensor with the name `tensor` if this is not empty.
DecoderStyle style_of(const ArchDef& def, const std::function<void(gguf::Writer&)>& set,
                      const std::string& tensor = "") {
  gguf::Writer writer;
  const std::string prefix = std::string(def.name) + ".";
  writer.set_string("general.architecture", def.name);
  writer.set_uint(prefix + "block_count", kLayers);
  writer.set_uint(prefix + "context_length", 512);
  writer.set_uint(prefix + "embedding_length", 64);
  writer.set_uint(prefix + "feed_forward_length", 96);
  writer.set_uint(prefix + "attention.head_count", 4);
  writer.set_float(prefix + "attention.layer_norm_rms_epsilon", 1e-6f);
  set(writer);
  const std::vector<std::byte> embedding(64 * 2 * sizeof(float));
  constexpr uint32_t kF32 = 0;
  writer.add_tensor("token_embd.weight", kF32, std::array<uint64_t, 2>{64, 2}, embedding);
  if (!tensor.empty()) writer.add_tensor(tensor, kF32, std::array<uint64_t, 2>{64, 2}, embedding);
  const std::vector<std::byte> bytes = writer.to_bytes();
  const gguf::File file = gguf::File::parse(bytes, "m.gguf");
  return def.style(Metadata(file));
}

size_t n_rotating(DecoderStyle& style) {
  size_t n = 0;
  for_attention(style, [&](size_t, const AttentionStyle& a) { n += a.rope ? 1 : 0; });
  return n;
}

TEST(FamilyKeys, Gemma3WithoutWindowHasNoLocalLayers) {
  DecoderStyle with =
      style_of(kGemma3, [](gguf::Writer& w) { w.set_uint("gemma3.attention.sliding_window", 16); });
  EXPECT_EQ(attention_of(with, 0).window, 16u);
  EXPECT_EQ(attention_of(with, 0).rope, 1u);
  EXPECT_EQ(attention_of(with, 5).window, 0u);
  EXPECT_EQ(attention_of(with, 5).rope, 0u);
  DecoderStyle missing = style_of(kGemma3, [](gguf::Writer&) {});
  DecoderStyle none =
      style_of(kGemma3, [](gguf::Writer& w) { w.set_uint("gemma3.attention.sliding_window", 0); });
  for (DecoderStyle* without : {&missing, &none}) {
    for_attention(*without, [](size_t i, const AttentionStyle& a) {
      EXPECT_EQ(a.window, 0u) << i;
      EXPECT_EQ(a.rope, 0u) << i;
    });
  }
}

TEST(FamilyKeys, Llama4SeesChunksUnlessTheFileSaysOtherwise) {
  const auto experts = [](gguf::Writer& w, uint32_t n) {
    w.set_uint("llama4.expert_count", n);
    w.set_uint("llama4.expert_used_count", 1);
  };
  DecoderStyle scout = style_of(kLlama4, [&](gguf::Writer& w) { experts(w, 16); }, kRouter);
  EXPECT_EQ(attention_of(scout, 0).chunk, 8192u);
  EXPECT_EQ(attention_of(scout, 0).qk_norm, QkNorm::kAfterRope);
  EXPECT_EQ(attention_of(scout, 3).chunk, 0u);
  EXPECT_GT(attention_of(scout, 3).temperature.growth, 0.0f);
  EXPECT_EQ(n_rotating(scout), kLayers - 2);
  DecoderStyle maverick = style_of(kLlama4, [&](gguf::Writer& w) { experts(w, 128); }, kRouter);
  EXPECT_EQ(attention_of(maverick, 0).qk_norm, QkNorm::kNone);
  DecoderStyle whole = style_of(
      kLlama4,
      [&](gguf::Writer& w) {
        experts(w, 16);
        w.set_uint("llama4.attention.sliding_window", 0);
      },
      kRouter);
  EXPECT_EQ(attention_of(whole, 0).chunk, 0u);
  EXPECT_EQ(n_rotating(whole), kLayers);
}

TEST(FamilyKeys, OldFilesOfGemma3nCutGatesInTenLayers) {
  const DecoderStyle old = style_of(kGemma3n, [](gguf::Writer&) {});
  for (const LayerStyle& layer : old.layers) EXPECT_NEAR(layer.dense->cut.value_or(0), 1.645, 1e-3);
  const auto cuts = [](float first) {
    return [=](gguf::Writer& w) {
      std::vector<float> values(kLayers, -INFINITY);
      values[0] = first;
      w.set_floats("gemma3n.activation_sparsity_scale", values);
    };
  };
  const DecoderStyle with_key = style_of(kGemma3n, cuts(0.5f));
  EXPECT_EQ(with_key.layers[0].dense->cut, 0.5f);
  EXPECT_FALSE(with_key.layers[1].dense->cut);
  EXPECT_THROW(style_of(kGemma3n, cuts(NAN)), Error);
}

TEST(FamilyKeys, DeciAllowsLayersWithoutAttentionButNoReplacementMatrices) {
  const auto heads = [](gguf::Writer& w) {
    const std::vector<int32_t> kv_heads = {2, 2, 0, 2, 2, 2, 2, 2};
    w.set_ints("deci.attention.head_count_kv", kv_heads);
  };
  DecoderStyle style = style_of(kDeci, heads);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(style.layers[2].mixer));
  EXPECT_EQ(style.layers[2].norms.attn, "");
  EXPECT_EQ(n_rotating(style), kLayers - 1);
  EXPECT_THROW(style_of(kDeci, heads, "blk.2.attn_output.weight"), Error);
}

TEST(FamilyKeys, RwkvHeadLengthMustDivideTheWidth) {
  const auto heads = [](uint32_t head_len) {
    return [=](gguf::Writer& w) {
      w.set_float("rwkv7.attention.layer_norm_epsilon", 1e-5f);
      w.set_uint("rwkv7.wkv.head_size", head_len);
      for (const char* name : {"decay", "iclr", "value_residual_mix"})
        w.set_uint("rwkv7.attention." + std::string(name) + "_lora_rank", 8);
    };
  };
  const DecoderStyle style = style_of(kRwkv7, heads(32));
  for (const LayerStyle& layer : style.layers) {
    const auto& time_mix = std::get<TimeMixStyle>(layer.mixer);
    EXPECT_EQ(time_mix.head_len, 32u);
    EXPECT_EQ(time_mix.gate_rank, 0u);  // the file has no tensors for gates
    EXPECT_EQ(time_mix.first, &layer == &style.layers.front());
    EXPECT_FALSE(layer.dense);
    EXPECT_EQ(layer.channel_mix->n_ff, 96u);
  }
  EXPECT_THROW(style_of(kRwkv7, heads(48)), Error);  // 48 does not divide the width of 64
  EXPECT_THROW(style_of(kRwkv7, heads(8)), Error);   // 8 is not a multiple of 16
}

// Old files have no multipliers, so the defaults apply.
TEST(FamilyKeys, MiniCpmHasDefaultMultipliers) {
  const DecoderStyle old = style_of(kMiniCpm, [](gguf::Writer&) {});
  EXPECT_EQ(old.embedding_scale, 12.0f);
  EXPECT_NEAR(old.residual_scale, 1.4 / std::sqrt(double{kLayers}), 1e-6);
  EXPECT_EQ(old.logit_scale, 4.0f);  // 256 / 64
  const DecoderStyle with_key =
      style_of(kMiniCpm, [](gguf::Writer& w) { w.set_float("minicpm.logit_scale", 8.0f); });
  EXPECT_EQ(with_key.logit_scale, 0.125f);
}

TEST(FamilyKeys, GraniteFileCanDisableRotation) {
  const char* const key = "granite.rope.scaling.finetuned";
  DecoderStyle silent = style_of(kGranite, [](gguf::Writer&) {});
  DecoderStyle with = style_of(kGranite, [=](gguf::Writer& w) { w.set_bool(key, true); });
  DecoderStyle without = style_of(kGranite, [=](gguf::Writer& w) { w.set_bool(key, false); });
  EXPECT_EQ(n_rotating(silent), kLayers);
  EXPECT_EQ(n_rotating(with), kLayers);
  EXPECT_EQ(n_rotating(without), 0u);
}

}  // namespace
}  // namespace billow::arch
