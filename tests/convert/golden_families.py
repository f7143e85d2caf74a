"""The small models whose conversion is recorded: the models of tests/families/make_fixtures.py, more classes of
transformers, variants of published files, and classes that transformers does not have."""
import dataclasses

import make_fixtures
from make_fixtures import EXPERTS, POSITIONS, Family, base, rope


@dataclasses.dataclass
class Written:
    """A checkpoint with an explicit configuration and explicit tensors."""
    config: dict
    tensors: dict
    mtp: bool = False
    bytes: tuple = ()  # tensors of packed bytes


def with_extra(family, extra, **changes):
    """Returns a family with more tensors, such as those of a block that predicts further tokens."""
    family = dataclasses.replace(family, **changes)
    family.extra = extra
    family.mtp = True
    return family


def with_dense(family, dense):
    """Returns a family with layers after pooling: the shape of each layer by its folder."""
    family.dense = dense
    return family


def of(kind, **config):
    return Family(kind, base(**config))


def layers(n, names):
    return {name.replace("#", str(layer)): shape for layer in range(n) for name, shape in names.items()}


SHARED = {"n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
          "norm_topk_prob": True, "routed_scaling_factor": 1.5, **EXPERTS}
LATENT = {"num_key_value_heads": 4, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 32,
          "qk_rope_head_dim": 16, "v_head_dim": 32}
DELTA = {"head_dim": 32, "num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
         "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4}
TURNED = rope(partial_rotary_factor=0.5, mrope_section=[3, 3, 2], mrope_interleaved=True)
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 2, "mamba_expand": 2,
         "mamba_d_conv": 4}
GRANITE = {"embedding_multiplier": 12.0, "logits_scaling": 6.0, "residual_multiplier": 0.22,
           "attention_multiplier": 0.0625}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
SIX = ["sliding_attention"] * 5 + ["full_attention"]
GEMMA4 = {"head_dim": 16, "global_head_dim": 32, "sliding_window": 16, "final_logit_softcapping": 30.0,
          "num_hidden_layers": 6, "vocab_size_per_layer_input": 160, "layer_types": SIX}


def mtp_block(source):
    """Returns the names of Qwen's block, with the shapes of a layer that has attention."""
    return {f"mtp.layers.0.{name}": shape for name, shape in source.items()} | {
        "mtp.fc.weight": [64, 128], "mtp.norm.weight": [64], "mtp.pre_fc_norm_embedding.weight": [64],
        "mtp.pre_fc_norm_hidden.weight": [64]}


QWEN_ATTENTION = {
    "input_layernorm.weight": [64], "post_attention_layernorm.weight": [64], "self_attn.q_proj.weight": [256, 64],
    "self_attn.k_proj.weight": [64, 64], "self_attn.v_proj.weight": [64, 64], "self_attn.o_proj.weight": [64, 128],
    "self_attn.q_norm.weight": [32], "self_attn.k_norm.weight": [32]}
GATED = {"mlp.gate_proj.weight": [64, 64], "mlp.up_proj.weight": [64, 64], "mlp.down_proj.weight": [64, 64]}


def glm_mtp(layer, attention):
    """Returns the block after the layers of GLM 4.5 and DeepSeek V3."""
    names = {"enorm.weight": [64], "hnorm.weight": [64], "eh_proj.weight": [64, 128],
             "shared_head.norm.weight": [64], "input_layernorm.weight": [64], "post_attention_layernorm.weight": [64],
             "mlp.gate.weight": [4, 64], "mlp.gate.e_score_correction_bias": [4], **attention}
    for part, shape in (("gate_proj", [32, 64]), ("up_proj", [32, 64]), ("down_proj", [64, 32])):
        names[f"mlp.shared_experts.{part}.weight"] = shape
        for expert in range(4):
            names[f"mlp.experts.{expert}.{part}.weight"] = shape
    return {f"model.layers.{layer}.{name}": shape for name, shape in names.items()}


KIMI_DELTA = {
    "self_attn.A_log": [1, 1, 2, 1], "self_attn.b_proj.weight": [2, 64], "self_attn.dt_bias": [64],
    "self_attn.f_a_proj.weight": [32, 64], "self_attn.f_b_proj.weight": [64, 32],
    "self_attn.g_a_proj.weight": [32, 64], "self_attn.g_b_proj.weight": [64, 32],
    "self_attn.k_conv1d.weight": [64, 1, 4], "self_attn.q_conv1d.weight": [64, 1, 4],
    "self_attn.v_conv1d.weight": [64, 1, 4], "self_attn.k_proj.weight": [64, 64],
    "self_attn.q_proj.weight": [64, 64], "self_attn.v_proj.weight": [64, 64], "self_attn.o_norm.weight": [32],
    "self_attn.o_proj.weight": [64, 64]}
KIMI_LATENT = {
    "self_attn.kv_a_layernorm.weight": [32], "self_attn.kv_a_proj_with_mqa.weight": [48, 64],
    "self_attn.kv_b_proj.weight": [128, 32], "self_attn.o_proj.weight": [64, 64], "self_attn.q_proj.weight": [96, 64]}
NORMS = {"input_layernorm.weight": [64], "post_attention_layernorm.weight": [64]}


def kimi_linear():
    tensors = {"model.embed_tokens.weight": [160, 64], "lm_head.weight": [160, 64], "model.norm.weight": [64]}
    experts = {f"block_sparse_moe.experts.{i}.{name}.weight": [64, 16] if name == "w2" else [16, 64]
               for i in range(4) for name in ("w1", "w2", "w3")}
    experts |= {"block_sparse_moe.gate.weight": [4, 64], "block_sparse_moe.gate.e_score_correction_bias": [4],
                "block_sparse_moe.shared_experts.gate_proj.weight": [16, 64],
                "block_sparse_moe.shared_experts.up_proj.weight": [16, 64],
                "block_sparse_moe.shared_experts.down_proj.weight": [64, 16]}
    parts = ({**NORMS, **KIMI_DELTA, **GATED}, {**NORMS, **KIMI_LATENT, **experts}, {**NORMS, **KIMI_DELTA, **experts})
    for layer, names in enumerate(parts):
        tensors |= {f"model.layers.{layer}.{name}": shape for name, shape in names.items()}
    config = {
        "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "hidden_size": 64,
        "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64,
        "moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_token": 2, "num_shared_experts": 1,
        "first_k_dense_replace": 1, "routed_scaling_factor": 2.446, "moe_router_activation_func": "sigmoid",
        "moe_renormalize": True, "num_expert_group": 1, "topk_group": 1, "kv_lora_rank": 32, "q_lora_rank": None,
        "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "head_dim": 48, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "model_max_length": 512, "vocab_size": 160, "tie_word_embeddings": False,
        "linear_attn_config": {"full_attn_layers": [2], "kda_layers": [1, 3], "head_dim": 32, "num_heads": 2,
                               "short_conv_kernel_size": 4}}
    return Written(config, tensors)


def rwkv7():
    """Returns RWKV 7 as the flash-linear-attention library saves it."""
    tensors = {"model.embeddings.weight": [160, 64], "lm_head.weight": [160, 64], "model.norm.weight": [64],
               "model.norm.bias": [64], "model.layers.0.pre_norm.weight": [64], "model.layers.0.pre_norm.bias": [64]}
    for layer in range(2):
        at = f"model.layers.{layer}."
        for norm in ("attn_norm", "ffn_norm", "attn.g_norm"):
            tensors |= {f"{at}{norm}.weight": [64], f"{at}{norm}.bias": [64]}
        for name in ("r", "w", "k", "v", "a", "g"):
            tensors[f"{at}attn.x_{name}"] = [1, 1, 64]
        for name in ("r_proj", "k_proj", "v_proj", "o_proj"):
            tensors[f"{at}attn.{name}.weight"] = [64, 64]
        tensors |= {f"{at}attn.k_k": [64], f"{at}attn.k_a": [64], f"{at}attn.r_k": [2, 32]}
        for name, rank in (("w", 32), ("a", 16), ("v", 16), ("g", 32)):
            if name == "v" and layer == 0:
                continue
            tensors[f"{at}attn.{name}_lora.lora.0.weight"] = [rank, 64]
            tensors[f"{at}attn.{name}_lora.lora.2.weight"] = [64, rank]
            if name != "g":
                tensors[f"{at}attn.{name}_lora.lora.2.bias"] = [64]
        tensors |= {f"{at}ffn.x_k": [64], f"{at}ffn.key.weight": [96, 64], f"{at}ffn.value.weight": [64, 96]}
    config = {"architectures": ["RWKV7ForCausalLM"], "model_type": "rwkv7", "hidden_size": 64, "num_hidden_layers": 2,
              "head_dim": 32, "norm_eps": 1e-5, "intermediate_size": 96, "decay_low_rank_dim": 32,
              "a_low_rank_dim": 16, "v_low_rank_dim": 16, "gate_low_rank_dim": 32, "vocab_size": 160,
              "max_position_embeddings": 2048}
    return Written(config, tensors)


def arwkv7():
    tensors = {"model.embed_tokens.weight": [160, 64], "lm_head.weight": [160, 64], "model.norm.weight": [64]}
    for layer in range(2):
        at = f"model.layers.{layer}."
        tensors |= {at + name: shape for name, shape in {**NORMS, **GATED}.items()}
        at += "self_attn.time_mixer."
        tensors[f"{at}x_x"] = [5, 1, 1, 64]
        for name in ("receptance", "key", "value", "output"):
            tensors[f"{at}{name}.weight"] = [64, 64]
        tensors |= {f"{at}k_k": [1, 1, 64], f"{at}k_a": [1, 1, 64], f"{at}r_k": [2, 32]}
        for name, rank in (("w", 64), ("a", 64), ("v", 32)):
            if name == "v" and layer == 0:
                continue
            tensors |= {f"{at}{name}0": [1, 1, 64], f"{at}{name}1": [64, rank], f"{at}{name}2": [rank, 64]}
    config = {"architectures": ["RwkvHybridForCausalLM"], "model_type": "rwkv_hybrid", "hidden_size": 64,
              "num_hidden_layers": 2, "head_size": 32, "rms_norm_eps": 1e-6, "intermediate_size": 64,
              "wkv_has_gate": False, "wkv_version": 7, "vocab_size": 160, "num_attention_heads": 2,
              "num_key_value_heads": 2}
    return Written(config, tensors)


def gpt_oss_packed():
    """Returns gpt-oss with experts in MXFP4, as OpenAI publishes them."""
    tensors = {"model.embed_tokens.weight": [160, 64], "lm_head.weight": [160, 64], "model.norm.weight": [64]}
    tensors |= layers(2, {f"model.layers.#.{name}": shape for name, shape in {
        **NORMS, "self_attn.sinks": [4], "self_attn.q_proj.weight": [128, 64], "self_attn.q_proj.bias": [128],
        "self_attn.k_proj.weight": [64, 64], "self_attn.k_proj.bias": [64], "self_attn.v_proj.weight": [64, 64],
        "self_attn.v_proj.bias": [64], "self_attn.o_proj.weight": [64, 128], "self_attn.o_proj.bias": [64],
        "mlp.router.weight": [4, 64], "mlp.router.bias": [4], "mlp.experts.gate_up_proj_blocks": [4, 64, 2, 16],
        "mlp.experts.gate_up_proj_scales": [4, 64, 2], "mlp.experts.gate_up_proj_bias": [4, 64],
        "mlp.experts.down_proj_blocks": [4, 64, 1, 16], "mlp.experts.down_proj_scales": [4, 64, 1],
        "mlp.experts.down_proj_bias": [4, 64]}.items()})
    config = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 64,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
              "intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 128,
              "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 150000, "vocab_size": 160,
              "layer_types": ["sliding_attention", "full_attention"], "tie_word_embeddings": False,
              "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                               "original_max_position_embeddings": 64, "truncate": False},
              "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}}
    return Written(config, tensors, bytes=tuple(
        name for name in tensors if name.endswith(("_blocks", "_scales"))))


FAMILIES = {
    **make_fixtures.FAMILIES,
    "llama": of("llama"),
    "llama-bias": of("llama", attention_bias=True, mlp_bias=False, tie_word_embeddings=True),
    "llama3": of("llama", rope_parameters=LLAMA3),
    "llama-linear": of("llama", rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0}),
    "mistral": of("mistral", head_dim=32, sliding_window=None),
    "ministral3": of("ministral3", head_dim=32, sliding_window=None, rope_parameters={
        **YARN, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": 0.1}),
    "mixtral": of("mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
    "qwen2": of("qwen2"),
    "qwen2-yarn": of("qwen2", rope_parameters=YARN),
    "qwen2moe": of("qwen2_moe", num_experts=4, **EXPERTS, shared_expert_intermediate_size=96, decoder_sparse_step=1,
                   mlp_only_layers=[], norm_topk_prob=False),
    "qwen3": of("qwen3", head_dim=32),
    "qwen3moe": of("qwen3_moe", num_experts=4, **EXPERTS, head_dim=32, decoder_sparse_step=1, mlp_only_layers=[],
                   norm_topk_prob=True),
    "qwen3next": of("qwen3_next", num_experts=4, **EXPERTS, **DELTA, shared_expert_intermediate_size=64,
                    partial_rotary_factor=0.25, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[]),
    "qwen35": of("qwen3_5_text", **DELTA, rope_parameters=TURNED),
    "qwen35-mtp": with_extra(of("qwen3_5_text", **DELTA, rope_parameters=TURNED),
                             mtp_block({**QWEN_ATTENTION, **GATED}), patch={"mtp_num_hidden_layers": 1}),
    "qwen35moe": of("qwen3_5_moe_text", num_experts=4, **EXPERTS, **DELTA, shared_expert_intermediate_size=64,
                    rope_parameters=TURNED),
    "gemma": of("gemma", head_dim=32),
    "gemma2": of("gemma2", head_dim=32, sliding_window=16, query_pre_attn_scalar=32),
    "gemma3": of("gemma3_text", head_dim=32, sliding_window=16, num_hidden_layers=6, query_pre_attn_scalar=32),
    "gemma3-vision": Family("gemma3", base(
        model_type="gemma3_text", head_dim=32, sliding_window=16, num_hidden_layers=6, query_pre_attn_scalar=32),
        vision={"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                "image_size": 28, "patch_size": 14}),
    "gemma-embedding": with_dense(
        Family("gemma3_text", base(head_dim=32, sliding_window=16, num_hidden_layers=6, query_pre_attn_scalar=32,
                                   use_bidirectional_attention=True), model="Gemma3TextModel"),
        {"2_Dense": [96, 64], "3_Dense": [64, 96]}),
    "mistral3-vision": Family("mistral3", base(model_type="mistral", head_dim=32, sliding_window=None), vision={
        "model_type": "pixtral", "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 2, "image_size": 28, "patch_size": 14}),
    "llama4-vision": Family("llama4", base(
        model_type="llama4_text", hidden_size=32, head_dim=16, num_hidden_layers=4, intermediate_size=32,
        intermediate_size_mlp=64, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2),
        vision={"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                "image_size": 28, "patch_size": 14, "vision_output_dim": 32, "projector_input_dim": 32,
                "projector_output_dim": 32}),
    "gemma4": of("gemma4_text", **GEMMA4, num_kv_shared_layers=2, hidden_size_per_layer_input=32),
    "gemma4-moe": of("gemma4_text", **GEMMA4, num_kv_shared_layers=0, hidden_size_per_layer_input=0,
                     enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=32,
                     attention_k_eq_v=True, num_global_key_value_heads=1),
    "gpt-oss": of("gpt_oss", head_dim=32, sliding_window=16, num_local_experts=4, num_experts_per_tok=2,
                  rope_parameters={**YARN, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": True},
                  layer_types=["sliding_attention", "full_attention"]),
    "gpt-oss-mxfp4": gpt_oss_packed(),
    "phi2": of("phi", num_key_value_heads=4, intermediate_size=256,
               rope_parameters=rope(partial_rotary_factor=0.5)),
    "phi3": of("phi3", sliding_window=None),
    "phi3-longrope": of("phi3", sliding_window=None, max_position_embeddings=2048,
                        original_max_position_embeddings=512, rope_parameters={
                            "rope_type": "longrope", "rope_theta": 10000.0,
                            "short_factor": [1.0 + 0.01 * i for i in range(8)],
                            "long_factor": [1.0 + 0.3 * i for i in range(8)],
                            "original_max_position_embeddings": 512}),
    "smollm3": of("smollm3", num_hidden_layers=4, no_rope_layer_interval=4),
    "olmo2": of("olmo2"),
    "olmo3": of("olmo3", sliding_window=16, num_hidden_layers=4),
    "olmoe": of("olmoe", num_key_value_heads=4, num_experts=4, num_experts_per_tok=2),
    "granite": of("granite", **GRANITE),
    "granitemoe": of("granitemoe", **GRANITE, num_local_experts=4, num_experts_per_tok=2),
    "granitemoeshared": of("granitemoeshared", **GRANITE, num_local_experts=4, num_experts_per_tok=2,
                           shared_intermediate_size=32),
    "granitehybrid": of("granitemoehybrid", **GRANITE, **MAMBA, num_local_experts=4, num_experts_per_tok=2,
                        shared_intermediate_size=96, layer_types=["mamba", "mamba", "attention", "mamba"],
                        num_hidden_layers=4, position_embedding_type="nope"),
    "granitehybrid-dense": of("granitemoehybrid", **GRANITE, **MAMBA, num_local_experts=0, num_experts_per_tok=0,
                              shared_intermediate_size=96, layer_types=["mamba", "attention"],
                              position_embedding_type="nope"),
    "starcoder2": of("starcoder2", sliding_window=None, use_bias=True),
    "stablelm": of("stablelm", use_qkv_bias=True, rope_parameters=rope(partial_rotary_factor=0.25)),
    "command-r": of("cohere", logit_scale=0.0625),
    "command-r-norms": of("cohere", logit_scale=0.0625, use_qk_norm=True),
    "exaone4": of("exaone4", head_dim=16, sliding_window=None, layer_types=["full_attention"] * 2),
    "exaone4-window": of("exaone4", head_dim=16, sliding_window=16, num_hidden_layers=4, rope_parameters=LLAMA3,
                         layer_types=["sliding_attention"] * 3 + ["full_attention"]),
    "exaone-moe": with_extra(of(
        "exaone_moe", scoring_func="sigmoid", head_dim=32, num_hidden_layers=4, num_experts=4, num_shared_experts=1,
        first_k_dense_replace=1, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=2.0,
        sliding_window=16, sliding_window_pattern=4, layer_types=["sliding_attention"] * 3 + ["full_attention"],
        is_moe_layer=[False, True, True, True], **EXPERTS), {}),
    "glm4": of("glm4", head_dim=32, attention_bias=True, rope_parameters=rope(partial_rotary_factor=0.5)),
    "glm4moe": with_extra(of("glm4_moe", head_dim=32, **SHARED, use_qk_norm=True, attention_bias=True,
                             num_nextn_predict_layers=0, rope_parameters=rope(partial_rotary_factor=0.5)), {}),
    "glm4moe-mtp": with_extra(
        of("glm4_moe", head_dim=16, **SHARED, use_qk_norm=True, attention_bias=False, num_nextn_predict_layers=1,
           rope_parameters=rope(partial_rotary_factor=0.5)), glm_mtp(2, {
               "self_attn.q_proj.weight": [64, 64], "self_attn.k_proj.weight": [32, 64],
               "self_attn.v_proj.weight": [32, 64], "self_attn.o_proj.weight": [64, 64],
               "self_attn.q_norm.weight": [16], "self_attn.k_norm.weight": [16]})),
    "glm4moelite": of("glm4_moe_lite", scoring_func="sigmoid", **SHARED, **LATENT, num_nextn_predict_layers=0),
    "deepseek2": of("deepseek_v2", **SHARED, **LATENT, topk_method="greedy", scoring_func="softmax"),
    "deepseek2-lite": of("deepseek_v2", **SHARED, **(LATENT | {"q_lora_rank": None}), topk_method="greedy",
                         rope_parameters={**YARN, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707,
                                          "mscale_all_dim": 0.707}),
    "deepseek3": with_extra(of("deepseek_v3", scoring_func="sigmoid", **(SHARED | {"n_group": 2}), **LATENT,
                               num_nextn_predict_layers=1), glm_mtp(2, {
                                   "self_attn.q_a_proj.weight": [32, 64], "self_attn.q_a_layernorm.weight": [32]})),
    "dots1": of("dots1", head_dim=16, scoring_func="sigmoid", sliding_window=None,
                **(SHARED | {"routed_scaling_factor": 2.0})),
    "ernie4_5": of("ernie4_5", head_dim=32, use_bias=False),
    "hunyuan-dense": of("hunyuan_v1_dense", head_dim=32),
    "seed-oss": of("seed_oss", head_dim=32),
    "lfm2": of("lfm2", num_hidden_layers=4, conv_L_cache=3, block_auto_adjust_ff_dim=False,
               layer_types=["conv", "conv", "full_attention", "conv"]),
    "lfm2-adjusted": of("lfm2", conv_L_cache=3, block_auto_adjust_ff_dim=True, block_multiple_of=32,
                        block_ffn_dim_multiplier=1.0, intermediate_size=192, layer_types=["conv", "full_attention"]),
    "lfm2moe": of("lfm2_moe", num_hidden_layers=4, conv_L_cache=3, num_experts=4, num_dense_layers=1,
                  layer_types=["conv", "conv", "full_attention", "conv"], norm_topk_prob=True, use_expert_bias=True,
                  routed_scaling_factor=1.0, **EXPERTS),
    "mamba": Family("mamba", {"vocab_size": 160, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4,
                              "conv_kernel": 4, "expand": 2, "time_step_rank": 4}),
    "falcon-mamba": Family("falcon_mamba", {"vocab_size": 160, "hidden_size": 32, "num_hidden_layers": 2,
                                            "state_size": 4, "conv_kernel": 4, "expand": 2, "time_step_rank": 4}),
    "mamba2": Family("mamba2", {"vocab_size": 160, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16,
                                "conv_kernel": 4, "expand": 2, "num_heads": 8, "head_dim": 16, "n_groups": 2,
                                "tie_word_embeddings": False}),
    "falcon-h1": of("falcon_h1", head_dim=16, **MAMBA, mamba_d_ssm=128, mamba_rms_norm=True, embedding_multiplier=2.0,
                    lm_head_multiplier=0.5, attention_out_multiplier=0.8, attention_in_multiplier=1.3,
                    ssm_in_multiplier=1.1, ssm_out_multiplier=0.7, key_multiplier=0.6, mlp_multipliers=[0.9, 1.7],
                    ssm_multipliers=[0.3, 0.4, 0.6, 0.7, 1.9]),
    "jamba": of("jamba", hidden_size=32, num_hidden_layers=4, attn_layer_period=4, attn_layer_offset=2,
                expert_layer_period=2, expert_layer_offset=1, num_experts=4, num_experts_per_tok=2, mamba_d_state=4,
                mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=4, use_mamba_kernels=False),
    "apertus": of("apertus"),
    "arcee": of("arcee", head_dim=16),
    "nemotron": of("nemotron", rope_parameters=rope(partial_rotary_factor=0.5)),
    "falcon": Family("falcon", {"vocab_size": 160, "hidden_size": 64, "num_hidden_layers": 2,
                                "num_attention_heads": 4, "new_decoder_architecture": True, "num_kv_heads": 2,
                                "bias": False, "alibi": False}),
    "bloom": Family("bloom", {"vocab_size": 160, "hidden_size": 64, "n_layer": 2, "n_head": 4}),
    "kimi-linear": kimi_linear(),
    "rwkv7": rwkv7(),
    "arwkv7": arwkv7(),
}
