#include "llama/facts.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/saturating.h"
#include "engine/pooling.h"

namespace billow::llama {
namespace {

// A number for all layers, or one number per layer.
class PerLayer {
 public:
  PerLayer(const gguf::File& file, const std::string& key, uint64_t otherwise) : all_(otherwise) {
    const gguf::Value* value = file.find(key);
    if (value == nullptr) return;
    list_ = gguf::as_array(*value);
    if (list_ == nullptr) all_ = gguf::as_uint(*value).value_or(otherwise);
  }
  uint64_t of(uint64_t layer) const {
    if (list_ == nullptr) return all_;
    const bool is_there = layer < list_->n && list_->element_type != gguf::ValueType::kString &&
                          list_->element_type != gguf::ValueType::kArray;
    return is_there ? static_cast<uint64_t>(std::max<int64_t>(0, list_->integer(layer))) : all_;
  }

 private:
  const gguf::Array* list_ = nullptr;
  uint64_t all_;
};

// Returns the size of a block of 32 values.
uint64_t block_bytes(kernels::KvType type) {
  switch (type) {
    case kernels::KvType::kF32:
      return 128;
    case kernels::KvType::kQ8_0:
      return 34;
    case kernels::KvType::kQ4_0:
      return 18;
    case kernels::KvType::kInt16:
      break;
  }
  return 64;
}

constexpr uint64_t kMaxLayers = 4096;            // far beyond any model
constexpr uint64_t kProgramBytes = 64ull << 20;  // memory of the program itself

uint64_t kv_bytes_of_position(const gguf::File& file, const std::string& arch, uint64_t n_layers,
                              kernels::KvType type) {
  const auto number = [&](const char* name, uint64_t otherwise) {
    return PerLayer(file, arch + "." + name, otherwise).of(0);
  };
  const uint64_t n_embd = number("embedding_length", 0);
  const PerLayer heads(file, arch + ".attention.head_count", 1);
  const uint64_t head_length = n_embd / std::max<uint64_t>(1, heads.of(0));
  const uint64_t key = number("attention.key_length", head_length);
  const uint64_t value = number("attention.value_length", head_length);
  const PerLayer kv_heads(file, arch + ".attention.head_count_kv", heads.of(0));
  uint64_t values = 0;
  for (uint64_t i = 0; i < n_layers; ++i) {
    values =
        saturating_add(values, saturating_multiply(kv_heads.of(i), saturating_add(key, value)));
  }
  return saturating_multiply(values, block_bytes(type)) / 32;
}

}  // namespace

Facts facts_of(const gguf::File& file, const FactsOptions& options, const Projector* projector) {
  const std::string kind(file.get_string("general.type").value_or("model"));
  if (kind != "model") {
    throw Error(ErrorCode::kInvalidInput,
                file.path() + ": not a language model: general.type is \"" + kind + "\"");
  }
  Facts facts;
  facts.architecture = std::string(file.require_string("general.architecture"));
  const std::string& arch = facts.architecture;
  const auto number = [&](const char* name) { return PerLayer(file, arch + "." + name, 0).of(0); };
  const uint64_t n_layers = std::min(file.require_uint(arch + ".block_count"), kMaxLayers);
  const uint64_t n_embd = file.require_uint(arch + ".embedding_length");
  const uint64_t max_context = file.require_uint(arch + ".context_length");
  if (max_context == 0 || n_layers == 0 || n_embd == 0) {
    throw Error(ErrorCode::kInvalidInput, file.path() + ": a size of the model is 0");
  }
  facts.max_context = static_cast<size_t>(
      options.max_context == 0 ? max_context
                               : std::min<uint64_t>(max_context, options.max_context));
  facts.embedding_length = static_cast<size_t>(n_embd);
  facts.pooling = engine::stated_pooling(file);
  if (!facts.pooling.empty()) {
    facts.max_context = std::min(facts.max_context, kMaxEmbeddingBatch);
    facts.n_batch = facts.max_context;
  }

  const gguf::Array* vocabulary = file.get_string_array("tokenizer.ggml.tokens");
  const uint64_t n_vocab = vocabulary == nullptr ? 0 : vocabulary->n;
  const uint64_t row = saturating_add(saturating_multiply(8, n_embd),
                                      saturating_multiply(3, number("feed_forward_length")));
  const uint64_t passes = saturating_multiply(facts.n_batch * sizeof(float), row);
  const uint64_t outputs = saturating_multiply(options.n_parallel * sizeof(float), n_vocab);
  uint64_t scratch = saturating_add(kProgramBytes, saturating_add(passes, outputs));
  uint64_t weights = saturating_add(file.n_bytes(), options.adapter_bytes);
  if (projector != nullptr) {
    scratch = saturating_add(scratch, projector->scratch_bytes);
    weights = saturating_add(weights, projector->weight_bytes);
  }
  facts.memory = {
      .weight_bytes = weights,
      .scratch = {{facts.max_context, scratch}},
      .kv_groups = {{.block_bytes = saturating_multiply(
                         kCellBlock, kv_bytes_of_position(file, arch, n_layers, options.kv_type))}},
      .block_positions = kCellBlock,
      .n_batch = facts.n_batch};
  return facts;
}

}  // namespace billow::llama
