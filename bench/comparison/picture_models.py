"""Makes vision models for bench/pictures: picture encoders with the shapes of real ones, and text models with the right width but
few and small layers. The weights are random."""

import dataclasses
from collections.abc import Callable

from comparison import synthetic
from comparison.synthetic import f32

N_VOCAB = 320
FIRST_SPECIAL = 300  # the special tokens for pictures begin here


@dataclasses.dataclass(frozen=True)
class VisionModel:
    pixels: int  # width and height of the test pictures
    special: list  # the special tokens for pictures
    text: Callable  # (): metadata and tensors of the text model
    encoder: Callable  # (): metadata and tensors of the projector file


def f16(*dims):
    return ("F16", dims)


def vocabulary(special):
    words = ["<pad>", "<s>", "</s>"] + [chr(256 + i) for i in range(N_VOCAB)]
    words = words[:FIRST_SPECIAL] + special
    words += [f"<unused{i}>" for i in range(N_VOCAB - len(words))]
    kinds = [3] * 3 + [1] * (FIRST_SPECIAL - 3) + [3] * (N_VOCAB - FIRST_SPECIAL)
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": words,
            "tokenizer.ggml.token_type": kinds, "tokenizer.ggml.merges": [f"{words[3]} {words[4]}"],
            "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.padding_token_id": 0}


def text_model(architecture, n_embd, n_layers, special, keys, extra_norms=()):
    n_ff, heads, head_len = 256, 4, 64
    common = {"block_count": n_layers, "context_length": 8192, "embedding_length": n_embd, "feed_forward_length": n_ff,
              "attention.head_count": heads, "attention.head_count_kv": heads, "attention.key_length": head_len,
              "attention.value_length": head_len, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6}
    fields = {"general.architecture": architecture, **{f"{architecture}.{key}": value for key, value in (common | keys).items()},
              **vocabulary(special)}
    tensors = {"token_embd.weight": f32(n_embd, N_VOCAB), "output_norm.weight": f32(n_embd)}
    for layer in range(n_layers):
        names = {"attn_norm": (n_embd,), "ffn_norm": (n_embd,), "attn_q_norm": (head_len,), "attn_k_norm": (head_len,),
                 "attn_q": (n_embd, heads * head_len), "attn_k": (n_embd, heads * head_len), "attn_v": (n_embd, heads * head_len),
                 "attn_output": (heads * head_len, n_embd), "ffn_gate": (n_embd, n_ff), "ffn_up": (n_embd, n_ff),
                 "ffn_down": (n_ff, n_embd), **{norm: (n_embd,) for norm in extra_norms}}
        tensors |= {f"blk.{layer}.{name}.weight": f32(*dims) for name, dims in names.items()}
    return fields, tensors


def encoder_fields(projector, pixels, patch, n_embd, n_ff, n_layers, heads, n_out, keys):
    vision = {"projection_dim": n_out, "image_size": pixels, "patch_size": patch, "embedding_length": n_embd,
              "feed_forward_length": n_ff, "block_count": n_layers, "attention.head_count": heads, "image_mean": [0.5, 0.5, 0.5],
              "image_std": [0.5, 0.5, 0.5], "attention.layer_norm_epsilon": 1e-6} | keys
    return {"general.architecture": "clip", "general.type": "mmproj", "clip.has_vision_encoder": True,
            "clip.projector_type": projector, "clip.use_gelu": True,
            **{f"clip.vision.{key}": value for key, value in vision.items()}}


def with_bias(name, n_in, n_out):
    return {f"{name}.weight": f16(n_in, n_out), f"{name}.bias": f32(n_out)}


def norm(name, n):
    return {f"{name}.weight": f32(n), f"{name}.bias": f32(n)}


def encoder_layer(prefix, n_embd, n_ff, is_joint):
    attention = with_bias(f"{prefix}.attn_qkv", n_embd, 3 * n_embd) if is_joint else {
        key: value for part in "qkv" for key, value in with_bias(f"{prefix}.attn_{part}", n_embd, n_embd).items()}
    return (norm(f"{prefix}.ln1", n_embd) | norm(f"{prefix}.ln2", n_embd) | attention | with_bias(f"{prefix}.attn_out", n_embd, n_embd) |
            with_bias(f"{prefix}.ffn_up", n_embd, n_ff) | with_bias(f"{prefix}.ffn_down", n_ff, n_embd))


def siglip():
    """SigLIP-400M at 896 pixels with the projector of Gemma 3 4B: 4,096 patches, 256 tokens."""
    n_embd, n_ff, n_layers, n_out, patch, pixels = 1152, 4304, 27, 2560, 14, 896
    fields = encoder_fields("gemma3", pixels, patch, n_embd, n_ff, n_layers, 16, n_out, {})
    tensors = {"v.patch_embd.weight": f16(patch, patch, 3, n_embd), "v.patch_embd.bias": f32(n_embd),
               "v.position_embd.weight": f32(n_embd, (pixels // patch) ** 2), **norm("v.post_ln", n_embd),
               "mm.input_projection.weight": f16(n_out, n_embd), "mm.soft_emb_norm.weight": f32(n_embd)}
    for layer in range(n_layers):
        tensors |= encoder_layer(f"v.blk.{layer}", n_embd, n_ff, is_joint=False)
    return fields, tensors


def qwen3_vl():
    """The encoder of Qwen3-VL-2B: 4,096 patches and 1,024 tokens at 1,024 x 1,024 pixels."""
    n_embd, n_ff, n_layers, n_out, patch, deep = 1024, 4096, 24, 2048, 16, (5, 11, 17)
    fields = encoder_fields("qwen3vl_merger", 768, patch, n_embd, n_ff, n_layers, 16, n_out,
                            {"spatial_merge_size": 2, "is_deepstack_layers": [i in deep for i in range(n_layers)]})
    merged = 4 * n_embd
    tensors = {"v.patch_embd.weight": f16(patch, patch, 3, n_embd), "v.patch_embd.weight.1": f16(patch, patch, 3, n_embd),
               "v.patch_embd.bias": f32(n_embd), "v.position_embd.weight": f32(n_embd, 48 * 48), **norm("v.post_ln", n_embd),
               **with_bias("mm.0", merged, merged), **with_bias("mm.2", merged, n_out)}
    for layer in range(n_layers):
        tensors |= encoder_layer(f"v.blk.{layer}", n_embd, n_ff, is_joint=True)
    for layer in deep:
        prefix = f"v.deepstack.{layer}"
        tensors |= norm(f"{prefix}.norm", merged) | with_bias(f"{prefix}.fc1", merged, merged) | with_bias(f"{prefix}.fc2", merged, n_out)
    return fields, tensors


GEMMA_WORDS = ["<image_soft_token>", "<start_of_image>", "<end_of_image>"]
QWEN_WORDS = ["<|image_pad|>", "<|vision_start|>", "<|vision_end|>"]

MODELS = {
    "siglip-400m-896": VisionModel(
        896, GEMMA_WORDS, lambda: text_model("gemma3", 2560, 2, GEMMA_WORDS, {"attention.sliding_window": 1024},
                                             ("post_attention_norm", "post_ffw_norm")), siglip),
    "qwen3-vl-2b": VisionModel(
        1024, QWEN_WORDS, lambda: text_model("qwen3vl", 2048, 4, QWEN_WORDS, {"rope.dimension_sections": [11, 11, 10, 0],
                                                                            "n_deepstack_layers": 3}), qwen3_vl),
}


def make(name, folder):
    """Writes the text model and the projector into the folder if they are absent. Returns their paths."""
    text, projector = folder / f"{name}.gguf", folder / f"{name}.mmproj.gguf"
    for path, contents in ((text, MODELS[name].text), (projector, MODELS[name].encoder)):
        if not path.exists():
            synthetic.write(path, *contents(), path.name)
    return text, projector
