#include "convert/encoder_tensors.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/error.h"
#include "convert/decoded_weights.h"

namespace billow::convert {
namespace {

enum class Size : uint8_t {
  kNone,
  kWidth,
  kFused,  // queries, keys and values
  kHeads,
  kKvHeads,
  kFeedForward,
  kGated,  // both halves of a gated feed-forward part
  kVocabulary,
  kPositions,
  kTypes,
  kClasses,
  kExperts
};

enum class Bias : uint8_t { kYes, kNo, kIfThere };

// "#" is the layer number. For a source of several names, "a|b", one of them exists. A rule without
// rows is a norm: a weight and a bias of the model's width.
struct Rule {
  std::string_view source;
  std::string_view name;
  Size rows = Size::kNone;
  Size columns = Size::kWidth;
  Bias bias = Bias::kYes;
  bool is_table = false;
  bool is_optional = false;
};

constexpr Rule kBertInput[] = {
    {"embeddings.word_embeddings", "token_embd", Size::kVocabulary, Size::kWidth, Bias::kNo},
    {"embeddings.token_type_embeddings", "token_types", Size::kTypes, Size::kWidth, Bias::kNo,
     true},
    {"embeddings.position_embeddings", "position_embd", Size::kPositions, Size::kWidth, Bias::kNo,
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
constexpr Rule kDistilLayer[] = {
    {"transformer.layer.#.attention.q_lin", "blk.#.attn_q", Size::kWidth},
    {"transformer.layer.#.attention.k_lin", "blk.#.attn_k", Size::kWidth},
    {"transformer.layer.#.attention.v_lin", "blk.#.attn_v", Size::kWidth},
    {"transformer.layer.#.attention.out_lin", "blk.#.attn_output", Size::kWidth},
    {"transformer.layer.#.sa_layer_norm", "blk.#.attn_output_norm"},
    {"transformer.layer.#.ffn.lin1", "blk.#.ffn_up", Size::kFeedForward},
    {"transformer.layer.#.ffn.lin2", "blk.#.ffn_down", Size::kWidth, Size::kFeedForward},
    {"transformer.layer.#.output_layer_norm", "blk.#.layer_output_norm"}};
constexpr Rule kNomicInput[] = {
    {"embeddings.word_embeddings", "token_embd", Size::kVocabulary, Size::kWidth, Bias::kNo},
    {"embeddings.token_type_embeddings", "token_types", Size::kTypes, Size::kWidth, Bias::kNo,
     true},
    {"emb_ln", "token_embd_norm"}};
constexpr Rule kNomicLayer[] = {
    {"encoder.layers.#.attn.Wqkv", "blk.#.attn_qkv", Size::kFused, Size::kWidth, Bias::kNo},
    {"encoder.layers.#.attn.out_proj", "blk.#.attn_output", Size::kWidth, Size::kWidth, Bias::kNo},
    {"encoder.layers.#.norm1", "blk.#.attn_output_norm"},
    {"encoder.layers.#.mlp.fc11", "blk.#.ffn_up", Size::kFeedForward, Size::kWidth, Bias::kNo},
    {"encoder.layers.#.mlp.fc12", "blk.#.ffn_gate", Size::kFeedForward, Size::kWidth, Bias::kNo},
    {"encoder.layers.#.mlp.fc2", "blk.#.ffn_down", Size::kWidth, Size::kFeedForward, Bias::kNo},
    {"encoder.layers.#.norm2", "blk.#.layer_output_norm"}};
// Layers without experts, and layers with experts.
constexpr Rule kNomicDenseLayer[] = {
    {"encoder.layers.#.attn.Wqkv", "blk.#.attn_qkv", Size::kFused},
    {"encoder.layers.#.attn.out_proj", "blk.#.attn_output", Size::kWidth},
    {"encoder.layers.#.norm1", "blk.#.attn_output_norm"},
    {"encoder.layers.#.mlp.fc1", "blk.#.ffn_up", Size::kFeedForward},
    {"encoder.layers.#.mlp.fc2", "blk.#.ffn_down", Size::kWidth, Size::kFeedForward},
    {"encoder.layers.#.norm2", "blk.#.layer_output_norm"}};
constexpr Rule kNomicExpertLayer[] = {
    {"encoder.layers.#.attn.Wqkv", "blk.#.attn_qkv", Size::kFused},
    {"encoder.layers.#.attn.out_proj", "blk.#.attn_output", Size::kWidth},
    {"encoder.layers.#.norm1", "blk.#.attn_output_norm"},
    {"encoder.layers.#.mlp.router.layer", "blk.#.ffn_gate_inp", Size::kExperts, Size::kWidth,
     Bias::kNo, true},
    {"encoder.layers.#.norm2", "blk.#.layer_output_norm"}};
constexpr Rule kJina2Input[] = {
    {"embeddings.word_embeddings", "token_embd", Size::kVocabulary, Size::kWidth, Bias::kNo},
    {"embeddings.token_type_embeddings", "token_types", Size::kTypes, Size::kWidth, Bias::kNo,
     true},
    {"embeddings.LayerNorm", "token_embd_norm"}};
// Names of the text models and of the code models.
constexpr Rule kJina2Layer[] = {
    {"encoder.layer.#.attention.self.query", "blk.#.attn_q", Size::kWidth},
    {"encoder.layer.#.attention.self.key", "blk.#.attn_k", Size::kWidth},
    {"encoder.layer.#.attention.self.value", "blk.#.attn_v", Size::kWidth},
    {.source = "encoder.layer.#.attention.self.layer_norm_q",
     .name = "blk.#.attn_q_norm",
     .is_optional = true},
    {.source = "encoder.layer.#.attention.self.layer_norm_k",
     .name = "blk.#.attn_k_norm",
     .is_optional = true},
    {"encoder.layer.#.attention.output.dense", "blk.#.attn_output", Size::kWidth},
    {"encoder.layer.#.attention.output.LayerNorm", "blk.#.attn_output_norm"},
    {.source = "encoder.layer.#.layer_norm_1", .name = "blk.#.attn_norm_2", .is_optional = true},
    {"encoder.layer.#.mlp.gated_layers|encoder.layer.#.mlp.up_gated_layer", "blk.#.ffn_up",
     Size::kGated, Size::kWidth, Bias::kIfThere},
    {"encoder.layer.#.mlp.wo|encoder.layer.#.mlp.down_layer", "blk.#.ffn_down", Size::kWidth,
     Size::kFeedForward},
    {"encoder.layer.#.mlp.layernorm|encoder.layer.#.layer_norm_2", "blk.#.layer_output_norm"}};
constexpr Rule kJina3Layer[] = {
    {"encoder.layers.#.mixer.Wqkv", "blk.#.attn_qkv", Size::kFused},
    {"encoder.layers.#.mixer.out_proj", "blk.#.attn_output", Size::kWidth},
    {"encoder.layers.#.norm1", "blk.#.attn_output_norm"},
    {"encoder.layers.#.mlp.fc1", "blk.#.ffn_up", Size::kFeedForward},
    {"encoder.layers.#.mlp.fc2", "blk.#.ffn_down", Size::kWidth, Size::kFeedForward},
    {"encoder.layers.#.norm2", "blk.#.layer_output_norm"}};

// A norm without a bias.
constexpr Rule root_norm(std::string_view source, std::string_view name, bool is_optional = false) {
  return {.source = source, .name = name, .bias = Bias::kNo, .is_optional = is_optional};
}
constexpr Rule matrix(std::string_view source, std::string_view name, Size rows,
                      Size columns = Size::kWidth) {
  return {.source = source, .name = name, .rows = rows, .columns = columns, .bias = Bias::kNo};
}
constexpr Rule kModernInput[] = {
    matrix("embeddings.tok_embeddings", "token_embd", Size::kVocabulary),
    root_norm("embeddings.norm", "token_embd_norm"), root_norm("final_norm", "output_norm")};
constexpr Rule kModernLayer[] = {
    root_norm("layers.#.attn_norm", "blk.#.attn_norm", true),  // the first layer has none
    matrix("layers.#.attn.Wqkv", "blk.#.attn_qkv", Size::kFused),
    matrix("layers.#.attn.Wo", "blk.#.attn_output", Size::kWidth),
    root_norm("layers.#.mlp_norm", "blk.#.ffn_norm"),
    matrix("layers.#.mlp.Wi", "blk.#.ffn_up", Size::kGated),
    matrix("layers.#.mlp.Wo", "blk.#.ffn_down", Size::kWidth, Size::kFeedForward)};
constexpr Rule kEuroInput[] = {matrix("embed_tokens", "token_embd", Size::kVocabulary),
                               root_norm("norm", "output_norm")};
constexpr Rule kEuroLayer[] = {
    root_norm("layers.#.input_layernorm", "blk.#.attn_norm"),
    matrix("layers.#.self_attn.q_proj", "blk.#.attn_q", Size::kHeads),
    matrix("layers.#.self_attn.k_proj", "blk.#.attn_k", Size::kKvHeads),
    matrix("layers.#.self_attn.v_proj", "blk.#.attn_v", Size::kKvHeads),
    matrix("layers.#.self_attn.o_proj", "blk.#.attn_output", Size::kWidth, Size::kHeads),
    root_norm("layers.#.post_attention_layernorm", "blk.#.ffn_norm"),
    matrix("layers.#.mlp.gate_proj", "blk.#.ffn_gate", Size::kFeedForward),
    matrix("layers.#.mlp.up_proj", "blk.#.ffn_up", Size::kFeedForward),
    matrix("layers.#.mlp.down_proj", "blk.#.ffn_down", Size::kWidth, Size::kFeedForward)};
constexpr Rule kNeoInput[] = {matrix("encoder", "token_embd", Size::kVocabulary),
                              root_norm("layer_norm", "enc.output_norm")};
constexpr Rule kNeoLayer[] = {
    root_norm("transformer_encoder.#.attention_norm", "blk.#.attn_norm"),
    matrix("transformer_encoder.#.qkv", "blk.#.attn_qkv", Size::kFused),
    matrix("transformer_encoder.#.wo", "blk.#.attn_output", Size::kWidth),
    root_norm("transformer_encoder.#.ffn_norm", "blk.#.ffn_norm"),
    matrix("transformer_encoder.#.ffn.w12", "blk.#.ffn_up", Size::kGated),
    matrix("transformer_encoder.#.ffn.w3", "blk.#.ffn_down", Size::kWidth, Size::kFeedForward)};

constexpr Rule kPooledHead[] = {{"pooler.dense", "cls", Size::kWidth},
                                {"classifier", "cls.output", Size::kClasses}};
constexpr Rule kClassifierHead[] = {{"classifier.dense", "cls", Size::kWidth},
                                    {"classifier.out_proj", "cls.output", Size::kClasses}};
constexpr Rule kNormedHead[] = {{"head.dense", "cls", Size::kWidth, Size::kWidth, Bias::kIfThere},
                                root_norm("head.norm", "cls.norm"),
                                {"classifier", "cls.output", Size::kClasses}};

struct LayoutRules {
  Layout layout;
  std::span<const Rule> input;  // the first rule is the token table
  std::span<const Rule> layer;
};
constexpr LayoutRules kLayouts[] = {{Layout::kBert, kBertInput, kBertLayer},
                                    {Layout::kDistil, kBertInput, kDistilLayer},
                                    {Layout::kNomic, kNomicInput, kNomicLayer},
                                    {Layout::kNomicExperts, kNomicInput, kNomicDenseLayer},
                                    {Layout::kJina2, kJina2Input, kJina2Layer},
                                    {Layout::kJina3, kNomicInput, kJina3Layer},
                                    {Layout::kModern, kModernInput, kModernLayer},
                                    {Layout::kEuro, kEuroInput, kEuroLayer},
                                    {Layout::kNeo, kNeoInput, kNeoLayer}};

const LayoutRules& rules_of(const EncoderConfig& config) {
  return *std::ranges::find(kLayouts, config.family->layout, &LayoutRules::layout);
}

std::span<const Rule> rules_of(Head head) {
  switch (head) {
    case Head::kPooled:
      return kPooledHead;
    case Head::kClassifier:
      return kClassifierHead;
    case Head::kNormed:
      return kNormedHead;
    case Head::kNone:
      break;
  }
  return {};
}

// Returns whether only training uses the tensor, or whether every program computes it again.
bool is_of_no_use(std::string_view name) {
  constexpr std::string_view kBegins[] = {"embeddings.position_ids",
                                          "embeddings.token_type_ids",
                                          "pooler.dense.",
                                          "cls.predictions.",
                                          "cls.seq_relationship.",
                                          "lm_head.",
                                          "vocab_",
                                          "decoder.",
                                          "head.dense.",
                                          "head.norm."};
  return name.ends_with(".rotary_emb.inv_freq") || is_of_adapter(name) ||
         std::ranges::any_of(kBegins, [&](auto begin) { return name.starts_with(begin); });
}

// Returns the name of a part ("weight") in the source. `sources` is the source name of a rule, or
// several names "a|b". For each name, tries the plain name, the name with the class prefix, and
// PyTorch's parametrizations. Returns the first name that exists, or the plain form of the first
// name.
std::string name_in(const EncoderConfig& config, const Weights& weights, std::string_view sources,
                    std::string_view part, uint32_t layer = 0) {
  std::string first;
  while (!sources.empty()) {
    const size_t end = std::min(sources.find('|'), sources.size());
    const std::string source = filled(sources.substr(0, end), layer);
    sources.remove_prefix(std::min(end + 1, sources.size()));
    const std::string plain = source + "." + std::string(part);
    if (first.empty()) first = plain;
    for (const std::string& name :
         {plain, std::string(config.family->prefix) + plain,
          source + ".parametrizations." + std::string(part) + ".original"}) {
      if (weights.find(name) != nullptr) return name;
    }
  }
  return first;
}

std::string token_table(const EncoderConfig& config, const Weights& weights) {
  return name_in(config, weights, rules_of(config).input.front().source, "weight");
}

class Planner {
 public:
  Planner(const EncoderConfig& config, Weights& weights) : config_(config), weights_(weights) {}

  void add(std::span<const Rule> rules, uint32_t layer = 0) {
    for (const Rule& rule : rules) add(rule, layer);
  }
  // Makes one tensor of each kind of the layer's experts. The widening matrices stay unchanged; the
  // narrowing matrices are transposed. Drops the biases, as the models' own code does.
  void add_experts(uint32_t layer) {
    const std::string mlp = filled("encoder.layers.#.mlp.experts.", layer);
    const uint64_t n_rows = uint64_t{config_.n_experts} * config_.n_feed_forward;
    const SafeTensor* up = require_tensor(weights_, mlp + "mlp.w1", {n_rows, config_.n_embd});
    const SafeTensor* down = require_tensor(weights_, mlp + "mlp.w2", {n_rows, config_.n_embd});
    const DecodedTensor turned = decoded_turned(weights_, *down, config_.n_experts);
    SafeTensor made{.name = mlp + "turned", .dtype = "F32", .shape = turned.shape};
    made.n_bytes = n_rows * config_.n_embd * sizeof(float);
    const std::string name = made.name;
    weights_.put(name, std::move(made), float_reader(turned));
    const std::string block = filled("blk.#.", layer);
    add_stack(block + "ffn_up_exps.weight", up, config_.n_embd, config_.n_feed_forward);
    add_stack(block + "ffn_down_exps.weight", weights_.take(name), config_.n_feed_forward,
              config_.n_embd);
    weights_.take(mlp + "bias");
  }
  std::vector<PlannedTensor> finish() {
    const std::string_view prefix = config_.family->prefix;
    for (const std::string& name : weights_.left()) {
      const bool has_prefix = !prefix.empty() && name.starts_with(prefix);
      if (is_of_no_use(std::string_view(name).substr(has_prefix ? prefix.size() : 0))) continue;
      throw Error(ErrorCode::kInvalidInput, "tensor '" + name + "' has no known use in a " +
                                                std::string(config_.family->name));
    }
    return std::move(plan_);
  }

 private:
  uint64_t size(Size size) const {
    const uint64_t head_len =
        config_.head_len != 0 ? config_.head_len : config_.n_embd / config_.n_heads;
    const uint64_t n_kv_heads = config_.n_kv_heads != 0 ? config_.n_kv_heads : config_.n_heads;
    switch (size) {
      case Size::kWidth:
        return config_.n_embd;
      case Size::kFused:
        return uint64_t{3} * config_.n_embd;
      case Size::kHeads:
        return config_.n_heads * head_len;
      case Size::kKvHeads:
        return n_kv_heads * head_len;
      case Size::kFeedForward:
        return config_.n_feed_forward;
      case Size::kGated:
        return uint64_t{2} * config_.n_feed_forward;
      case Size::kVocabulary:
        return n_vocabulary(config_, weights_);
      case Size::kPositions:
        return config_.n_positions;
      case Size::kTypes:
        return config_.n_token_types;
      case Size::kClasses:
        return n_classes(config_, weights_);
      case Size::kExperts:
        return config_.n_experts;
      case Size::kNone:
        break;
    }
    return 0;
  }

  void add(const Rule& rule, uint32_t layer) {
    const std::string name = filled(rule.name, layer);
    const bool is_matrix = rule.rows != Size::kNone;
    const uint64_t n_rows = is_matrix ? size(rule.rows) : 1;
    if (n_rows == 0) return;  // this model does not have the table
    const std::string source = name_in(config_, weights_, rule.source, "weight", layer);
    if (rule.is_optional && weights_.find(source) == nullptr) return;
    const uint64_t n_columns = size(rule.columns);
    PlannedTensor tensor;
    tensor.name = name + ".weight";
    tensor.source = is_matrix ? require_tensor(weights_, source, {n_rows, n_columns})
                              : require_tensor(weights_, source, {n_columns});
    tensor.first_row = rule.rows == Size::kPositions ? config_.n_padded_positions : 0;
    tensor.n_rows = n_rows - tensor.first_row;
    tensor.row_len = n_columns;
    tensor.is_matrix = is_matrix;
    tensor.is_table = rule.is_table;
    plan_.push_back(tensor);
    if (rule.bias == Bias::kNo) return;
    const std::string bias = name_in(config_, weights_, rule.source, "bias", layer);
    if (rule.bias == Bias::kIfThere && weights_.find(bias) == nullptr) return;
    add_bias(name, bias, is_matrix ? n_rows : n_columns);
  }

  void add_stack(const std::string& name, const SafeTensor* source, uint64_t row_len,
                 uint64_t n_rows) {
    PlannedTensor stack;
    stack.name = name;
    stack.source = source;
    stack.row_len = row_len;
    stack.n_rows = config_.n_experts * n_rows;
    stack.is_matrix = true;
    stack.shape = {row_len, n_rows, config_.n_experts};
    plan_.push_back(std::move(stack));
  }

  void add_bias(const std::string& name, const std::string& source, uint64_t len) {
    PlannedTensor bias;
    bias.name = name + ".bias";
    bias.source = require_tensor(weights_, source, {len});
    bias.n_rows = 1;
    bias.row_len = len;
    plan_.push_back(bias);
  }

  const EncoderConfig& config_;
  Weights& weights_;
  std::vector<PlannedTensor> plan_;
};

}  // namespace

uint32_t n_vocabulary(const EncoderConfig& config, const Weights& weights) {
  return n_rows_of(weights, token_table(config, weights));
}

uint32_t n_classes(const EncoderConfig& config, const Weights& weights) {
  const std::span<const Rule> head = rules_of(config.family->head);
  return n_rows_of(weights, name_in(config, weights, head.back().source, "weight"));
}

bool is_of_adapter(std::string_view name) {
  return name.ends_with(".0.lora_A") || name.ends_with(".0.lora_B");
}

std::vector<PlannedTensor> plan_encoder(const EncoderConfig& config, Weights& weights) {
  Planner planner(config, weights);
  const LayoutRules& rules = rules_of(config);
  planner.add(rules.input);
  for (uint32_t layer = 0; layer < config.n_layers; ++layer) {
    const bool has_experts = config.experts_period != 0 && layer % config.experts_period == 1;
    planner.add(has_experts ? std::span<const Rule>(kNomicExpertLayer) : rules.layer, layer);
    if (has_experts) planner.add_experts(layer);
  }
  planner.add(rules_of(config.family->head));
  return planner.finish();
}

}  // namespace billow::convert
