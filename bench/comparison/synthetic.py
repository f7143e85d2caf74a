"""Makes model files with the shapes of real models and random weights, for speed tests only. A file has a few of the model's
layers. Its vocabulary is reduced by the same factor, so the output matrix has the same share of the weights as in the real
model. Every program reads the same bytes, and nothing must be downloaded. To add a model, add a row to SHAPES."""

import dataclasses
import math
import os
import pathlib
import random
import struct
from collections.abc import Callable

FOLDER = pathlib.Path.home() / ".cache/billow/synthetic"

ALIGNMENT = 32
N_BYTES = 256
MAX_RANDOM_FLOATS = 1 << 20  # longer tensors repeat these numbers


@dataclasses.dataclass(frozen=True)
class Type:
    """A tensor type. Blocks are random bytes. Fixed bytes at some offsets give weights of about 0.02."""

    number: int
    block_len: int
    block_bytes: int
    fixed: dict  # byte offset in a block -> fixed bytes


def half(value):
    return struct.pack("<e", value)


# For unsigned codes with an offset, the offset centres the codes around zero.
TYPES = {
    "F32": Type(0, 1, 4, {}),
    "F16": Type(1, 1, 2, {}),
    "Q8_0": Type(8, 32, 34, {0: half(2.7e-4)}),
    "Q2_K": Type(10, 256, 84, {80: half(1.2e-3) + half(1.8e-3)}),
    "Q3_K": Type(11, 256, 110, {108: half(4.7e-4)}),
    "Q4_K": Type(12, 256, 144, {0: half(1.2e-4) + half(9e-4)}),
    "Q5_K": Type(13, 256, 176, {0: half(6e-5) + half(9.3e-4)}),
    "Q6_K": Type(14, 256, 210, {208: half(1.5e-5)}),
    "MXFP4": Type(39, 32, 17, {0: bytes([120])}),
}


@dataclasses.dataclass(frozen=True)
class Shape:
    architecture: str
    n_layers: int
    of_layers: int  # layers of the real model
    n_vocab: int  # vocabulary of the real model
    n_embd: int
    keys: dict  # without the architecture; the common keys are added
    layer: Callable  # layer(shape, index, mixture): {tensor: (type, dimensions)}
    mixture: str  # of types: Q4_K_M, MXFP4, or one type for all tensors
    tied: bool = False
    output_norm: str = "output_norm"

    def vocabulary(self):
        return self.n_vocab * self.n_layers // self.of_layers // 64 * 64


class Mixture:
    """The types that llama-quantize chooses. In a real model, half of the layers get more bits; here every other layer does."""

    def __init__(self, name, index):
        k_m = name == "Q4_K_M"
        self.plain = {"Q4_K_M": "Q4_K", "MXFP4": "Q8_0"}.get(name, name)
        self.expert = name if name == "MXFP4" else self.plain
        self.important = "Q6_K" if k_m and index % 2 == 1 else self.plain  # values and down projections
        self.important_expert = "Q6_K" if k_m and index % 2 == 1 else self.expert
        self.joint = "Q5_K" if k_m else self.plain  # query, key and value in one matrix
        self.output = "Q6_K" if k_m else self.plain


def f32(*dims):
    return ("F32", dims)


def attention(shape, m, heads, kv_heads, head_len, norms=True, gated=False, biases=False):
    q, kv = heads * head_len, kv_heads * head_len
    out = {"attn_q.weight": (m.plain, (shape.n_embd, q * (2 if gated else 1))),
           "attn_k.weight": (m.plain, (shape.n_embd, kv)), "attn_v.weight": (m.important, (shape.n_embd, kv)),
           "attn_output.weight": (m.plain, (q, shape.n_embd))}
    if norms:
        out |= {"attn_q_norm.weight": f32(head_len), "attn_k_norm.weight": f32(head_len)}
    if biases:
        out |= {"attn_q.bias": f32(q), "attn_k.bias": f32(kv), "attn_v.bias": f32(kv),
                "attn_output.bias": f32(shape.n_embd), "attn_sinks.weight": f32(heads)}
    return out


def feed_forward(shape, m, n_ff, suffix=""):
    return {f"ffn_gate{suffix}.weight": (m.plain, (shape.n_embd, n_ff)),
            f"ffn_up{suffix}.weight": (m.plain, (shape.n_embd, n_ff)),
            f"ffn_down{suffix}.weight": (m.important, (n_ff, shape.n_embd))}


def experts(shape, m, n, n_ff, biases=False):
    out = {"ffn_gate_inp.weight": f32(shape.n_embd, n),
           "ffn_gate_exps.weight": (m.expert, (shape.n_embd, n_ff, n)),
           "ffn_up_exps.weight": (m.expert, (shape.n_embd, n_ff, n)),
           "ffn_down_exps.weight": (m.important_expert, (n_ff, shape.n_embd, n))}
    if biases:
        out |= {"ffn_gate_inp.bias": f32(n), "ffn_gate_exps.bias": f32(n_ff, n), "ffn_up_exps.bias": f32(n_ff, n),
                "ffn_down_exps.bias": f32(shape.n_embd, n)}
    return out


def llama_layer(shape, _, m):
    return ({"attn_norm.weight": f32(shape.n_embd), "ffn_norm.weight": f32(shape.n_embd)} |
            attention(shape, m, 32, 8, 128, norms=False) | feed_forward(shape, m, 14336))


def qwen3_moe_layer(shape, _, m):
    return ({"attn_norm.weight": f32(shape.n_embd), "ffn_norm.weight": f32(shape.n_embd)} |
            attention(shape, m, 32, 4, 128) | experts(shape, m, 128, 768))


def gpt_oss_layer(shape, _, m):
    return ({"attn_norm.weight": f32(shape.n_embd), "post_attention_norm.weight": f32(shape.n_embd)} |
            attention(shape, m, 64, 8, 64, norms=False, biases=True) | experts(shape, m, 32, 2880, biases=True))


def qwen35_moe_layer(shape, index, m):
    n, key_heads, heads, state = shape.n_embd, 16, 32, 128
    convolved = (2 * key_heads + heads) * state
    delta_net = {"attn_qkv.weight": (m.joint, (n, convolved)), "attn_gate.weight": (m.plain, (n, heads * state)),
                 "ssm_alpha.weight": (m.plain, (n, heads)), "ssm_beta.weight": (m.plain, (n, heads)),
                 "ssm_conv1d.weight": f32(4, convolved), "ssm_a": f32(heads), "ssm_dt.bias": f32(heads),
                 "ssm_norm.weight": f32(state), "ssm_out.weight": (m.plain, (heads * state, n))}
    mixer = attention(shape, m, 16, 2, 256, gated=True) if index % 4 == 3 else delta_net
    return ({"attn_norm.weight": f32(n), "post_attention_norm.weight": f32(n)} | mixer | experts(shape, m, 256, 512) |
            feed_forward(shape, m, 512, "_shexp") | {"ffn_gate_inp_shexp.weight": f32(n)})


def lfm2_moe_layer(shape, index, m):
    n = shape.n_embd
    conv = {"shortconv.conv.weight": f32(3, n), "shortconv.in_proj.weight": (m.plain, (n, 3 * n)),
            "shortconv.out_proj.weight": (m.plain, (n, n))}
    mixer = attention(shape, m, 32, 8, 64) if shape.keys["attention.head_count_kv"][index] else conv
    if index < shape.keys["leading_dense_block_count"]:
        block = feed_forward(shape, m, 7168)
    else:
        block = experts(shape, m, 32, 1792) | {"exp_probs_b.bias": f32(32)}
    return {"attn_norm.weight": f32(n), "ffn_norm.weight": f32(n)} | mixer | block


def llama_8b(mixture):
    return Shape("llama", 8, 32, 128256, 4096,
                 {"feed_forward_length": 14336, "attention.head_count": 32, "attention.head_count_kv": 8,
                  "rope.dimension_count": 128, "rope.freq_base": 500000.0}, llama_layer, mixture)


SHAPES = {
    "llama-3.1-8b-q4_k_m": llama_8b("Q4_K_M"),
    "llama-3.1-8b-q4_k": llama_8b("Q4_K"),
    "llama-3.1-8b-q3_k": llama_8b("Q3_K"),
    "llama-3.1-8b-q2_k": llama_8b("Q2_K"),
    "qwen3-30b-a3b-q4_k_m": Shape(
        "qwen3moe", 6, 48, 151936, 2048,
        {"feed_forward_length": 6144, "attention.head_count": 32, "attention.head_count_kv": 4,
         "attention.key_length": 128, "attention.value_length": 128, "rope.freq_base": 1e6, "expert_count": 128,
         "expert_used_count": 8, "expert_feed_forward_length": 768}, qwen3_moe_layer, "Q4_K_M"),
    "gpt-oss-20b-mxfp4": Shape(
        "gpt-oss", 4, 24, 201088, 2880,
        {"feed_forward_length": 2880, "attention.head_count": 64, "attention.head_count_kv": 8,
         "attention.key_length": 64, "attention.value_length": 64, "attention.sliding_window": 128,
         "rope.freq_base": 150000.0, "rope.scaling.type": "yarn", "rope.scaling.factor": 32.0,
         "rope.scaling.original_context_length": 4096, "expert_count": 32, "expert_used_count": 4,
         "expert_feed_forward_length": 2880}, gpt_oss_layer, "MXFP4"),
    "qwen3.5-35b-a3b-q4_k_m": Shape(
        "qwen35moe", 8, 40, 248320, 2048,
        {"feed_forward_length": 6144, "attention.head_count": 16, "attention.head_count_kv": 2,
         "attention.key_length": 256, "attention.value_length": 256, "rope.freq_base": 1e7,
         "rope.dimension_count": 64, "rope.dimension_sections": [11, 11, 10, 0], "full_attention_interval": 4,
         "ssm.conv_kernel": 4, "ssm.state_size": 128, "ssm.group_count": 16, "ssm.time_step_rank": 32,
         "ssm.inner_size": 4096, "expert_count": 256, "expert_used_count": 8, "expert_feed_forward_length": 512,
         "expert_shared_feed_forward_length": 512}, qwen35_moe_layer, "Q4_K_M"),
    "lfm2-8b-a1b-q4_k_m": Shape(
        "lfm2moe", 8, 24, 65536, 2048,
        {"feed_forward_length": 7168, "attention.head_count": 32, "attention.head_count_kv": [0, 0, 8, 0, 0, 0, 8, 0],
         "rope.freq_base": 1e6, "shortconv.l_cache": 3, "leading_dense_block_count": 1, "expert_gating_func": 2,
         "expert_count": 32, "expert_used_count": 4, "expert_feed_forward_length": 1792}, lfm2_moe_layer, "Q4_K_M",
        tied=True, output_norm="token_embd_norm"),
}


def tensors(shape):
    """Returns {name: (type, dimensions)} of the whole file."""
    m = Mixture(shape.mixture, 0)
    out = {"token_embd.weight": (m.output if shape.tied else m.plain, (shape.n_embd, shape.vocabulary())),
           shape.output_norm + ".weight": f32(shape.n_embd)}
    if not shape.tied:
        out["output.weight"] = (m.output, (shape.n_embd, shape.vocabulary()))
    for index in range(shape.n_layers):
        layer = shape.layer(shape, index, Mixture(shape.mixture, index))
        out |= {f"blk.{index}.{name}": tensor for name, tensor in layer.items()}
    return out


def metadata(shape):
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(N_BYTES)]
    words = special + [f"\u2581w{i}" for i in range(shape.vocabulary() - len(special))]
    kinds = [2, 3, 3] + [6] * N_BYTES + [1] * (len(words) - len(special))
    of_model = {"block_count": shape.n_layers, "context_length": 32768, "embedding_length": shape.n_embd,
                "attention.layer_norm_rms_epsilon": 1e-6, "vocab_size": len(words)} | shape.keys
    return ({"general.architecture": shape.architecture} |
            {f"{shape.architecture}.{key}": value for key, value in of_model.items()} |
            {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": words,
             "tokenizer.ggml.scores": [float(-i) for i in range(len(words))], "tokenizer.ggml.token_type": kinds,
             "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
             "tokenizer.ggml.add_bos_token": False})


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


# The number and the encoder of each metadata type.
KINDS = {bool: (7, lambda v: struct.pack("<?", v)), int: (4, lambda v: struct.pack("<I", v)),
         float: (6, lambda v: struct.pack("<f", v)), str: (8, text)}


SIGNED = (5, lambda v: struct.pack("<i", v))  # readers expect this type for integers in lists


def field(value):
    if isinstance(value, list):
        kind, write = SIGNED if isinstance(value[0], int) else KINDS[type(value[0])]
        return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(map(write, value))
    kind, write = KINDS[type(value)]
    return struct.pack("<I", kind) + write(value)


class Weights:
    """Random blocks of each type: a few MiB per type. A tensor consists of runs from random offsets."""

    BLOCKS = 1 << 14

    def __init__(self, seed):
        self.random, self.pools, self.floats = random.Random(seed), {}, {}

    def pool(self, name):
        if name not in self.pools:
            kind = TYPES[name]
            pool = bytearray(self.random.randbytes(self.BLOCKS * kind.block_bytes))
            for at, fixed in kind.fixed.items():
                for i, byte in enumerate(fixed):
                    pool[at + i::kind.block_bytes] = bytes([byte]) * self.BLOCKS
            self.pools[name] = bytes(pool)
        return self.pools[name]

    def write(self, out, name, n):
        kind = TYPES[name]
        blocks, pool = n // kind.block_len, self.pool(name)
        while blocks > 0:
            first = self.random.randrange(self.BLOCKS)
            run = min(blocks, self.BLOCKS - first)
            out.write(pool[first * kind.block_bytes:(first + run) * kind.block_bytes])
            blocks -= run

    def write_floats(self, out, tensor, kind, n):
        """Writes norms around 1, decay rates and steps in the range of trained models, and all other values around 0.02."""
        low, high = -0.035, 0.035
        for ending, span in (("norm.weight", (0.9, 1.1)), ("ln.weight", (0.9, 1.1)), ("ln1.weight", (0.9, 1.1)),
                             ("ln2.weight", (0.9, 1.1)), ("ssm_a", (-8.0, -0.1)), ("ssm_dt.bias", (-4.0, 1.0)),
                             ("ssm_conv1d.weight", (-0.5, 0.5)), ("shortconv.conv.weight", (-0.5, 0.5))):
            if tensor.endswith(ending):
                low, high = span
        if (kind, low) not in self.floats:
            letter = "e" if kind == "F16" else "f"
            values = (self.random.uniform(low, high) for _ in range(MAX_RANDOM_FLOATS))
            self.floats[kind, low] = struct.pack(f"<{MAX_RANDOM_FLOATS}{letter}", *values)
        pool, n_bytes = self.floats[kind, low], n * TYPES[kind].block_bytes
        at = self.random.randrange(MAX_RANDOM_FLOATS) * TYPES[kind].block_bytes
        while n_bytes > 0:
            piece = pool[at:at + n_bytes]
            out.write(piece)
            n_bytes, at = n_bytes - len(piece), 0


def size_of(kind, dims):
    return math.prod(dims) // TYPES[kind].block_len * TYPES[kind].block_bytes


def make(name, path):
    """Writes the model with this name. The bytes are the same each time."""
    write(path, metadata(SHAPES[name]), tensors(SHAPES[name]), name)


def write(path, fields, all_tensors, seed):
    """Writes a GGUF file with the metadata and with random weights that depend on the seed."""
    header, infos, at = bytearray(), bytearray(), 0
    for key, value in fields.items():
        header += text(key) + field(value)
    for tensor, (kind, dims) in all_tensors.items():
        infos += text(tensor) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TYPES[kind].number, at)
        at += -(-size_of(kind, dims) // ALIGNMENT) * ALIGNMENT
    weights, path = Weights(seed), pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), len(fields)) + header + infos)
        for tensor, (kind, dims) in all_tensors.items():
            out.write(bytes(-out.tell() % ALIGNMENT))
            if kind in ("F32", "F16"):
                weights.write_floats(out, tensor, kind, math.prod(dims))
            else:
                weights.write(out, kind, math.prod(dims))
        out.write(bytes(-out.tell() % ALIGNMENT))
    os.replace(part, path)
