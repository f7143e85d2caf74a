"""Folders of safetensors for the tiny vision models of ../shared/data/vision: the inverse of what llama.cpp's converter did. Shares no
code with the program, so that the conversion of such a folder can be compared with the GGUF files."""

import json
import math
import pathlib
import re
import struct

from gguf_file import GgufFile
from safetensors_file import write_safetensors
from vocabulary import Metadata

MODELS = pathlib.Path(__file__).resolve().parents[3] / "shared/data/vision"
FORMATS = {0: "f", 1: "e"}  # F32, F16


class FloatFile:
    """A GGUF file: metadata, and tensors: name -> (shape in the order of safetensors, list of floats)."""

    def __init__(self, path):
        self.metadata = Metadata(path)
        self.tensors = {name: (tensor.shape[::-1], list(struct.unpack(f"<{math.prod(tensor.shape)}{FORMATS[tensor.type]}", tensor.data)))
                        for name, tensor in GgufFile(path).tensors.items()}


# --- the changes of tensors, backwards ---

def unpaired(shape, values, head_len):
    """Neighbours of each head's rows become rows of its halves."""
    width = math.prod(shape[1:])
    rows = [values[i:i + width] for i in range(0, len(values), width)]
    out = []
    for begin in range(0, shape[0], head_len):
        head = rows[begin:begin + head_len]
        out += head[0::2] + head[1::2]
    return shape, [value for row in out for value in row]


def by_pixel(shape, values):
    """[n][3][p][p] becomes [n][p * p * 3]."""
    n, _, p, _ = shape
    out = []
    for i in range(n):
        patch = values[i * 3 * p * p:(i + 1) * 3 * p * p]
        out += [patch[c * p * p + j] for j in range(p * p) for c in range(3)]
    return [n, 3 * p * p], out


def two_frames(first, second):
    """Two tensors [n][3][p][p] become [n][3][2][p][p]."""
    (n, colors, p, _), _ = first
    out = []
    for i in range(n * colors):
        for _, values in (first, second):
            out += values[i * p * p:(i + 1) * p * p]
    return [n, colors, 2, p, p], out


def minus_one(shape, values):
    return shape, [value - 1 for value in values]


def joined(parts):
    return [sum(shape[0] for shape, _ in parts), *parts[0][0][1:]], [value for _, values in parts for value in values]


# --- names: (pattern of the GGUF file, name of the library) ---

SIGLIP = ((r"v\.patch_embd", "embeddings.patch_embedding"), (r"v\.position_embd", "embeddings.position_embedding"),
          (r"v\.post_ln", "post_layernorm"), (r"v\.blk\.(\d+)\.ln1", r"encoder.layers.\1.layer_norm1"),
          (r"v\.blk\.(\d+)\.ln2", r"encoder.layers.\1.layer_norm2"), (r"v\.blk\.(\d+)\.attn_([qkv])", r"encoder.layers.\1.self_attn.\2_proj"),
          (r"v\.blk\.(\d+)\.attn_out", r"encoder.layers.\1.self_attn.out_proj"), (r"v\.blk\.(\d+)\.ffn_up", r"encoder.layers.\1.mlp.fc1"),
          (r"v\.blk\.(\d+)\.ffn_down", r"encoder.layers.\1.mlp.fc2"))


def below(prefix, rules):
    return tuple((pattern, prefix + name) for pattern, name in rules)


QWEN = ((r"v\.patch_embd", "visual.patch_embed.proj"), (r"v\.position_embd", "visual.pos_embed"), (r"v\.post_ln", "visual.merger.ln_q"),
        (r"v\.blk\.(\d+)\.ln(\d)", r"visual.blocks.\1.norm\2"), (r"v\.blk\.(\d+)\.attn_out", r"visual.blocks.\1.attn.proj"),
        (r"v\.blk\.(\d+)\.attn_qkv", r"visual.blocks.\1.attn.qkv"), (r"mm\.(\d)", r"visual.merger.mlp.\1"))
GATED = tuple((rf"v\.blk\.(\d+)\.ffn_{part}", rf"visual.blocks.\1.mlp.{part}_proj") for part in ("gate", "up", "down"))
PLAIN = ((r"v\.blk\.(\d+)\.ffn_up", r"visual.blocks.\1.mlp.fc1"), (r"v\.blk\.(\d+)\.ffn_down", r"visual.blocks.\1.mlp.fc2"))
QWEN3 = ((r"v\.blk\.(\d+)\.ffn_up", r"visual.blocks.\1.mlp.linear_fc1"), (r"v\.blk\.(\d+)\.ffn_down", r"visual.blocks.\1.mlp.linear_fc2"),
         (r"v\.post_ln", "visual.merger.norm"), (r"mm\.0", "visual.merger.linear_fc1"), (r"mm\.2", "visual.merger.linear_fc2"),
         (r"v\.deepstack\.(\d+)\.fc(\d)", r"visual.deepstack_merger_list.\1.linear_fc\2"),
         (r"v\.deepstack\.(\d+)\.norm", r"visual.deepstack_merger_list.\1.norm"))
GEMMA4 = ((r"v\.patch_embd", "model.vision_tower.patch_embedder.input_proj"), (r"mm\.input_projection", "model.embed_vision.embedding_projection"),
          *below("model.vision_tower.encoder.layers.", (
              (r"v\.blk\.(\d+)\.ln1", r"\1.input_layernorm"), (r"v\.blk\.(\d+)\.attn_post_norm", r"\1.post_attention_layernorm"),
              (r"v\.blk\.(\d+)\.ln2", r"\1.pre_feedforward_layernorm"), (r"v\.blk\.(\d+)\.ffn_post_norm", r"\1.post_feedforward_layernorm"),
              (r"v\.blk\.(\d+)\.attn_([qk])_norm", r"\1.self_attn.\2_norm"), (r"v\.blk\.(\d+)\.attn_([qkv])", r"\1.self_attn.\2_proj.linear"),
              (r"v\.blk\.(\d+)\.attn_out", r"\1.self_attn.o_proj.linear"), (r"v\.blk\.(\d+)\.ffn_(\w+)", r"\1.mlp.\2_proj.linear"))))
INTERN = ((r"v\.patch_embd", "vision_model.embeddings.patch_embedding"), (r"v\.class_embd", "vision_model.embeddings.class_embedding"),
          (r"v\.blk\.(\d+)\.ln(\d)", r"vision_model.encoder.layers.\1.norm\2"), (r"v\.blk\.(\d+)\.attn_out", r"vision_model.encoder.layers.\1.attn.proj"),
          (r"v\.blk\.(\d+)\.ffn_up", r"vision_model.encoder.layers.\1.mlp.fc1"), (r"v\.blk\.(\d+)\.ffn_down", r"vision_model.encoder.layers.\1.mlp.fc2"),
          (r"mm\.model\.mlp\.(\d)", r"mlp1.\1"))
LLAMA4 = ((r"v\.class_embd", "vision_model.class_embedding"), (r"v\.patch_embd", "vision_model.patch_embedding.linear"),
          (r"v\.(pre|post)_ln", r"vision_model.layernorm_\1"), (r"mm\.model\.mlp\.(\d)", r"vision_model.vision_adapter.mlp.fc\1"),
          (r"mm\.model\.fc", "multi_modal_projector.linear_1"), *below("vision_model.model.layers.", (
              (r"v\.blk\.(\d+)\.ln1", r"\1.input_layernorm"), (r"v\.blk\.(\d+)\.ln2", r"\1.post_attention_layernorm"),
              (r"v\.blk\.(\d+)\.attn_([qkv])", r"\1.self_attn.\2_proj"), (r"v\.blk\.(\d+)\.attn_out", r"\1.self_attn.o_proj"),
              (r"v\.blk\.(\d+)\.ffn_up", r"\1.mlp.fc1"), (r"v\.blk\.(\d+)\.ffn_down", r"\1.mlp.fc2"))))
PIXTRAL = ((r"v\.patch_embd", "vision_tower.patch_conv"), (r"v\.pre_ln", "vision_tower.ln_pre"), (r"mm\.input_norm", "multi_modal_projector.norm"),
           (r"mm\.patch_merger", "multi_modal_projector.patch_merger.merging_layer"), (r"mm\.(\d)", r"multi_modal_projector.linear_\1"),
           *below("vision_tower.transformer.layers.", (
               (r"v\.blk\.(\d+)\.ln1", r"\1.attention_norm"), (r"v\.blk\.(\d+)\.ln2", r"\1.ffn_norm"),
               (r"v\.blk\.(\d+)\.attn_([qkv])", r"\1.attention.\2_proj"), (r"v\.blk\.(\d+)\.attn_out", r"\1.attention.o_proj"),
               (r"v\.blk\.(\d+)\.ffn_(\w+)", r"\1.feed_forward.\2_proj"))))
# Names that change as a whole, with the suffix.
WHOLE = {"gemma3": {"mm.input_projection.weight": "multi_modal_projector.mm_input_projection_weight"},
         "gemma4": {"v.position_embd.weight": "model.vision_tower.patch_embedder.position_embedding_table"},
         "internvl": {"v.position_embd.weight": "vision_model.embeddings.position_embedding"},
         "llama4": {"v.position_embd.weight": "vision_model.positional_embedding_vlm"}}
NAMES = {"gemma3": (*below("vision_tower.vision_model.", SIGLIP), (r"mm\.soft_emb_norm", "multi_modal_projector.mm_soft_emb_norm")),
         "gemma4": GEMMA4, "internvl": INTERN, "llama4": LLAMA4, "mistral3": PIXTRAL,
         "lfm2_vl": (*below("model.vision_tower.vision_model.", SIGLIP), (r"mm\.input_norm", "model.multi_modal_projector.layer_norm"),
                     (r"mm\.(\d)", r"model.multi_modal_projector.linear_\1")),
         "qwen2_vl": QWEN + PLAIN, "qwen2_5_vl": QWEN + GATED, "qwen3_vl": QWEN3 + QWEN, "qwen3_5": below("model.", QWEN3 + QWEN),
         "smolvlm": (*below("model.vision_model.", SIGLIP), (r"mm\.model\.fc", "model.connector.modality_projection.proj"))}
TEXT = ((r"token_embd", "embed_tokens"), (r"output_norm", "norm"), (r"blk\.(\d+)\.attn_norm", r"layers.\1.input_layernorm"),
        (r"blk\.(\d+)\.attn_([qk])_norm", r"layers.\1.self_attn.\2_norm"), (r"blk\.(\d+)\.attn_([qkv])", r"layers.\1.self_attn.\2_proj"),
        (r"blk\.(\d+)\.attn_output", r"layers.\1.self_attn.o_proj"), (r"blk\.(\d+)\.ffn_(gate|up|down)", r"layers.\1.mlp.\2_proj"))
AFTER = ((r"blk\.(\d+)\.ffn_norm", r"layers.\1.post_attention_layernorm"),)
SANDWICH = ((r"blk\.(\d+)\.post_attention_norm", r"layers.\1.post_attention_layernorm"), (r"blk\.(\d+)\.post_ffw_norm", r"layers.\1.post_feedforward_layernorm"),
            (r"blk\.(\d+)\.ffn_norm", r"layers.\1.pre_feedforward_layernorm"))
LFM2 = ((r"token_embd_norm", "embedding_norm"), (r"blk\.(\d+)\.shortconv\.(\w+)", r"layers.\1.conv.\2"), (r"blk\.(\d+)\.attn_norm", r"layers.\1.operator_norm"),
        (r"blk\.(\d+)\.ffn_norm", r"layers.\1.ffn_norm"), (r"blk\.(\d+)\.ffn_gate", r"layers.\1.feed_forward.w1"),
        (r"blk\.(\d+)\.ffn_down", r"layers.\1.feed_forward.w2"), (r"blk\.(\d+)\.ffn_up", r"layers.\1.feed_forward.w3"),
        (r"blk\.(\d+)\.attn_([qk])_norm", r"layers.\1.self_attn.\2_layernorm"), (r"blk\.(\d+)\.attn_output", r"layers.\1.self_attn.out_proj"))
# The prefix of the text part, and its names. Families whose text tensors are not made again here are missing.
TEXTS = {"gemma3": ("language_model.model.", SANDWICH + TEXT), "internvl": ("language_model.model.", AFTER + TEXT),
         "lfm2_vl": ("model.language_model.", LFM2 + TEXT), "mistral3": ("language_model.model.", AFTER + TEXT),
         "qwen2_vl": ("model.", AFTER + TEXT), "qwen2_5_vl": ("model.", AFTER + TEXT), "qwen3_vl": ("model.language_model.", AFTER + TEXT),
         "smolvlm": ("model.text_model.", AFTER + TEXT)}


def base(name):
    return "gemma4" if name == "gemma4-e" else name


def renamed(name, rules):
    stem, dot, suffix = name.rpartition(".")
    if suffix not in ("weight", "bias"):
        stem, dot, suffix = name, "", ""
    for pattern, replacement in rules:
        if match := re.fullmatch(pattern, stem):
            return match.expand(replacement) + dot + suffix
    raise KeyError(name)


def vision_tensors(name, file, heads):
    tensors = dict(file.tensors)
    tensors.pop("v.token_embd.img_break", None)
    if "v.patch_embd.weight.1" in tensors:
        tensors["v.patch_embd.weight"] = two_frames(tensors["v.patch_embd.weight"], tensors.pop("v.patch_embd.weight.1"))
    out = {}
    if name in ("qwen2_vl", "qwen2_5_vl", "internvl"):  # these models have one matrix
        prefix = "vision_model.encoder.layers." if name == "internvl" else "visual.blocks."
        for layer in range(file.metadata["clip.vision.block_count"]):
            for suffix in ("weight", "bias"):
                out[f"{prefix}{layer}.attn.qkv.{suffix}"] = joined([tensors.pop(f"v.blk.{layer}.attn_{part}.{suffix}") for part in "qkv"])
            if name == "internvl":
                for i in "12":
                    out[f"{prefix}{layer}.ls{i}"] = tensors.pop(f"v.blk.{layer}.ls{i}.weight")
    deep = sorted({int(match[1]) for key in tensors if (match := re.match(r"v\.deepstack\.(\d+)\.", key))})
    for key, tensor in tensors.items():
        if name in ("lfm2_vl", "gemma4") and key == "v.patch_embd.weight":
            tensor = by_pixel(*tensor)
        if name == "mistral3" and re.search(r"\.attn_[qk]\.", key):
            tensor = unpaired(*tensor, file.metadata["clip.vision.embedding_length"] // heads)
        if key == "mm.soft_emb_norm.weight":
            tensor = minus_one(*tensor)
        if match := re.match(r"v\.deepstack\.(\d+)\.", key):
            key = key.replace(match[0], f"v.deepstack.{deep.index(int(match[1]))}.")
        out[WHOLE.get(name, {}).get(key) or renamed(key, NAMES[name])] = tensor
    return out


def text_tensors(name, file):
    prefix, rules = TEXTS[name]
    architecture = file.metadata["general.architecture"].decode()
    out = {}
    for key, tensor in file.tensors.items():
        if name in ("mistral3", "smolvlm") and re.search(r"\.attn_[qk]\.", key):
            tensor = unpaired(*tensor, file.metadata[f"{architecture}.rope.dimension_count"])
        if name == "gemma3" and "norm" in key:
            tensor = minus_one(*tensor)
        if key.endswith("shortconv.conv.weight"):
            tensor = [tensor[0][0], 1, tensor[0][1]], tensor[1]
        if key == "output.weight":
            out[("language_model." if prefix.startswith("language_model.") else "") + "lm_head.weight"] = tensor
            continue
        out[prefix + renamed(key, rules)] = tensor
    return out


# --- configurations ---

def text_config(file, kind, **fields):
    data = file.metadata
    prefix = data["general.architecture"].decode() + "."
    kv_heads = data[prefix + "attention.head_count_kv"]
    return {"model_type": kind, "vocab_size": len(data["tokenizer.ggml.tokens"]), "hidden_size": data[prefix + "embedding_length"],
            "num_hidden_layers": data[prefix + "block_count"], "num_attention_heads": data[prefix + "attention.head_count"],
            "num_key_value_heads": max(kv_heads) if isinstance(kv_heads, list) else kv_heads,
            "intermediate_size": data[prefix + "feed_forward_length"], "max_position_embeddings": data[prefix + "context_length"],
            "rms_norm_eps": data[prefix + "attention.layer_norm_rms_epsilon"],
            "rope_parameters": {"rope_type": "default", "rope_theta": data[prefix + "rope.freq_base"]}, **fields}


def mrope(*sections):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": sections, "mrope_interleaved": len(sections) > 3}}


LAYERS = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96}
GEMMA3_ROPE = {"full_attention": {"rope_type": "default", "rope_theta": 1e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
QWEN3_VISION = {"hidden_size": 32, "num_heads": 2, "intermediate_size": 96, "out_hidden_size": 64, "num_position_embeddings": 64, "patch_size": 16}
# name: (class, model_type, fields, vision_config, model_type of the text part, its further fields)
CONFIGS = {
    "gemma3": ("Gemma3ForConditionalGeneration", "gemma3", {"mm_tokens_per_image": 16, "tie_word_embeddings": True},
               {**LAYERS, "image_size": 128, "patch_size": 8, "vision_use_head": False}, "gemma3_text",
               {"head_dim": 32, "sliding_window": 16, "query_pre_attn_scalar": 32, "rope_parameters": GEMMA3_ROPE}),
    "gemma4": ("Gemma4ForConditionalGeneration", "gemma4", {}, {
        **LAYERS, "num_key_value_heads": 4, "head_dim": 16, "patch_size": 4, "pooling_kernel_size": 3, "position_embedding_size": 64}, "gemma4_text", {}),
    "internvl": ("InternVLChatModel", "internvl_chat", {"downsample_ratio": 0.5, "ps_version": "v2", "tie_word_embeddings": True},
                 {**LAYERS, "num_hidden_layers": 4, "image_size": 64, "patch_size": 8, "hidden_act": "gelu"}, "qwen2", {}),
    "lfm2_vl": ("Lfm2VlForConditionalGeneration", "lfm2_vl", {"downsample_factor": 2, "tie_word_embeddings": True},
                {**LAYERS, "num_patches": 256, "patch_size": 16, "model_type": "siglip2_vision_model"}, "lfm2",
                {"conv_L_cache": 3, "block_auto_adjust_ff_dim": False, "norm_eps": 1e-5, "layer_types": ["conv", "conv", "full_attention", "conv"]}),
    "llama4": ("Llama4ForConditionalGeneration", "llama4", {}, {
        **LAYERS, "intermediate_size": 256, "image_size": 64, "patch_size": 8, "pixel_shuffle_ratio": 0.5}, "llama4_text", {}),
    "mistral3": ("Mistral3ForConditionalGeneration", "mistral3", {"spatial_merge_size": 2, "tie_word_embeddings": False, "vision_feature_layer": -1},
                 {**LAYERS, "head_dim": 16, "image_size": 224, "patch_size": 14, "model_type": "pixtral", "rope_theta": 10000.0}, "mistral", {"head_dim": 32}),
    "qwen2_vl": ("Qwen2VLForConditionalGeneration", "qwen2_vl", {"tie_word_embeddings": False},
                 {"depth": 3, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2, "patch_size": 14}, "qwen2_vl_text", mrope(2, 3, 3)),
    "qwen2_5_vl": ("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", {"tie_word_embeddings": False},
                   {"depth": 4, "hidden_size": 32, "num_heads": 2, "intermediate_size": 96, "out_hidden_size": 64, "fullatt_block_indexes": [1, 3],
                    "patch_size": 14, "window_size": 112}, "qwen2_5_vl_text", mrope(2, 3, 3)),
    "qwen3_vl": ("Qwen3VLForConditionalGeneration", "qwen3_vl", {"tie_word_embeddings": False},
                 {**QWEN3_VISION, "depth": 4, "deepstack_visual_indexes": [0, 2]}, "qwen3_vl_text", {"head_dim": 32, **mrope(6, 5, 5)}),
    "qwen3_5": ("Qwen3_5ForConditionalGeneration", "qwen3_5", {}, {**QWEN3_VISION, "depth": 3, "deepstack_visual_indexes": []}, "qwen3_5_text", {}),
    "smolvlm": ("SmolVLMForConditionalGeneration", "smolvlm", {"scale_factor": 2, "tie_word_embeddings": False},
                {**LAYERS, "image_size": 64, "patch_size": 8}, "llama", {})}
FAMILIES = sorted([*CONFIGS, "gemma4-e"])
# The limits that readers assume, where the tiny models have others. See docs/converting.md.
LIMITS = {"gemma4": {"max_soft_tokens": 280}, "qwen2_vl": {"size": {"shortest_edge": 3136, "longest_edge": 12845056}},
          "qwen2_5_vl": {"size": {"shortest_edge": 3136, "longest_edge": 12845056}}, "qwen3_vl": {"size": {"shortest_edge": 65536, "longest_edge": 16777216}},
          "qwen3_5": {"size": {"shortest_edge": 65536, "longest_edge": 16777216}}}


def tokenizer(file):
    data = file.metadata
    words = [word.decode() for word in data["tokenizer.ggml.tokens"]]
    kinds = data["tokenizer.ggml.token_type"]
    added = [{"id": i, "content": word, "special": True} for i, word in enumerate(words) if kinds[i] == 3]
    return {"version": "1.0", "added_tokens": added, "normalizer": None, "post_processor": None, "decoder": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "model": {"type": "BPE", "vocab": {word: i for i, word in enumerate(words)},
                      "merges": [merge.decode() for merge in data["tokenizer.ggml.merges"]]}}


def write_folder(name, folder):
    """Writes the folder of a family. Returns whether it has the tensors of the text part."""
    folder.mkdir(parents=True)
    text, eyes = FloatFile(MODELS / f"{name}.gguf"), FloatFile(MODELS / f"{name}.mmproj.gguf")
    family = base(name)
    kind, model_type, fields, vision, text_type, text_fields = CONFIGS[family]
    heads = vision.get("num_attention_heads", 1)
    tensors = vision_tensors(family, eyes, heads)
    if family in TEXTS:
        tensors |= text_tensors(family, text)
    write_safetensors(folder / "model.safetensors", tensors)
    config = {"architectures": [kind], "model_type": model_type, **fields, "vision_config": vision,
              "text_config": text_config(text, text_type, **text_fields)}
    (folder / "config.json").write_text(json.dumps(config))
    facts = json.loads((MODELS / f"{name}.json").read_text())
    (folder / "preprocessor_config.json").write_text(json.dumps(facts["processor"] | LIMITS.get(family, {})))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(text)))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}))
    return family in TEXTS
