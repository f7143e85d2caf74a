#include "convert/encoder_tensors.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/error.h"

namespace billow::convert {
namespace {

constexpr std::string_view kTokenTable = "embeddings.word_embeddings.weight";

enum class Size : uint8_t {
  kNone,
  kWidth,
  kFused,
  kFeedForward,
  kVocabulary,
  kPositions,
  kTypes,
  kClasses
};

// "#" is the number of the layer. A rule without rows is a norm: a weight and a bias of the width.
struct Rule {
  std::string_view source;
  std::string_view name;
  Size rows = Size::kNone;
  Size columns = Size::kWidth;
  bool has_bias = true;
  bool is_table = false;
};

constexpr Rule kBertInput[] = {
    {"embeddings.word_embeddings", "token_embd", Size::kVocabulary, Size::kWidth, false},
    {"embeddings.token_type_embeddings", "token_types", Size::kTypes, Size::kWidth, false, true},
    {"embeddings.position_embeddings", "position_embd", Size::kPositions, Size::kWidth, false,
     true},
    {"embeddings.LayerNorm", "token_embd_norm"}};
constexpr Rule kBertLayer[] = {
    {"encoder.layer.#.attention.self.query", "blk.#.attn_q", Size::kWidth},
    {"encoder.layer.#.attention.self.key", "blk.#.attn_k", Size::kWidth},
    {"encoder.layer.#.attention.self.value", "blk.#.attn_v", Size::kWidth},
    {"encoder.layer.#.attention.output.dense", "blk.#.attn_output", Size::kWidth},
    {"encoder.layer.#.attention.output.LayerNorm", "blk.#.attn_output_norm"},
    {"encoder.layer.#.intermediate.dense", "blk.#.ffn_up", Size::kFeedForward},
    {"encoder.layer.#.output.dense", "blk.#.ffn_down", Size::kWidth, Size::kFeedForward},
    {"encoder.layer.#.output.LayerNorm", "blk.#.layer_output_norm"}};
constexpr Rule kNomicInput[] = {
    {"embeddings.word_embeddings", "token_embd", Size::kVocabulary, Size::kWidth, false},
    {"embeddings.token_type_embeddings", "token_types", Size::kTypes, Size::kWidth, false, true},
    {"emb_ln", "token_embd_norm"}};
constexpr Rule kNomicLayer[] = {
    {"encoder.layers.#.attn.Wqkv", "blk.#.attn_qkv", Size::kFused, Size::kWidth, false},
    {"encoder.layers.#.attn.out_proj", "blk.#.attn_output", Size::kWidth, Size::kWidth, false},
    {"encoder.layers.#.norm1", "blk.#.attn_output_norm"},
    {"encoder.layers.#.mlp.fc11", "blk.#.ffn_up", Size::kFeedForward, Size::kWidth, false},
    {"encoder.layers.#.mlp.fc12", "blk.#.ffn_gate", Size::kFeedForward, Size::kWidth, false},
    {"encoder.layers.#.mlp.fc2", "blk.#.ffn_down", Size::kWidth, Size::kFeedForward, false},
    {"encoder.layers.#.norm2", "blk.#.layer_output_norm"}};
constexpr Rule kPooledHead[] = {{"pooler.dense", "cls", Size::kWidth},
                                {"classifier", "cls.output", Size::kClasses}};
constexpr Rule kClassifierHead[] = {{"classifier.dense", "cls", Size::kWidth},
                                    {"classifier.out_proj", "cls.output", Size::kClasses}};

// Of training, or made anew by every program.
bool is_of_no_use(std::string_view name) {
  constexpr std::string_view kBegins[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                          "pooler.dense.",           "cls.predictions.",
                                          "cls.seq_relationship.",   "lm_head."};
  return name.ends_with(".rotary_emb.inv_freq") ||
         std::ranges::any_of(kBegins, [&](auto begin) { return name.starts_with(begin); });
}

std::string_view head_weight(Head head) {
  return head == Head::kPooled ? "classifier.weight" : "classifier.out_proj.weight";
}

class Planner {
 public:
  Planner(const EncoderConfig& config, Weights& weights) : config_(config), weights_(weights) {}

  void add(std::span<const Rule> rules, uint32_t layer = 0) {
    for (const Rule& rule : rules) add(rule, layer);
  }
  std::vector<PlannedTensor> finish() {
    for (const std::string& name : weights_.left()) {
      if (is_of_no_use(name)) continue;
      throw Error(ErrorCode::kInvalidInput, "tensor '" + name + "' is of no known use in a " +
                                                std::string(config_.family->name));
    }
    return std::move(plan_);
  }

 private:
  uint64_t size(Size size) const {
    switch (size) {
      case Size::kWidth:
        return config_.n_embd;
      case Size::kFused:
        return uint64_t{3} * config_.n_embd;
      case Size::kFeedForward:
        return config_.n_feed_forward;
      case Size::kVocabulary:
        return n_vocabulary(weights_);
      case Size::kPositions:
        return config_.n_positions;
      case Size::kTypes:
        return config_.n_token_types;
      case Size::kClasses:
        return n_classes(config_, weights_);
      case Size::kNone:
        break;
    }
    return 0;
  }

  void add(const Rule& rule, uint32_t layer) {
    const std::string source = filled(rule.source, layer);
    const std::string name = filled(rule.name, layer);
    const bool is_matrix = rule.rows != Size::kNone;
    const uint64_t n_rows = is_matrix ? size(rule.rows) : 1;
    if (n_rows == 0) return;  // a table that this model has not
    const uint64_t n_columns = size(rule.columns);
    PlannedTensor tensor;
    tensor.name = name + ".weight";
    tensor.source = is_matrix ? require_tensor(weights_, source + ".weight", {n_rows, n_columns})
                              : require_tensor(weights_, source + ".weight", {n_columns});
    tensor.first_row = rule.rows == Size::kPositions ? config_.n_padded_positions : 0;
    tensor.n_rows = n_rows - tensor.first_row;
    tensor.row_len = n_columns;
    tensor.is_matrix = is_matrix;
    tensor.is_table = rule.is_table;
    plan_.push_back(tensor);
    if (rule.has_bias) add_bias(name, source, is_matrix ? n_rows : n_columns);
  }

  void add_bias(const std::string& name, const std::string& source, uint64_t len) {
    PlannedTensor bias;
    bias.name = name + ".bias";
    bias.source = require_tensor(weights_, source + ".bias", {len});
    bias.n_rows = 1;
    bias.row_len = len;
    plan_.push_back(bias);
  }

  const EncoderConfig& config_;
  Weights& weights_;
  std::vector<PlannedTensor> plan_;
};

}  // namespace

uint32_t n_vocabulary(const Weights& weights) { return n_rows_of(weights, kTokenTable); }

uint32_t n_classes(const EncoderConfig& config, const Weights& weights) {
  return n_rows_of(weights, head_weight(config.family->head));
}

std::vector<PlannedTensor> plan_encoder(const EncoderConfig& config, Weights& weights) {
  Planner planner(config, weights);
  const bool is_nomic = config.family->layout == Layout::kNomic;
  planner.add(is_nomic ? std::span<const Rule>(kNomicInput) : std::span<const Rule>(kBertInput));
  for (uint32_t layer = 0; layer < config.n_layers; ++layer) {
    planner.add(is_nomic ? std::span<const Rule>(kNomicLayer) : std::span<const Rule>(kBertLayer),
                layer);
  }
  if (config.family->head == Head::kPooled) planner.add(kPooledHead);
  if (config.family->head == Head::kClassifier) planner.add(kClassifierHead);
  return planner.finish();
}

}  // namespace billow::convert
