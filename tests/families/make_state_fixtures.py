#!/usr/bin/env python3
"""Makes tiny models of recurrent families that Hugging Face transformers lacks, with their expected logits.

    make_state_fixtures.py OUT [--only NAME,NAME] [--seed 1] [--llama-logits PROGRAM]

Weights are random and exact in BF16. The logits come from a forward pass in float64 (NumPy) that follows the formulas
of the papers row by row: Kimi Linear (arXiv 2510.26692) and RWKV 7 (arXiv 2503.14456). The call
PROGRAM MODEL OUT TOKEN... writes llama.cpp's logits of all positions to OUT as float32, with an F32 cache. The script
fails if they differ. Needs NumPy and the Python package gguf.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np

WORDS, WIDTH, TOKENS, POSITIONS = 160, 64, 24, 512
BEGIN, END = 1, 2
MOST_DIVERGENCE = 1e-9
EPSILON = 1e-5


def words():
    """Returns special tokens, then one token per byte in GPT-2's spelling."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    spelling = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return (["<pad>", "<s>", "</s>"] + [spelling[byte] for byte in range(256)])[:WORDS]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softplus(x):
    return np.logaddexp(0, x)


def rms_norm(x, weight, eps=EPSILON):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def layer_norm(x, weight, bias, eps=EPSILON):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight + bias


def shifted(x):
    """Returns each row's predecessor."""
    return np.concatenate([np.zeros_like(x[:1]), x[:-1]])


class Weights:
    """Random tensors by name, made at first use. Matrices are [outputs, inputs], as in the file."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.tensors = {}

    def draw(self, name, shape, mean, deviation):
        if name not in self.tensors:
            values = (mean + deviation * self.random.standard_normal(shape)).astype(np.float32)
            bits = values.view(np.uint32) + 0x8000 & 0xFFFF0000
            self.tensors[name] = bits.astype(np.uint32).view(np.float32)
        return self.tensors[name].astype(np.float64)

    def matrix(self, name, n_in, *shape):
        size = 0.25 if "embd" in name or name == "output.weight" else 1.2 / math.sqrt(min(n_in, shape[-1]))
        return self.draw(name, (*shape, n_in), 0, size)

    def vector(self, name, shape, mean=0.0, deviation=0.1):
        return self.draw(name, shape, mean, deviation)

    def layer_norm(self, name, x, eps=EPSILON):
        n = x.shape[-1]
        return layer_norm(x, self.vector(name + ".weight", n, 1), self.vector(name + ".bias", n), eps)

    def rms_norm(self, name, x):
        return rms_norm(x, self.vector(name + ".weight", x.shape[-1], 1))

    def multiply(self, name, x, n_out):
        return x @ self.matrix(name + ".weight", x.shape[-1], n_out).T

    def feed_forward(self, prefix, suffix, x, n_ff):
        inner = silu(self.multiply(f"{prefix}ffn_gate{suffix}", x, n_ff)) * self.multiply(f"{prefix}ffn_up{suffix}", x, n_ff)
        return self.multiply(f"{prefix}ffn_down{suffix}", inner, x.shape[-1])


class KimiLinear:
    """Kimi delta attention, one layer of latent attention without rotation, and experts weighted by sigmoid."""
    architecture = "kimi-linear"
    heads, head, taps = 2, 32, 4
    rank, rotating, key, value = 32, 16, 48, 32
    n_ff, n_ff_expert, experts, used, scale = 64, 16, 4, 2, 2.446
    layers, latent_layers = 3, (1,)
    compared = {}  # attributes that differ in the model for llama.cpp

    def keys(self):
        return {
            "feed_forward_length": self.n_ff, "attention.head_count": self.heads,
            "attention.head_count_kv": [1 if i in self.latent_layers else 0 for i in range(self.layers)],
            "attention.layer_norm_rms_epsilon": EPSILON, "ssm.conv_kernel": self.taps, "kda.head_dim": self.head,
            "attention.kv_lora_rank": self.rank, "rope.dimension_count": self.rotating,
            "attention.key_length": self.rank + self.rotating, "attention.value_length": self.rank,
            "attention.key_length_mla": self.key, "attention.value_length_mla": self.value,
            "expert_count": self.experts, "expert_used_count": self.used, "expert_shared_count": 1,
            "expert_feed_forward_length": self.n_ff_expert, "leading_dense_block_count": 1,
            "expert_weights_scale": self.scale, "expert_weights_norm": True, "expert_gating_func": 2}

    def delta(self, weights, at, x):
        n = self.heads * self.head
        parts = []
        for name in "qkv":
            raw = weights.multiply(f"{at}attn_{name}", x, n)
            taps = weights.vector(f"{at}ssm_conv1d_{name}.weight", (n, 1, self.taps), 0, 0.5)[:, 0]
            before = np.concatenate([np.zeros((self.taps - 1, n)), raw])
            convolved = sum(before[t:t + len(x)] * taps[:, t] for t in range(self.taps))
            parts.append(silu(convolved).reshape(len(x), self.heads, self.head))
        queries, keys, values = parts
        queries = queries / np.sqrt((queries ** 2).sum(-1, keepdims=True) + EPSILON) / math.sqrt(self.head)
        keys = keys / np.sqrt((keys ** 2).sum(-1, keepdims=True) + EPSILON)
        step = weights.multiply(f"{at}ssm_f_b", weights.multiply(f"{at}ssm_f_a", x, self.head), n)
        step = softplus(step + weights.vector(f"{at}ssm_dt.bias", n, 0, 0.3)).reshape(len(x), self.heads, self.head)
        rates = weights.vector(f"{at}ssm_a", (self.heads, 1), -0.7, 0.3)
        decays = np.exp(rates * step)
        gains = sigmoid(weights.multiply(f"{at}ssm_beta", x, self.heads))
        gate = weights.multiply(f"{at}ssm_g_b", weights.multiply(f"{at}ssm_g_a", x, self.head), n)
        state = np.zeros((self.heads, self.head, self.head))  # by head: keys x values
        out = np.zeros_like(values)
        for t in range(len(x)):
            state = state * decays[t][:, :, None]
            held = np.einsum("hkv,hk->hv", state, keys[t])
            added = gains[t][:, None] * (values[t] - held)
            state = state + keys[t][:, :, None] * added[:, None]
            out[t] = np.einsum("hkv,hk->hv", state, queries[t])
        out = weights.rms_norm(f"{at}ssm_norm", out).reshape(len(x), n) * sigmoid(gate)
        return weights.multiply(f"{at}attn_output", out, WIDTH)

    def latent(self, weights, at, x):
        plain = self.key - self.rotating
        queries = weights.multiply(f"{at}attn_q", x, self.heads * self.key).reshape(len(x), self.heads, self.key)
        row = weights.multiply(f"{at}attn_kv_a_mqa", x, self.rank + self.rotating)
        state, shared = weights.rms_norm(f"{at}attn_kv_a_norm", row[:, :self.rank]), row[:, self.rank:]
        # Both are by head. The first is stored transposed.
        key_up = weights.matrix(f"{at}attn_k_b.weight", plain, self.heads, self.rank)
        value_up = weights.matrix(f"{at}attn_v_b.weight", self.rank, self.heads, self.value)
        keys = np.concatenate([np.einsum("tr,hrp->thp", state, key_up),
                               np.repeat(shared[:, None], self.heads, 1)], -1)
        values = np.einsum("tr,hvr->thv", state, value_up)
        scores = np.einsum("thk,shk->hts", queries, keys) / math.sqrt(self.key)
        scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        out = np.einsum("hts,shv->thv", softmax(scores), values).reshape(len(x), -1)
        return weights.multiply(f"{at}attn_output", out, WIDTH)

    def mixture(self, weights, at, x):
        scores = sigmoid(weights.multiply(f"{at}ffn_gate_inp", x, self.experts))
        biased = scores + weights.vector(f"{at}exp_probs_b.bias", self.experts)
        gate = weights.matrix(f"{at}ffn_gate_exps.weight", WIDTH, self.experts, self.n_ff_expert)
        up = weights.matrix(f"{at}ffn_up_exps.weight", WIDTH, self.experts, self.n_ff_expert)
        down = weights.matrix(f"{at}ffn_down_exps.weight", self.n_ff_expert, self.experts, WIDTH)
        out = weights.feed_forward(at, "_shexp", x, self.n_ff_expert)
        for t, row in enumerate(x):
            chosen = np.argsort(-biased[t])[:self.used]
            share = scores[t][chosen] / scores[t][chosen].sum() * self.scale
            for expert, weight in zip(chosen, share):
                out[t] += weight * (down[expert] @ (silu(gate[expert] @ row) * (up[expert] @ row)))
        return out

    def forward(self, weights, tokens):
        x = weights.matrix("token_embd.weight", WIDTH, WORDS)[tokens]
        for i in range(self.layers):
            at = f"blk.{i}."
            mixer = self.latent if i in self.latent_layers else self.delta
            x = x + mixer(weights, at, weights.rms_norm(f"{at}attn_norm", x))
            fed = weights.rms_norm(f"{at}ffn_norm", x)
            x = x + (self.mixture(weights, at, fed) if i > 0 else weights.feed_forward(at, "", fed, self.n_ff))
        return weights.multiply("output", weights.rms_norm("output_norm", x), WORDS)


class Rwkv7:
    """RWKV 7: layer norms, and a channel mix that uses the previous row."""
    architecture = "rwkv7"
    head, n_ff, layers = 32, 96, 2
    decay_rank, rate_rank, value_rank, gate_rank = 32, 16, 16, 32
    gated, n_shifts = True, 2
    compared = {"head": 64}  # llama.cpp's AVX-512 code takes 64 keys together

    @property
    def heads(self):
        return WIDTH // self.head

    def keys(self):
        return {"feed_forward_length": self.n_ff, "attention.head_count": 0, "wkv.head_size": self.head,
                "attention.layer_norm_epsilon": EPSILON, "attention.decay_lora_rank": self.decay_rank,
                "attention.iclr_lora_rank": self.rate_rank,
                "attention.value_residual_mix_lora_rank": self.value_rank,
                "attention.gate_lora_rank": self.gate_rank, "token_shift_count": self.n_shifts}

    @staticmethod
    def low_rank(weights, at, name, x, rank, activation=lambda x: x):
        """Returns the low-rank product of NAME1 and NAME2 plus NAME0."""
        at = f"{at}time_mix_{name}"
        out = weights.multiply(f"{at}2", activation(weights.multiply(f"{at}1", x, rank)), WIDTH)
        return out if name == "g" else out + weights.vector(f"{at}0.weight", WIDTH, 0, 0.5)

    def time_mix(self, weights, at, x, first):
        mix = f"{at}time_mix_"
        by_head = (len(x), self.heads, self.head)
        lerp = weights.vector(f"{mix}lerp_fused.weight", (6 if self.gated else 5, 1, 1, WIDTH), 0.5, 0.2)
        apart = shifted(x) - x
        inputs = [x + apart * row[0, 0] for row in lerp]
        queries = weights.multiply(f"{mix}receptance", inputs[0], WIDTH)
        decays = self.low_rank(weights, at, "w", inputs[1], self.decay_rank, np.tanh)
        decays = np.exp(-math.exp(-0.5) * sigmoid(decays))
        keys = weights.multiply(f"{mix}key", inputs[2], WIDTH)
        values = weights.multiply(f"{mix}value", inputs[3], WIDTH)
        # The first layer has these tensors, too, but they have no effect.
        shares = sigmoid(self.low_rank(weights, at, "v", inputs[3], self.value_rank))
        first = values if first is None else first
        values = values + (first - values) * shares
        rates = sigmoid(self.low_rank(weights, at, "a", inputs[4], self.rate_rank))
        removed = (keys * weights.vector(f"{mix}k_k.weight", WIDTH, 0.85)).reshape(by_head)
        removed = removed / np.sqrt((removed ** 2).sum(-1, keepdims=True))
        keys = keys * (1 + weights.vector(f"{mix}k_a.weight", WIDTH, 1) * (rates - 1))
        queries, decays, keys, values, rates = (
            rows.reshape(by_head) for rows in (queries, decays, keys, values, rates))
        state = np.zeros((self.heads, self.head, self.head))  # by head: values x keys
        out = np.zeros(by_head)
        for t in range(len(x)):
            for h in range(self.heads):
                change = np.diag(decays[t, h]) - np.outer(removed[t, h], removed[t, h] * rates[t, h])
                state[h] = state[h] @ change + np.outer(values[t, h], keys[t, h])
                out[t, h] = state[h] @ queries[t, h]
        out = self.head_norm(weights, mix, out)
        bonus = (queries * keys * weights.vector(f"{mix}r_k.weight", WIDTH, 0, 0.3).reshape(self.heads, -1)).sum(-1)
        out = (out + bonus[:, :, None] * values).reshape(len(x), WIDTH)
        if self.gated:
            out = out * self.low_rank(weights, at, "g", inputs[5], self.gate_rank, sigmoid)
        return weights.multiply(f"{mix}output", out, WIDTH), first

    def head_norm(self, weights, mix, x):
        by_head = (self.heads, self.head)
        return layer_norm(x, weights.vector(f"{mix}ln.weight", WIDTH, 1).reshape(by_head),
                          weights.vector(f"{mix}ln.bias", WIDTH).reshape(by_head), 64e-5)

    def channel_mix(self, weights, at, x):
        x = x + (shifted(x) - x) * weights.vector(f"{at}channel_mix_lerp_k.weight", (1, 1, WIDTH), 0.5, 0.2)[0, 0]
        inner = np.maximum(weights.multiply(f"{at}channel_mix_key", x, self.n_ff), 0) ** 2
        return weights.multiply(f"{at}channel_mix_value", inner, WIDTH)

    def forward(self, weights, tokens):
        x = weights.layer_norm("token_embd_norm", weights.matrix("token_embd.weight", WIDTH, WORDS)[tokens])
        first = None
        for i in range(self.layers):
            at = f"blk.{i}."
            mixed, first = self.time_mix(weights, at, weights.layer_norm(f"{at}attn_norm", x), first)
            x = x + mixed
            x = x + self.channel_mix(weights, at, weights.layer_norm(f"{at}attn_norm_2", x))
        return weights.multiply("output", weights.layer_norm("output_norm", x), WORDS)


class ARwkv7(Rwkv7):
    """A Qwen 2 with the time mix of RWKV 7, without its gate and head norm."""
    architecture = "arwkv7"
    gated, n_shifts, gate_rank = False, 1, 0

    def keys(self):
        keys = super().keys()
        keys["attention.layer_norm_rms_epsilon"] = keys.pop("attention.layer_norm_epsilon")
        return keys

    def head_norm(self, weights, mix, x):
        return x

    def forward(self, weights, tokens):
        x = weights.matrix("token_embd.weight", WIDTH, WORDS)[tokens]
        first = None
        for i in range(self.layers):
            at = f"blk.{i}."
            mixed, first = self.time_mix(weights, at, weights.rms_norm(f"{at}attn_norm", x), first)
            x = x + mixed
            x = x + weights.feed_forward(at, "", weights.rms_norm(f"{at}ffn_norm", x), self.n_ff)
        return weights.multiply("output", weights.rms_norm("output_norm", x), WORDS)


FAMILIES = {"kimi-linear": KimiLinear, "rwkv7": Rwkv7, "arwkv7": ARwkv7}


def write(path, family, weights, as_floats):
    writer = gguf.GGUFWriter(path, family.architecture)
    keys = {"context_length": POSITIONS, "embedding_length": WIDTH, "block_count": family.layers,
            "vocab_size": WORDS} | family.keys()
    for name, value in keys.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}
        add[type(value)](f"{family.architecture}.{name}", value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words())
    writer.add_token_types([3, 3, 3] + [1] * (WORDS - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(END)
    writer.add_pad_token_id(0)
    for name, values in weights.tensors.items():
        is_matrix = values.ndim >= 2 and not any(part in name for part in ("conv1d", "lerp", "ssm_a"))
        if is_matrix and not as_floats:
            halves = (values.view(np.uint32) >> 16).astype(np.uint16)
            writer.add_tensor(name, halves.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def divergence(expected, found):
    """Returns the mean KL divergence over positions."""
    p, q = np.log(softmax(expected)), np.log(softmax(found.astype(np.float64)))
    return float((np.exp(p) * (p - q)).sum(-1).mean())


def llama_logits(program, model, tokens, folder):
    out = folder / "logits.f32"
    done = subprocess.run([*program.split(), str(model), str(out), *map(str, tokens)], capture_output=True, text=True,
                          timeout=100, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{program}: {done.stderr.strip()[-300:]}")
    return np.fromfile(out, np.float32).reshape(len(tokens), -1)


def make(name, arguments):
    family = FAMILIES[name]()
    weights = Weights(1000 * arguments.seed + len(name))
    tokens = [BEGIN, *np.random.default_rng(arguments.seed).integers(3, WORDS - 4, TOKENS - 1).tolist()]
    logits = family.forward(weights, tokens)
    apart = None
    if arguments.llama_logits:
        compared = FAMILIES[name]()
        for key, value in compared.compared.items():
            setattr(compared, key, value)
        expected = compared.forward(weights, tokens)
        with tempfile.TemporaryDirectory() as folder:
            floats = pathlib.Path(folder) / "floats.gguf"
            write(floats, compared, weights, as_floats=True)
            apart = divergence(expected, llama_logits(arguments.llama_logits, floats, tokens, pathlib.Path(folder)))
    out = arguments.out / name
    write(f"{out}.gguf", family, weights, as_floats=False)
    np.save(f"{out}.npy", logits.astype(np.float32))
    about = {"architecture": family.architecture, "judge": "NumPy in float64, make_state_fixtures.py",
             "seed": arguments.seed, "kl_llama_cpp": apart, "tokens": tokens}
    pathlib.Path(f"{out}.json").write_text(json.dumps(about) + "\n", encoding="utf-8")
    size = pathlib.Path(f"{out}.gguf").stat().st_size // 1024
    print(f"{name}: {size} KiB, deviation {logits.std():.2f}, mean KL of llama.cpp {apart}", flush=True)
    return apart is None or apart <= MOST_DIVERGENCE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--llama-logits")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = arguments.only.split(",") if arguments.only else list(FAMILIES)
    wrong = [name for name in names if not make(name, arguments)]
    sys.exit(f"llama.cpp gives other logits: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()
