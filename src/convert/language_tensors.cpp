#include "convert/language_tensors.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace billow::convert {
namespace {

constexpr const char* kTokenTable = "model.embed_tokens.weight";
constexpr std::string_view kOutputWeight = "lm_head.weight";

enum class Size : uint8_t { kWidth, kQueries, kKeys, kFeedForward, kVocabulary };

// Which models have the tensor.
enum class Has : uint8_t { kAlways, kHeadNorms, kUntiedOutput };

// "#" is the number of the layer.
struct MatrixRule {
  std::string_view source;
  std::string_view name;
  Size rows;
  Size columns;
  bool is_qkv = false;     // has a bias where the family has those
  bool is_paired = false;  // rows in pairs where the family has those
  Has has = Has::kAlways;
};
struct NormRule {
  std::string_view source;
  std::string_view name;
  bool is_of_head = false;
  Has has = Has::kAlways;
};

constexpr MatrixRule kTokens = {"model.embed_tokens", "token_embd", Size::kVocabulary,
                                Size::kWidth};
constexpr MatrixRule kOutput = {"lm_head", "output", Size::kVocabulary, Size::kWidth,
                                false,     false,    Has::kUntiedOutput};
constexpr NormRule kOutputNorm = {"model.norm", "output_norm"};
constexpr NormRule kLayerNorms[] = {
    {"model.layers.#.input_layernorm", "blk.#.attn_norm"},
    {"model.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm", true, Has::kHeadNorms},
    {"model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm", true, Has::kHeadNorms}};
constexpr MatrixRule kLayerMatrices[] = {
    {"model.layers.#.self_attn.q_proj", "blk.#.attn_q", Size::kQueries, Size::kWidth, true, true},
    {"model.layers.#.self_attn.k_proj", "blk.#.attn_k", Size::kKeys, Size::kWidth, true, true},
    {"model.layers.#.self_attn.v_proj", "blk.#.attn_v", Size::kKeys, Size::kWidth, true},
    {"model.layers.#.self_attn.o_proj", "blk.#.attn_output", Size::kWidth, Size::kQueries},
    {"model.layers.#.mlp.gate_proj", "blk.#.ffn_gate", Size::kFeedForward, Size::kWidth},
    {"model.layers.#.mlp.up_proj", "blk.#.ffn_up", Size::kFeedForward, Size::kWidth},
    {"model.layers.#.mlp.down_proj", "blk.#.ffn_down", Size::kWidth, Size::kFeedForward}};

// Made by every program again, or of a table that is there already.
bool is_of_no_use(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name == kOutputWeight;
}

class Planner {
 public:
  Planner(const LanguageConfig& config, Weights& weights)
      : config_(config),
        weights_(weights),
        // Files of models whose output is the table of tokens may have it twice, or once.
        ties_output_(config.ties_output || weights.find(kOutputWeight) == nullptr) {}

  std::vector<PlannedTensor> plan() {
    if (!config_.rope_divisors.empty()) add_divisors();
    add(kTokens, 0);
    for (uint32_t layer = 0; layer < config_.n_layers; ++layer) {
      for (const NormRule& rule : kLayerNorms) add(rule, layer);
      for (const MatrixRule& rule : kLayerMatrices) add(rule, layer);
    }
    add(kOutputNorm, 0);
    add(kOutput, 0);
    for (const std::string& name : weights_.left()) {
      if (is_of_no_use(name)) continue;
      throw Error(ErrorCode::kInvalidInput, fmt::format("tensor '{}' is of no known use in a {}",
                                                        name, config_.family->name));
    }
    return std::move(plan_);
  }

 private:
  uint64_t size(Size size) const {
    switch (size) {
      case Size::kQueries:
        return uint64_t{config_.n_heads} * config_.head_len;
      case Size::kKeys:
        return uint64_t{config_.n_kv_heads} * config_.head_len;
      case Size::kFeedForward:
        return config_.n_feed_forward;
      case Size::kVocabulary:
        return n_language_tokens(weights_);
      case Size::kWidth:
        break;
    }
    return config_.n_embd;
  }

  bool has(Has what) const {
    if (what == Has::kHeadNorms) return config_.family->norms_heads;
    return what == Has::kAlways || !ties_output_;
  }

  void add(const MatrixRule& rule, uint32_t layer) {
    if (!has(rule.has)) return;
    const std::string source = filled(rule.source, layer);
    const std::string name = filled(rule.name, layer);
    const uint64_t n_rows = size(rule.rows);
    const uint64_t paired = rule.is_paired && config_.family->pairs_heads ? config_.head_len : 0;
    PlannedTensor matrix;
    matrix.name = name + ".weight";
    matrix.n_rows = n_rows;
    matrix.row_len = size(rule.columns);
    matrix.source = require_tensor(weights_, source + ".weight", {n_rows, matrix.row_len});
    matrix.is_matrix = true;
    matrix.paired_rows = paired;
    plan_.push_back(std::move(matrix));
    if (!rule.is_qkv || !config_.family->has_qkv_bias) return;
    PlannedTensor bias;
    bias.name = name + ".bias";
    bias.source = require_tensor(weights_, source + ".bias", {n_rows});
    bias.n_rows = n_rows;
    bias.row_len = 1;
    bias.paired_rows = paired;
    plan_.push_back(std::move(bias));
  }

  void add(const NormRule& rule, uint32_t layer) {
    if (!has(rule.has)) return;
    PlannedTensor norm;
    norm.name = filled(rule.name, layer) + ".weight";
    norm.n_rows = 1;
    norm.row_len = rule.is_of_head ? config_.head_len : config_.n_embd;
    norm.source = require_tensor(weights_, filled(rule.source, layer) + ".weight", {norm.row_len});
    plan_.push_back(std::move(norm));
  }

  void add_divisors() {
    PlannedTensor divisors;
    divisors.name = "rope_freqs.weight";
    divisors.values = config_.rope_divisors;
    divisors.n_rows = 1;
    divisors.row_len = divisors.values.size();
    plan_.push_back(std::move(divisors));
  }

  const LanguageConfig& config_;
  Weights& weights_;
  const bool ties_output_;
  std::vector<PlannedTensor> plan_;
};

}  // namespace

uint32_t n_language_tokens(const Weights& weights) { return n_rows_of(weights, kTokenTable); }

std::vector<PlannedTensor> plan_language_model(const LanguageConfig& config, Weights& weights) {
  return Planner(config, weights).plan();
}

}  // namespace billow::convert
