// Encoders that came after BERT: the names, sizes and keys of each layout.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "convert/convert.h"
#include "convert/sample_model.h"
#include "gguf/file.h"

namespace billow::convert {
namespace {

constexpr uint64_t kWidth = SampleModel::kWidth;
constexpr uint64_t kFeedForward = SampleModel::kFeedForward;
constexpr uint64_t kTokens = 12;

// A source tensor and its name in GGUF. "#" is the layer number.
struct Pair {
  std::string source;
  std::string name;
  std::vector<uint64_t> shape;
};

class EncoderLayouts : public testing::Test {
 protected:
  void SetUp() override {
    model.add_word_pieces();
    model.config.update(Json{{"hidden_size", kWidth},
                             {"num_hidden_layers", SampleModel::kLayers},
                             {"num_attention_heads", 4},
                             {"intermediate_size", kFeedForward},
                             {"max_position_embeddings", 64},
                             {"layer_norm_eps", 1e-5}});
  }

  gguf::File make() {
    bytes.clear();
    notes.clear();
    convert(model.files(), {.name = "m", .weight_type = quant::Type::kF32},
            {.note = [&](const std::string& line) { notes.push_back(line); }, .progress = {}},
            [&](std::span<const std::byte> piece) {
              bytes.insert(bytes.end(), piece.begin(), piece.end());
            });
    return gguf::File::parse(bytes, "converted");
  }

  std::string refusal() {
    try {
      make();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  static std::string filled(std::string text, uint64_t layer) {
    if (const size_t at = text.find('#'); at != std::string::npos)
      text.replace(at, 1, std::to_string(layer));
    return text;
  }

  // Fills the source with `pairs`, converts it and compares all numbers. All source names begin
  // with `prefix`. `n_others` is the number of tensors of the file that are not in `pairs`.
  gguf::File expect_all(const std::vector<Pair>& pairs, const std::string& prefix = "",
                        size_t n_others = 0) {
    std::vector<std::pair<std::string, std::string>> names;
    for (const Pair& pair : pairs) {
      const bool repeats = pair.source.find('#') != std::string::npos;
      for (uint64_t layer = 0; layer < (repeats ? SampleModel::kLayers : 1); ++layer) {
        const std::string source = prefix + filled(pair.source, layer);
        model.tensors[source] = {pair.shape, "F32"};
        names.emplace_back(source, filled(pair.name, layer));
      }
    }
    gguf::File file = make();
    EXPECT_EQ(file.tensors().size(), names.size() + n_others);
    for (const auto& [source, name] : names) {
      const gguf::TensorInfo* tensor = file.find_tensor(name);
      if (tensor == nullptr) {
        ADD_FAILURE() << name << " is missing";
        continue;
      }
      const SampleTensor& sample = model.tensors.at(source);
      EXPECT_EQ(tensor->n_elements(), sample.n()) << name;
      for (uint64_t i = 0; i < std::min(tensor->n_elements(), sample.n()); ++i) {
        float value = 0;
        std::memcpy(&value, tensor->data.data() + i * sizeof value, sizeof value);
        if (value == sample_value(source, i)) continue;
        ADD_FAILURE() << name << " has another number at " << i;
        break;
      }
    }
    return file;
  }

  static std::vector<Pair> linear(const std::string& source, const std::string& name,
                                  uint64_t n_out, uint64_t n_in) {
    return {{source + ".weight", name + ".weight", {n_out, n_in}},
            {source + ".bias", name + ".bias", {n_out}}};
  }
  static std::vector<Pair> norm(const std::string& source, const std::string& name) {
    return {{source + ".weight", name + ".weight", {kWidth}},
            {source + ".bias", name + ".bias", {kWidth}}};
  }
  static std::vector<Pair> joined(std::initializer_list<std::vector<Pair>> parts) {
    std::vector<Pair> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }

  SampleModel model;
  std::vector<std::byte> bytes;
  std::vector<std::string> notes;
};

TEST_F(EncoderLayouts, DistilBertIsBertWithOtherNames) {
  model.config = {{"architectures", {"DistilBertModel"}},
                  {"dim", kWidth},
                  {"n_layers", SampleModel::kLayers},
                  {"n_heads", 4},
                  {"hidden_dim", kFeedForward},
                  {"max_position_embeddings", 16},
                  {"activation", "gelu"}};
  const std::string at = "transformer.layer.#.";
  const gguf::File file = expect_all(
      joined({{{"embeddings.word_embeddings.weight", "token_embd.weight", {kTokens, kWidth}},
               {"embeddings.position_embeddings.weight", "position_embd.weight", {16, kWidth}}},
              norm("embeddings.LayerNorm", "token_embd_norm"),
              linear(at + "attention.q_lin", "blk.#.attn_q", kWidth, kWidth),
              linear(at + "attention.k_lin", "blk.#.attn_k", kWidth, kWidth),
              linear(at + "attention.v_lin", "blk.#.attn_v", kWidth, kWidth),
              linear(at + "attention.out_lin", "blk.#.attn_output", kWidth, kWidth),
              norm(at + "sa_layer_norm", "blk.#.attn_output_norm"),
              linear(at + "ffn.lin1", "blk.#.ffn_up", kFeedForward, kWidth),
              linear(at + "ffn.lin2", "blk.#.ffn_down", kWidth, kFeedForward),
              norm(at + "output_layer_norm", "blk.#.layer_output_norm")}),
      "distilbert.");
  EXPECT_EQ(file.get_string("general.architecture"), "bert");
  EXPECT_EQ(file.get_uint("tokenizer.ggml.token_type_count"), 1u);
  model.config["architectures"] = {"DistilBertForSequenceClassification"};
  EXPECT_NE(refusal().find("'DistilBertForSequenceClassification' cannot be converted"),
            std::string::npos)
      << "GGUF has no name for the activation of its head";
}

TEST_F(EncoderLayouts, NomicMayHaveExperts) {
  constexpr uint64_t kExperts = 3;
  model.config.update(Json::parse(R"({"architectures": ["NomicBertModel"], "moe_every_n_layers": 2,
    "num_experts": 3, "moe_top_k": 2, "activation_function": "gelu", "qkv_proj_bias": true,
    "mlp_fc1_bias": true, "mlp_fc2_bias": true, "n_positions": 2048, "type_vocab_size": 1})"));
  const std::string at = "encoder.layers.#.";
  const std::vector<Pair> pairs =
      joined({{{"embeddings.word_embeddings.weight", "token_embd.weight", {kTokens, kWidth}},
               {"embeddings.token_type_embeddings.weight", "token_types.weight", {1, kWidth}},
               {"encoder.layers.1.mlp.router.layer.weight",
                "blk.1.ffn_gate_inp.weight",
                {kExperts, kWidth}},
               {"encoder.layers.1.mlp.experts.mlp.w1",
                "blk.1.ffn_up_exps.weight",
                {kExperts * kFeedForward, kWidth}}},
              norm("emb_ln", "token_embd_norm"),
              linear(at + "attn.Wqkv", "blk.#.attn_qkv", 3 * kWidth, kWidth),
              linear(at + "attn.out_proj", "blk.#.attn_output", kWidth, kWidth),
              norm(at + "norm1", "blk.#.attn_output_norm"),
              norm(at + "norm2", "blk.#.layer_output_norm"),
              linear("encoder.layers.0.mlp.fc1", "blk.0.ffn_up", kFeedForward, kWidth),
              linear("encoder.layers.0.mlp.fc2", "blk.0.ffn_down", kWidth, kFeedForward)});
  const std::string down = "encoder.layers.1.mlp.experts.mlp.w2";
  model.tensors[down] = {{kExperts * kFeedForward, kWidth}, "F32"};
  model.tensors["encoder.layers.1.mlp.experts.bias"] = {{kWidth}, "F32"};
  const gguf::File file = expect_all(pairs, "", 1);
  const gguf::TensorInfo* tensor = file.find_tensor("blk.1.ffn_down_exps.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape[0], kFeedForward);
  EXPECT_EQ(tensor->shape[1], kWidth);
  EXPECT_EQ(tensor->shape[2], kExperts);
  for (uint64_t i = 0; i < tensor->n_elements(); ++i) {
    float value = 0;
    std::memcpy(&value, tensor->data.data() + i * sizeof value, sizeof value);
    const uint64_t expert = i / (kFeedForward * kWidth);
    const uint64_t row = expert * kFeedForward + i % kFeedForward;
    ASSERT_EQ(value, sample_value(down, row * kWidth + i / kFeedForward % kWidth)) << i;
  }
  EXPECT_EQ(file.get_uint("nomic-bert-moe.context_length"), 512u);
  EXPECT_EQ(file.get_uint("nomic-bert-moe.expert_used_count"), 2u);
  model.config["moe_top_k"] = 4;
  EXPECT_NE(refusal().find("\"moe_top_k\" is more than the number of experts"), std::string::npos);
}

std::vector<Pair> modern_pairs() {
  return {{"embeddings.tok_embeddings.weight", "token_embd.weight", {kTokens, kWidth}},
          {"embeddings.norm.weight", "token_embd_norm.weight", {kWidth}},
          {"final_norm.weight", "output_norm.weight", {kWidth}},
          {"layers.1.attn_norm.weight", "blk.1.attn_norm.weight", {kWidth}},
          {"layers.#.attn.Wqkv.weight", "blk.#.attn_qkv.weight", {3 * kWidth, kWidth}},
          {"layers.#.attn.Wo.weight", "blk.#.attn_output.weight", {kWidth, kWidth}},
          {"layers.#.mlp_norm.weight", "blk.#.ffn_norm.weight", {kWidth}},
          {"layers.#.mlp.Wi.weight", "blk.#.ffn_up.weight", {2 * kFeedForward, kWidth}},
          {"layers.#.mlp.Wo.weight", "blk.#.ffn_down.weight", {kWidth, kFeedForward}}};
}

TEST_F(EncoderLayouts, ModernBertHasAWindow) {
  model.config.update(Json{{"architectures", {"ModernBertModel"}},
                           {"vocab_size", kTokens},
                           {"local_attention", 16},
                           {"global_attn_every_n_layers", 3},
                           {"hidden_activation", "gelu"}});
  gguf::File file = expect_all(modern_pairs());
  EXPECT_EQ(file.get_uint("modern-bert.attention.sliding_window"), 16u);
  EXPECT_EQ(file.get_uint("modern-bert.attention.sliding_window_pattern"), 3u);
  EXPECT_EQ(file.require_float("modern-bert.rope.freq_base"), 160000);
  EXPECT_EQ(file.require_float("modern-bert.rope.freq_base_swa"), 10000);
  EXPECT_EQ(file.get_string("modern-bert.hidden_activation"), "gelu");
  model.config["rope_parameters"] = {
      {"full_attention", {{"rope_type", "default"}, {"rope_theta", 5000.0}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 700.0}}}};
  file = make();
  EXPECT_EQ(file.require_float("modern-bert.rope.freq_base"), 5000);
  EXPECT_EQ(file.require_float("modern-bert.rope.freq_base_swa"), 700);
  model.config["norm_bias"] = true;
  EXPECT_NE(refusal().find("\"norm_bias\" must be false"), std::string::npos);
}

TEST_F(EncoderLayouts, ModernBertRanks) {
  model.config.update(Json{{"architectures", {"ModernBertForSequenceClassification"}},
                           {"vocab_size", kTokens},
                           {"local_attention", 16},
                           {"global_attn_every_n_layers", 3},
                           {"classifier_pooling", "mean"}});
  std::vector<Pair> pairs = modern_pairs();
  pairs.push_back({"head.dense.weight", "cls.weight", {kWidth, kWidth}});
  pairs.push_back({"head.norm.weight", "cls.norm.weight", {kWidth}});
  pairs.push_back({"classifier.weight", "cls.output.weight", {1, kWidth}});
  pairs.push_back({"classifier.bias", "cls.output.bias", {1}});
  for (Pair& pair : pairs)
    if (!pair.source.starts_with("head.") && !pair.source.starts_with("classifier."))
      pair.source = "model." + pair.source;
  const gguf::File file = expect_all(pairs);
  EXPECT_EQ(file.get_uint("modern-bert.pooling_type"), 4u);
  EXPECT_EQ(file.get_uint("modern-bert.classifier.pooling_type"), 1u);
}

TEST_F(EncoderLayouts, EuroBertHasFewerKvHeads) {
  model.config.update(Json{{"architectures", {"EuroBertModel"}},
                           {"num_key_value_heads", 2},
                           {"head_dim", 16},
                           {"rms_norm_eps", 1e-5},
                           {"rope_theta", 250000.0},
                           {"hidden_act", "silu"}});
  const std::string at = "layers.#.";
  const gguf::File file =
      expect_all({{"embed_tokens.weight", "token_embd.weight", {kTokens, kWidth}},
                  {"norm.weight", "output_norm.weight", {kWidth}},
                  {at + "input_layernorm.weight", "blk.#.attn_norm.weight", {kWidth}},
                  {at + "self_attn.q_proj.weight", "blk.#.attn_q.weight", {64, kWidth}},
                  {at + "self_attn.k_proj.weight", "blk.#.attn_k.weight", {32, kWidth}},
                  {at + "self_attn.v_proj.weight", "blk.#.attn_v.weight", {32, kWidth}},
                  {at + "self_attn.o_proj.weight", "blk.#.attn_output.weight", {kWidth, 64}},
                  {at + "post_attention_layernorm.weight", "blk.#.ffn_norm.weight", {kWidth}},
                  {at + "mlp.gate_proj.weight", "blk.#.ffn_gate.weight", {kFeedForward, kWidth}},
                  {at + "mlp.up_proj.weight", "blk.#.ffn_up.weight", {kFeedForward, kWidth}},
                  {at + "mlp.down_proj.weight", "blk.#.ffn_down.weight", {kWidth, kFeedForward}}},
                 "model.");
  EXPECT_EQ(file.get_uint("eurobert.attention.head_count_kv"), 2u);
  EXPECT_EQ(file.get_uint("eurobert.attention.key_length"), 16u);
  EXPECT_EQ(file.get_string("eurobert.rope.scaling.type"), "none");
  EXPECT_FLOAT_EQ(
      static_cast<float>(file.require_float("eurobert.attention.layer_norm_rms_epsilon")), 1e-5F);
}

TEST_F(EncoderLayouts, NeoBertStoresSizeTimesThreeHalves) {
  model.config.update(Json{{"architectures", {"NeoBERT"}},
                           {"intermediate_size", kFeedForward * 3 / 2},
                           {"hidden_act", "SwiGLU"}});
  const std::string at = "transformer_encoder.#.";
  const gguf::File file =
      expect_all({{"encoder.weight", "token_embd.weight", {kTokens, kWidth}},
                  {"layer_norm.weight", "enc.output_norm.weight", {kWidth}},
                  {at + "attention_norm.weight", "blk.#.attn_norm.weight", {kWidth}},
                  {at + "qkv.weight", "blk.#.attn_qkv.weight", {3 * kWidth, kWidth}},
                  {at + "wo.weight", "blk.#.attn_output.weight", {kWidth, kWidth}},
                  {at + "ffn_norm.weight", "blk.#.ffn_norm.weight", {kWidth}},
                  {at + "ffn.w12.weight", "blk.#.ffn_up.weight", {2 * kFeedForward, kWidth}},
                  {at + "ffn.w3.weight", "blk.#.ffn_down.weight", {kWidth, kFeedForward}}});
  EXPECT_EQ(file.get_uint("neo-bert.feed_forward_length"), kFeedForward);
  EXPECT_EQ(file.get_uint("neo-bert.pooling_type"), 2u) << "the authors' usage";
}

TEST_F(EncoderLayouts, Jina2HasTextNamesAndCodeNames) {
  for (const bool is_for_code : {false, true}) {
    model.tensors.clear();
    model.config.update(Json{{"architectures", {"JinaBertModel"}}, {"type_vocab_size", 2}});
    const std::string at = "encoder.layer.#.";
    std::vector<Pair> pairs = joined(
        {{{"embeddings.word_embeddings.weight", "token_embd.weight", {kTokens, kWidth}},
          {"embeddings.token_type_embeddings.weight", "token_types.weight", {2, kWidth}}},
         norm("embeddings.LayerNorm", "token_embd_norm"),
         linear(at + "attention.self.query", "blk.#.attn_q", kWidth, kWidth),
         linear(at + "attention.self.key", "blk.#.attn_k", kWidth, kWidth),
         linear(at + "attention.self.value", "blk.#.attn_v", kWidth, kWidth),
         linear(at + "attention.output.dense", "blk.#.attn_output", kWidth, kWidth),
         norm(at + "attention.output.LayerNorm", "blk.#.attn_output_norm"),
         {{at + (is_for_code ? "mlp.up_gated_layer.weight" : "mlp.gated_layers.weight"),
           "blk.#.ffn_up.weight",
           {2 * kFeedForward, kWidth}}},
         linear(at + (is_for_code ? "mlp.down_layer" : "mlp.wo"), "blk.#.ffn_down", kWidth,
                kFeedForward),
         norm(at + (is_for_code ? "layer_norm_2" : "mlp.layernorm"), "blk.#.layer_output_norm")});
    if (is_for_code) {
      for (const auto& more : {norm(at + "attention.self.layer_norm_q", "blk.#.attn_q_norm"),
                               norm(at + "attention.self.layer_norm_k", "blk.#.attn_k_norm"),
                               norm(at + "layer_norm_1", "blk.#.attn_norm_2")})
        pairs.insert(pairs.end(), more.begin(), more.end());
    }
    EXPECT_EQ(expect_all(pairs).get_string("general.architecture"), "jina-bert-v2");
  }
}

TEST_F(EncoderLayouts, Jina3DropsAdapters) {
  model.config.update(Json{{"architectures", {"XLMRobertaModel"}},
                           {"lora_adaptations", {"retrieval.query"}},
                           {"type_vocab_size", 1},
                           {"pad_token_id", 1},
                           {"rotary_emb_base", 20000.0}});
  const std::string at = "encoder.layers.#.";
  std::vector<Pair> pairs =
      joined({{{"embeddings.word_embeddings.parametrizations.weight.original",
                "token_embd.weight",
                {kTokens, kWidth}},
               {"embeddings.token_type_embeddings.weight", "token_types.weight", {1, kWidth}}},
              norm("emb_ln", "token_embd_norm"),
              linear(at + "mixer.Wqkv", "blk.#.attn_qkv", 3 * kWidth, kWidth),
              linear(at + "mixer.out_proj", "blk.#.attn_output", kWidth, kWidth),
              norm(at + "norm1", "blk.#.attn_output_norm"),
              linear(at + "mlp.fc1", "blk.#.ffn_up", kFeedForward, kWidth),
              linear(at + "mlp.fc2", "blk.#.ffn_down", kWidth, kFeedForward),
              norm(at + "norm2", "blk.#.layer_output_norm")});
  model.tensors["roberta.encoder.layers.0.mlp.fc1.parametrizations.weight.0.lora_A"] = {{1, 4, 32},
                                                                                        "F32"};
  const gguf::File file = expect_all(pairs, "roberta.");
  EXPECT_EQ(file.get_string("general.architecture"), "jina-bert-v3");
  EXPECT_EQ(file.get_uint("jina-bert-v3.context_length"), 62u);
  EXPECT_EQ(file.require_float("jina-bert-v3.rope.freq_base"), 20000);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[1].find("adapters for single tasks (1 tensors) are left out"), std::string::npos);
}

}  // namespace
}  // namespace billow::convert
