// gpt-oss: experts with biases. Rows of gate and up matrices alternate. The published weights are
// in MXFP4 and stay in MXFP4.
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kClasses[] = {"GptOssForCausalLM"};

void turned_even_rows(Shaping& shaping) {
  shaping.turn();
  even_rows(shaping);
}
void turned_odd_rows(Shaping& shaping) {
  shaping.turn();
  odd_rows(shaping);
}
void packed(Shaping& shaping) {
  const std::string& name = shaping.name();
  constexpr std::string_view kBlocks = "_blocks";
  shaping.unpack_mxfp4(name.substr(0, name.size() - kBlocks.size()) + "_scales");
}
void packed_even_rows(Shaping& shaping) {
  packed(shaping);
  even_rows(shaping);
}
void packed_odd_rows(Shaping& shaping) {
  packed(shaping);
  odd_rows(shaping);
}

constexpr TensorRule kNames[] = {
    {"model.layers.#.self_attn.sinks", "blk.#.attn_sinks.weight"},
    {"model.layers.#.mlp.router", "blk.#.ffn_gate_inp"},
    {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", turned_even_rows},
    {"model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", turned_odd_rows},
    {"model.layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_gate_exps.weight",
     packed_even_rows},
    {"model.layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_up_exps.weight", packed_odd_rows},
    {"model.layers.#.mlp.experts.gate_up_proj_scales", ""},
    {"model.layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_gate_exps.bias", even_rows},
    {"model.layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_up_exps.bias", odd_rows},
    {"model.layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", turned},
    {"model.layers.#.mlp.experts.down_proj_blocks", "blk.#.ffn_down_exps.weight", packed},
    {"model.layers.#.mlp.experts.down_proj_scales", ""},
    {"model.layers.#.mlp.experts.down_proj_bias", "blk.#.ffn_down_exps.bias"},
};

void keys_of(const LanguageModel& model, KeyWriter& keys) {
  standard_keys(model, keys);
  keys.count("attention.sliding_window", model.config.require_size({"sliding_window"}));
  keys.count("expert_feed_forward_length", model.config.require_size({"intermediate_size"}));
}

}  // namespace

const LanguageFamily kGptOss = {
    .classes = kClasses,
    .architecture = "gpt-oss",
    .rules = {kNames, decoder_names()},
    .keys = keys_of,
    .defaults = R"({"head_dim": 64, "sliding_window": 128, "rms_norm_eps": 1e-5})"};

}  // namespace billow::convert
