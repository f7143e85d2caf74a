// Generated models with a predicting head, of the architecture qwen35.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "reference/tiny_vocabulary.h"

namespace billow::engine {

// What the head's first product (eh_proj) takes.
enum class Joined : uint8_t { kBoth, kToken, kState };

struct TinyHeadOptions {
  uint32_t n_layers = 2;   // without the head
  bool has_states = true;  // every second layer has a recurrent state
  bool has_head = true;
  Joined joined = Joined::kBoth;
  // Layers add nothing to the states. Then the model's next token depends on the last token only,
  // and the head guesses the same token.
  bool is_trivial = false;
  // Writes the head's block as the only layer, and the normed embedding of each token.
  bool is_head_alone = false;
};

inline constexpr uint32_t kTinyHeadWidth = 64;
inline constexpr int32_t kTinyHeadWords = 300;

// Makes the file. The same tensors have the same values, whatever the options are.
class TinyHeadFile {
 public:
  explicit TinyHeadFile(const TinyHeadOptions& options) : options_(options) {
    keys();
    reference::set_byte_level_vocabulary(writer_, "qwen2", 0, 2);
    std::vector<float> rows = drawn("token_embd.weight", kWidth * kWords, 0.0f, 1.0f);
    if (options.is_head_alone) norm_rows(rows);
    add("token_embd.weight", {kWidth, kWords}, rows);
    const uint32_t n_layers = options.is_head_alone ? 0 : options.n_layers;
    for (uint32_t i = 0; i < n_layers; ++i)
      layer(i, options.has_states && i % 2 == 0 ? "state" : "attention", i);
    add("output_norm.weight", {kWidth}, drawn("output_norm.weight", kWidth, 1.0f, 0.1f));
    add("output.weight", {kWidth, kWords}, drawn("output.weight", kWidth * kWords, 0.0f, 0.4f));
    if (options.has_head) head(options.is_head_alone ? 0 : options.n_layers);
  }
  std::vector<std::byte> bytes() const { return writer_.to_bytes(); }

  // Returns the embedding of a token, before any norm.
  std::vector<float> embedding(int32_t token) const {
    const std::vector<float> rows = drawn("token_embd.weight", kWidth * kWords, 0.0f, 1.0f);
    const auto at = rows.begin() + static_cast<long>(static_cast<size_t>(token) * kWidth);
    return {at, at + kWidth};
  }

 private:
  static constexpr size_t kWidth = kTinyHeadWidth;
  static constexpr size_t kWords = kTinyHeadWords;
  static constexpr size_t kHeads = 4;
  static constexpr size_t kKvHeads = 2;
  static constexpr size_t kHeadLen = 32;
  static constexpr size_t kFf = 96;

  void keys() {
    const auto set = [&](const char* name, uint32_t value) {
      writer_.set_uint(std::string("qwen35.") + name, value);
    };
    writer_.set_string("general.architecture", "qwen35");
    set("context_length", 4096);
    set("embedding_length", kWidth);
    const uint32_t n_trunk = options_.is_head_alone ? 1 : options_.n_layers;
    const bool predicts = options_.has_head && !options_.is_head_alone;
    set("block_count", n_trunk + (predicts ? 1 : 0));
    if (predicts) set("nextn_predict_layers", 1);
    set("full_attention_interval", options_.has_states && !options_.is_head_alone ? 2 : 1);
    set("feed_forward_length", kFf);
    set("attention.head_count", kHeads);
    set("attention.head_count_kv", kKvHeads);
    set("attention.key_length", kHeadLen);
    set("attention.value_length", kHeadLen);
    set("rope.dimension_count", kHeadLen / 2);
    const std::vector<int32_t> sections = {4, 2, 2, 0};
    writer_.set_ints("qwen35.rope.dimension_sections", sections);
    writer_.set_float("qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
    writer_.set_float("qwen35.rope.freq_base", 10000.0f);
    set("ssm.group_count", 2);
    set("ssm.time_step_rank", 4);
    set("ssm.state_size", 16);
    set("ssm.inner_size", 64);
    set("ssm.conv_kernel", 4);
  }

  // Returns values that depend only on the name.
  static std::vector<float> drawn(const std::string& name, size_t n, float mean, float deviation) {
    uint32_t seed = 17;
    for (const char c : name) seed = seed * 31 + static_cast<unsigned char>(c);
    std::mt19937 random(seed);
    std::vector<float> values(n);
    for (float& value : values) {
      float sum = -2.0f;
      for (int i = 0; i < 4; ++i) sum += static_cast<float>(random() >> 8) * 0x1p-24f;
      value = mean + deviation * 1.7320508f * sum;
    }
    return values;
  }

  static void norm_rows(std::vector<float>& rows) {
    for (size_t at = 0; at < rows.size(); at += kWidth) {
      double squares = 0.0;
      for (size_t i = 0; i < kWidth; ++i) squares += double{rows[at + i]} * double{rows[at + i]};
      const auto factor = static_cast<float>(1.0 / std::sqrt(squares / kWidth + 1e-6));
      for (size_t i = 0; i < kWidth; ++i) rows[at + i] *= factor;
    }
  }

  void add(const std::string& name, const std::vector<uint64_t>& shape,
           const std::vector<float>& values) {
    kept_.push_back(values);
    constexpr uint32_t kF32 = 0;
    writer_.add_tensor(name, kF32, shape, std::as_bytes(std::span(kept_.back())));
  }

  // A layer at block `index`. Its values are those of `name`.
  void layer(uint32_t index, const std::string& kind, uint32_t seed) {
    const std::string prefix = "blk." + std::to_string(index) + ".";
    const auto name = [&](const char* part) { return kind + std::to_string(seed) + part; };
    const auto vector = [&](const char* part, size_t n, float mean, float deviation) {
      add(prefix + part, {n}, drawn(name(part), n, mean, deviation));
    };
    const auto matrix = [&](const char* part, size_t n_in, size_t n_out, float gain = 1.0f) {
      add(prefix + part, {n_in, n_out},
          drawn(name(part), n_in * n_out, 0.0f, gain / std::sqrt(static_cast<float>(n_in))));
    };
    const float to_state = options_.is_trivial ? 0.0f : 1.5f;
    vector("attn_norm.weight", kWidth, 1.0f, 0.1f);
    if (kind == "state") {
      constexpr size_t kInner = 64;
      constexpr size_t kConvolved = 2 * 2 * 16 + kInner;
      matrix("attn_qkv.weight", kWidth, kConvolved);
      matrix("attn_gate.weight", kWidth, kInner);
      matrix("ssm_alpha.weight", kWidth, 4);
      matrix("ssm_beta.weight", kWidth, 4);
      add(prefix + "ssm_conv1d.weight", {4, kConvolved},
          drawn(name("ssm_conv1d.weight"), 4 * kConvolved, 0.0f, 0.5f));
      vector("ssm_dt.bias", 4, 0.0f, 0.5f);
      vector("ssm_a", 4, -1.0f, 0.2f);
      vector("ssm_norm.weight", 16, 1.0f, 0.1f);
      matrix("ssm_out.weight", kInner, kWidth, to_state);
    } else {
      matrix("attn_q.weight", kWidth, 2 * kHeads * kHeadLen, 1.5f);
      matrix("attn_k.weight", kWidth, kKvHeads * kHeadLen, 1.5f);
      matrix("attn_v.weight", kWidth, kKvHeads * kHeadLen);
      vector("attn_q_norm.weight", kHeadLen, 1.0f, 0.1f);
      vector("attn_k_norm.weight", kHeadLen, 1.0f, 0.1f);
      matrix("attn_output.weight", kHeads * kHeadLen, kWidth, to_state);
    }
    vector("post_attention_norm.weight", kWidth, 1.0f, 0.1f);
    matrix("ffn_gate.weight", kWidth, kFf);
    matrix("ffn_up.weight", kWidth, kFf);
    matrix("ffn_down.weight", kFf, kWidth, to_state);
  }

  void head(uint32_t index) {
    constexpr uint32_t kSeedOfHead = 99;
    layer(index, "attention", kSeedOfHead);
    if (options_.is_head_alone) return;
    const std::string prefix = "blk." + std::to_string(index) + ".nextn.";
    const std::vector<float> ones(kWidth, 1.0f);
    const bool both = options_.joined == Joined::kBoth;
    add(prefix + "enorm.weight", {kWidth}, both ? drawn("enorm", kWidth, 1.0f, 0.1f) : ones);
    add(prefix + "hnorm.weight", {kWidth}, both ? drawn("hnorm", kWidth, 1.0f, 0.1f) : ones);
    std::vector<float> joining = drawn("eh_proj", 2 * kWidth * kWidth, 0.0f, 0.1f);
    if (!both) {
      joining.assign(joining.size(), 0.0f);
      const size_t first = options_.joined == Joined::kToken ? 0 : kWidth;
      for (size_t i = 0; i < kWidth; ++i) joining[i * 2 * kWidth + first + i] = 1.0f;
    }
    add(prefix + "eh_proj.weight", {2 * kWidth, kWidth}, joining);
    // The model's output norm, so that the head's block alone is a model with the same outputs.
    add(prefix + "shared_head_norm.weight", {kWidth},
        drawn("output_norm.weight", kWidth, 1.0f, 0.1f));
  }

  TinyHeadOptions options_;
  gguf::Writer writer_;
  std::deque<std::vector<float>> kept_;
};

}  // namespace billow::engine
