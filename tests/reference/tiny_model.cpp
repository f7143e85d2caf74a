#include "reference/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <numbers>
#include <string_view>

#include "gguf/writer.h"
#include "reference/tensor_maker.h"
#include "reference/tiny_vocabulary.h"

namespace billow::reference {
namespace {

constexpr uint32_t kOriginalContext = 64;
constexpr double kRopeBase = 10000;

// Returns the divisors that the converter writes for Llama 3.1: factor 8, low 1, high 4.
std::vector<float> llama3_divisors(uint32_t n_rot) {
  constexpr double kFactor = 8;
  constexpr double kHigh = 4;
  std::vector<float> divisors;
  for (uint32_t i = 0; i < n_rot; i += 2) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(kRopeBase, static_cast<double>(i) / n_rot);
    const double share = (kOriginalContext / wavelength - 1) / (kHigh - 1);
    const double smooth = std::clamp(share, 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - smooth) / kFactor + smooth)));
  }
  return divisors;
}

std::vector<float> rising_divisors(uint32_t n_rot, float step) {
  std::vector<float> divisors;
  for (uint32_t i = 0; i < n_rot / 2; ++i) divisors.push_back(1 + step * static_cast<float>(i));
  return divisors;
}

void set_rope_scaling(gguf::Writer& writer, TensorMaker& tensors, const TinyModelOptions& options) {
  const std::string prefix = options.architecture + ".rope.scaling.";
  const auto set = [&](const char* type, float factor) {
    writer.set_string(prefix + "type", type);
    if (factor != 1) writer.set_float(prefix + "factor", factor);
    writer.set_uint(prefix + "original_context_length", kOriginalContext);
  };
  switch (options.rope_scaling) {
    case TinyRopeScaling::kNone:
      break;
    case TinyRopeScaling::kLinear:
      set("linear", 2);
      break;
    case TinyRopeScaling::kLlama3:
      tensors.vector("rope_freqs.weight", llama3_divisors(options.head_dim));
      break;
    case TinyRopeScaling::kYarn:
      set("yarn", 4);
      break;
    case TinyRopeScaling::kLongRope:
      set("longrope", 1);
      writer.set_float(prefix + "attn_factor", 1.125f);
      tensors.vector("rope_factors_long.weight", rising_divisors(options.head_dim, 0.25f));
      tensors.vector("rope_factors_short.weight", rising_divisors(options.head_dim, 0.03f));
      break;
  }
}

uint32_t set_vocabulary(gguf::Writer& writer, const TinyModelOptions& options) {
  if (options.vocabulary == TinyVocabulary::kLlama2) return set_llama_vocabulary(writer);
  if (options.architecture == "gemma3") return set_gemma_vocabulary(writer);
  if (options.architecture == "qwen2") return set_byte_level_vocabulary(writer, "qwen2", 0, 2);
  return set_byte_level_vocabulary(writer, "smollm", 1, 2);
}

void set_hyperparameters(gguf::Writer& writer, const TinyModelOptions& options) {
  const std::string prefix = options.architecture + ".";
  const auto set = [&](const char* name, uint32_t value) { writer.set_uint(prefix + name, value); };
  writer.set_string("general.architecture", options.architecture);
  writer.set_string("general.name", "Tiny " + options.architecture);
  set("context_length", options.n_context);
  if (options.pooling) set("pooling_type", *options.pooling);
  set("embedding_length", options.n_embd);
  set("block_count", options.n_layers);
  set("feed_forward_length", options.n_ff);
  set("attention.head_count", options.n_head);
  set("attention.head_count_kv", options.n_head_kv);
  set("attention.key_length", options.head_dim);
  set("attention.value_length", options.head_dim);
  set("rope.dimension_count", options.head_dim);
  writer.set_float(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
  writer.set_float(prefix + "rope.freq_base", static_cast<float>(kRopeBase));
  if (options.architecture == "gemma3") {
    set("attention.sliding_window", options.window);
    set("attention.sliding_window_pattern", options.window_period);
    writer.set_float(prefix + "rope.freq_base_swa", 1000);
    if (options.attention_softcap != 0) {
      writer.set_float(prefix + "attn_logit_softcapping", options.attention_softcap);
    }
    if (options.final_softcap != 0) {
      writer.set_float(prefix + "final_logit_softcapping", options.final_softcap);
    }
  }
}

void add_layer(TensorMaker& tensors, const TinyModelOptions& o, uint32_t layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const auto norm = [&](const char* name, uint64_t n) {
    tensors.vector(prefix + name + ".weight", n, 1, 0.2f);
  };
  const auto matrix = [&](const char* name, uint64_t n_in, uint64_t n_out, float gain) {
    tensors.matrix(prefix + name + ".weight", o.type, n_in, n_out,
                   gain / std::sqrt(static_cast<float>(n_in)));
  };
  const bool gemma = o.architecture == "gemma3";
  const uint64_t n_query = uint64_t{o.n_head} * o.head_dim;
  const uint64_t n_key = uint64_t{o.n_head_kv} * o.head_dim;
  norm("attn_norm", o.n_embd);
  matrix("attn_q", o.n_embd, n_query, 1.5f);
  matrix("attn_k", o.n_embd, n_key, 1.5f);
  matrix("attn_v", o.n_embd, n_key, 1);
  matrix("attn_output", n_query, o.n_embd, 1.5f);
  if (o.architecture == "qwen2") {
    tensors.vector(prefix + "attn_q.bias", n_query, 0, 0.5f);
    tensors.vector(prefix + "attn_k.bias", n_key, 0, 0.5f);
    tensors.vector(prefix + "attn_v.bias", n_key, 0, 0.5f);
  }
  if (gemma) {
    norm("attn_q_norm", o.head_dim);
    norm("attn_k_norm", o.head_dim);
    norm("post_attention_norm", o.n_embd);
  }
  norm("ffn_norm", o.n_embd);
  matrix("ffn_gate", o.n_embd, o.n_ff, 1.5f);
  matrix("ffn_up", o.n_embd, o.n_ff, 1);
  matrix("ffn_down", o.n_ff, o.n_embd, 1);
  if (gemma) norm("post_ffw_norm", o.n_embd);
}

void fill(gguf::Writer& writer, TensorMaker& tensors, const TinyModelOptions& options) {
  set_hyperparameters(writer, options);
  set_rope_scaling(writer, tensors, options);
  const uint32_t n_vocab = set_vocabulary(writer, options);
  const bool gemma = options.architecture == "gemma3";
  const bool tied = options.tied || gemma;
  // Rows of a tied matrix are short. Otherwise every token would predict itself. Gemma also
  // multiplies the rows by sqrt(n_embd), and its last norm compensates for that.
  const float root = std::sqrt(static_cast<float>(options.n_embd));
  const float deviation = gemma ? 0.32f / root : tied ? 0.2f : 1.0f;
  const float last_norm = gemma ? 8.0f : 1.0f;
  tensors.matrix("token_embd.weight", options.embedding_type.value_or(options.type), options.n_embd,
                 n_vocab, deviation);
  for (uint32_t i = 0; i < options.n_layers; ++i) add_layer(tensors, options, i);
  tensors.vector("output_norm.weight", options.n_embd, last_norm, 0.2f * last_norm);
  if (!tied) {
    tensors.matrix("output.weight", options.output_type.value_or(options.type), options.n_embd,
                   n_vocab, 0.15f);
  }
}

}  // namespace

std::vector<std::byte> make_tiny_model(const TinyModelOptions& options) {
  constexpr size_t kMaxKept = 8;
  struct Kept {
    TinyModelOptions options;
    std::vector<std::byte> bytes;
  };
  static std::mutex mutex;
  static std::deque<Kept> latest;
  const std::lock_guard lock(mutex);
  const auto known = std::ranges::find(latest, options, &Kept::options);
  if (known != latest.end()) return known->bytes;
  gguf::Writer writer;
  TensorMaker tensors(writer, options.seed);
  fill(writer, tensors, options);
  latest.push_front({options, writer.to_bytes()});
  if (latest.size() > kMaxKept) latest.pop_back();
  return latest.front().bytes;
}

void write_tiny_model(const TinyModelOptions& options, const std::string& path) {
  gguf::Writer writer;
  TensorMaker tensors(writer, options.seed);
  fill(writer, tensors, options);
  writer.write(path);
}

std::vector<TinyVariant> tiny_variants() {
  using enum TinyRopeScaling;
  return {
      {"llama", {}},
      {"llama-tied", {.tied = true, .seed = 2}},
      {"llama-spm", {.n_layers = 2, .vocabulary = TinyVocabulary::kLlama2, .seed = 3}},
      {"llama-linear", {.rope_scaling = kLinear, .seed = 4}},
      {"llama-llama3", {.rope_scaling = kLlama3, .seed = 5}},
      {"llama-yarn", {.rope_scaling = kYarn, .seed = 6}},
      {"llama-longrope", {.rope_scaling = kLongRope, .seed = 7}},
      {"llama-wide-heads", {.n_embd = 192, .n_ff = 320, .n_head = 6, .head_dim = 96, .seed = 8}},
      {"qwen2", {.architecture = "qwen2", .seed = 9}},
      {"qwen2-tied", {.architecture = "qwen2", .tied = true, .seed = 10}},
      {"qwen2-yarn", {.architecture = "qwen2", .rope_scaling = kYarn, .seed = 11}},
      {"gemma3", {.architecture = "gemma3", .seed = 12}},
      {"gemma3-linear", {.architecture = "gemma3", .rope_scaling = kLinear, .seed = 13}},
      {"gemma3-softcap", {.architecture = "gemma3", .final_softcap = 3, .seed = 15}},
      {"gemma3-seven-layers",
       {.architecture = "gemma3",
        .n_layers = 7,
        .n_embd = 128,
        .n_ff = 256,
        .window_period = 6,
        .seed = 14}},
  };
}

}  // namespace billow::reference
