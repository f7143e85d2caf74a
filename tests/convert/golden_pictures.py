"""The small vision-language models whose conversion is recorded. Their text parts are as small as they can be."""
import dataclasses
import re

TEXT = {"vocab_size": 40, "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
        "intermediate_size": 32, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
# The converter knows numbered products up to the number of layers.
LAYERS = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 40}
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
PREPARED = {"do_normalize": True, "do_rescale": True, "do_resize": True, "rescale_factor": 1 / 255}
TURNED = {"rope_theta": 10000.0, "rope_type": "default"}
BREAK = 7  # the word [IMG_BREAK]


@dataclasses.dataclass
class Pictures:
    """A model with a part for pictures."""
    kind: str  # model_type of transformers
    text: dict
    vision: dict
    processor: dict  # preprocessor_config.json
    top: dict = dataclasses.field(default_factory=dict)
    names: tuple = ()  # (pattern, replacement): the names that published files have
    changes: dict = dataclasses.field(default_factory=dict)  # of config.json, after the model is made
    converter_names: tuple = ()  # corrections of the names that llama.cpp's converter writes
    differs: dict = dataclasses.field(default_factory=dict)  # keys that Billow writes on purpose


def text(**changes):
    return {**TEXT, **changes}


def prepared(**fields):
    return {**PREPARED, **fields}


SIGLIP = ((r"vision_tower\.(embeddings|encoder|post_layernorm|head)", r"vision_tower.vision_model.\1"),)
# The converter finds the embedding of [IMG_BREAK] only below "model.".
MISTRAL = ((r"^(model\.)?language_model\.(model\.)?", "model."), (r"^model\.lm_head", "lm_head"),
           (r"^model\.(vision_tower|multi_modal_projector)\.", r"\1."))
LIBRARY = ((r"^(vision_tower|multi_modal_projector)\.", r"model.\1."),)
AUTHORS = (
    (r"^model\.vision_tower\.embeddings\.cls_token", "vision_model.embeddings.class_embedding"),
    (r"^model\.vision_tower\.embeddings\.position_embeddings", "vision_model.embeddings.position_embedding"),
    (r"^model\.vision_tower\.embeddings\.patch_embeddings\.projection", "vision_model.embeddings.patch_embedding"),
    (r"^model\.vision_tower\.encoder\.layer\.", "vision_model.encoder.layers."),
    (r"\.attention\.projection_layer\.", ".attn.proj."), (r"\.attention\.(q|k)_norm", r".attn.\1_norm"),
    (r"\.lambda_(\d)", r".ls\1"), (r"\.layernorm_before\.", ".norm1."), (r"\.layernorm_after\.", ".norm2."),
    (r"^model\.multi_modal_projector\.layer_norm\.", "mlp1.0."), (r"^model\.multi_modal_projector\.linear_1\.", "mlp1.1."),
    (r"^model\.multi_modal_projector\.linear_2\.", "mlp1.3."))
VISUAL = ((r"^model\.visual\.", "visual."),)
INTERN = {**LAYERS, "num_hidden_layers": 4, "image_size": [16, 16], "patch_size": [4, 4], "attention_bias": True, "architectures": ["InternVisionModel"]}
QWEN = {"num_heads": 2, "depth": 3, "patch_size": 4}
QWEN_PROCESSOR = {"merge_size": 2, "temporal_patch_size": 2, "patch_size": 4, "resample": 3}
QWEN3 = {**QWEN, "hidden_size": 32, "intermediate_size": 40, "out_hidden_size": 48, "num_position_embeddings": 16}
DELTA = {"head_dim": 32, "num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 2,
         "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4}
LFM2 = text(model_type="lfm2", architectures=["Lfm2ForCausalLM"], num_hidden_layers=2, conv_L_cache=3,
            block_auto_adjust_ff_dim=False, layer_types=["conv", "full_attention"])
LFM2_PROCESSOR = prepared(**HALF, resample=2, encoder_patch_size=16, downsample_factor=2, do_image_splitting=True,
                          max_image_tokens=256, min_image_tokens=64, max_tiles=10, min_tiles=2, tile_size=512,
                          max_pixels_tolerance=2.0, use_thumbnail=True, size={"height": 512, "width": 512})
LFM2_VISION = {**LAYERS, "num_patches": 16, "patch_size": 16, "vision_use_head": False, "model_type": "siglip2_vision_model"}
GEMMA4_TEXT = {"model_type": "gemma4_text", "head_dim": 16, "global_head_dim": 16, "sliding_window": 16, "num_kv_shared_layers": 0,
               "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 40, "num_hidden_layers": 2,
               "layer_types": ["sliding_attention", "full_attention"]}
GEMMA4_VISION = {**LAYERS, "num_key_value_heads": 2, "head_dim": 16, "patch_size": 4, "pooling_kernel_size": 3,
                 "position_embedding_size": 16}
GEMMA4_PROCESSOR = prepared(do_normalize=False, image_mean=[0.0, 0.0, 0.0], image_std=[1.0, 1.0, 1.0], resample=3, patch_size=4,
                            pooling_kernel_size=3)

FAMILIES = {
    "gemma3": Pictures(
        "gemma3", text(model_type="gemma3_text", head_dim=16, sliding_window=16, num_hidden_layers=6, query_pre_attn_scalar=16),
        {**LAYERS, "image_size": 32, "patch_size": 4, "vision_use_head": False},
        prepared(**HALF, resample=2, size={"height": 32, "width": 32}, image_seq_length=4), {"mm_tokens_per_image": 4}, SIGLIP),
    "gemma3-fine": Pictures(  # a token of 2 x 2 patches
        "gemma3", text(model_type="gemma3_text", head_dim=16, sliding_window=16, num_hidden_layers=6, query_pre_attn_scalar=16),
        {**LAYERS, "image_size": 16, "patch_size": 4, "vision_use_head": True},
        prepared(**HALF, resample=2, size={"height": 16, "width": 16}, image_seq_length=4), {"mm_tokens_per_image": 4}, SIGLIP),
    "gemma4": Pictures(
        "gemma4", text(**GEMMA4_TEXT), GEMMA4_VISION, {**GEMMA4_PROCESSOR, "max_soft_tokens": 280}, {"audio_config": None}),
    "gemma4-clipped": Pictures(
        "gemma4", text(**GEMMA4_TEXT), {**GEMMA4_VISION, "use_clipped_linears": True, "standardize": True},
        {**GEMMA4_PROCESSOR, "max_soft_tokens": 140}, {"audio_config": None},
        differs={"clip.vision.image_max_pixels": 140 * 12 * 12}),
    "smolvlm": Pictures(
        "smolvlm", text(model_type="llama", architectures=["LlamaForCausalLM"]), {**LAYERS, "image_size": 16, "patch_size": 4},
        prepared(**HALF, resample=1, size={"longest_edge": 64}, max_image_size={"longest_edge": 16}, do_image_splitting=True),
        {"scale_factor": 2, "pad_token_id": 0}),
    "idefics3": Pictures(
        "idefics3", text(model_type="llama", architectures=["LlamaForCausalLM"]), {**LAYERS, "image_size": 16, "patch_size": 4},
        prepared(**HALF, resample=1, size={"longest_edge": 32}, max_image_size={"longest_edge": 16}, do_image_splitting=True),
        {"scale_factor": 4, "pad_token_id": 0}),
    "internvl": Pictures(
        "internvl", text(model_type="qwen2", architectures=["Qwen2ForCausalLM"]), INTERN,
        prepared(**CLIP, resample=3, min_patches=1, max_patches=12, size={"height": 16, "width": 16}), {"downsample_ratio": 0.5},
        LIBRARY),
    "internvl-norms": Pictures(
        "internvl", text(model_type="qwen3", head_dim=16, architectures=["Qwen3ForCausalLM"]), {**INTERN, "use_qk_norm": True, "norm_type": "rms_norm", "attention_bias": False},
        prepared(**CLIP, resample=3, min_patches=1, max_patches=6, size={"height": 16, "width": 16}), {"downsample_ratio": 0.5},
        LIBRARY, differs={"clip.vision.preproc_max_tiles": 6}),
    "internvl-authors": Pictures(
        "internvl", text(model_type="qwen2", architectures=["Qwen2ForCausalLM"]), INTERN,
        {**CLIP, "do_normalize": True, "do_resize": True, "resample": 3, "size": 16, "crop_size": 16}, {"downsample_ratio": 0.5},
        LIBRARY + AUTHORS, changes={
            "architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "min_dynamic_patch": 1, "max_dynamic_patch": 12,
            "select_layer": -1, "ps_version": "v2", "force_image_size": 16, "use_thumbnail": True, "dynamic_image_size": True}),
    "lfm2vl": Pictures("lfm2_vl", LFM2, {**LFM2_VISION, "num_patches": 256}, LFM2_PROCESSOR,
                       {"downsample_factor": 2, "projector_hidden_size": 32}, SIGLIP),
    "lfm2vl-limits": Pictures(
        "lfm2_vl", LFM2, LFM2_VISION, {**LFM2_PROCESSOR, "max_image_tokens": 128, "min_image_tokens": 32, "do_image_splitting": False},
        {"downsample_factor": 2, "projector_hidden_size": 32, "projector_use_layernorm": False}, SIGLIP,
        differs={"clip.vision.image_size": 64, "clip.vision.image_min_pixels": 32 * 32 * 32, "clip.vision.image_max_pixels": 128 * 32 * 32,
                 "clip.vision.preproc_min_tiles": 1, "clip.vision.preproc_max_tiles": 1}),
    "llama4": Pictures(
        "llama4", text(model_type="llama4_text", head_dim=24, num_hidden_layers=1, intermediate_size_mlp=32, num_local_experts=2,
                       num_experts_per_tok=1, interleave_moe_layer_step=1, attention_chunk_size=8192, no_rope_layer_interval=4),
        {**LAYERS, "intermediate_size": 128, "image_size": 16, "patch_size": 4, "vision_output_dim": 40, "projector_input_dim": 40,
         "projector_output_dim": 40, "pixel_shuffle_ratio": 0.5},
        prepared(**HALF, resample=2, size={"height": 16, "width": 16}, max_patches=16),
        converter_names=(("attn_post_norm", "ln2"),)),  # llama.cpp reads ln2
    "mistral3": Pictures(
        "mistral3", text(model_type="mistral", head_dim=24, sliding_window=None),
        {**LAYERS, "head_dim": 16, "image_size": 32, "patch_size": 4, "model_type": "pixtral", "rope_parameters": TURNED},
        prepared(**CLIP, resample=3, size={"longest_edge": 32}, patch_size={"height": 8, "width": 8}),
        {"spatial_merge_size": 2, "tie_word_embeddings": False}, MISTRAL),
    "pixtral": Pictures(
        "llava", text(model_type="mistral", head_dim=24, sliding_window=None),
        {**LAYERS, "head_dim": 16, "image_size": 32, "patch_size": 4, "model_type": "pixtral", "hidden_act": "silu", "rope_parameters": TURNED},
        prepared(**CLIP, resample=3, size={"longest_edge": 16}, patch_size={"height": 4, "width": 4}),
        {"vision_feature_layer": -1, "vision_feature_select_strategy": "full", "tie_word_embeddings": False}, MISTRAL,
        differs={"clip.vision.image_size": 16}),
    "qwen2vl": Pictures(
        "qwen2_vl", text(model_type="qwen2_vl_text", rope_parameters={**TURNED, "mrope_section": [4, 4, 4]}),
        {**QWEN, "embed_dim": 32, "hidden_size": 48, "mlp_ratio": 2}, prepared(**CLIP, **QWEN_PROCESSOR, min_pixels=256, max_pixels=802816),
        names=VISUAL, differs={"clip.vision.feed_forward_length": 64}),
    "qwen25vl": Pictures(
        "qwen2_5_vl", text(model_type="qwen2_5_vl_text", rope_parameters={**TURNED, "mrope_section": [4, 4, 4]}),
        {**QWEN, "depth": 4, "hidden_size": 32, "intermediate_size": 40, "out_hidden_size": 48, "fullatt_block_indexes": [1, 3], "window_size": 112},
        prepared(**CLIP, **QWEN_PROCESSOR, size={"shortest_edge": 256, "longest_edge": 65536}), names=VISUAL,
        differs={"clip.vision.image_max_pixels": 65536}),
    "qwen3vl": Pictures(
        "qwen3_vl", text(model_type="qwen3_vl_text", head_dim=32, rope_parameters={**TURNED, "mrope_section": [6, 5, 5], "mrope_interleaved": True}),
        {**QWEN3, "deepstack_visual_indexes": [1, 0]}, prepared(**HALF, **QWEN_PROCESSOR, size={"shortest_edge": 4096, "longest_edge": 16777216})),
    "qwen35": Pictures(
        "qwen3_5", text(model_type="qwen3_5_text", **DELTA, rope_parameters={
            **TURNED, "partial_rotary_factor": 0.5, "mrope_section": [3, 3, 2], "mrope_interleaved": True}),
        QWEN3, prepared(**HALF, **QWEN_PROCESSOR, size={"shortest_edge": 1024, "longest_edge": 16777216}),
        differs={"clip.vision.image_min_pixels": 1024}),
}


def renamed(name, rules):
    for pattern, replacement in rules:
        name = re.sub(pattern, replacement, name)
    return name


def joined(name, shape):
    """Returns the name and shape of the authors' joint matrix of Q, K and V for the name of Q, and None for K and V."""
    if match := re.fullmatch(r"(vision_model\.encoder\.layers\.\d+)\.attention\.([qkv])_proj(\.\w+)", name):
        return (f"{match[1]}.attn.qkv{match[3]}", [3 * shape[0], *shape[1:]]) if match[2] == "q" else None
    return name, shape
