#!/usr/bin/env python3
"""Makes tests/families/embedding: tiny embedding models and rerankers, and their vectors for some token sequences.

The weights are random and exact in BF16. llama.cpp's converter writes the files. The models' own library computes the vectors.

  make_embedding_fixtures.py OUT [--only NAME,...] [--seed N]

Needs torch, transformers, g++ and libllama. Also needs llama.cpp's conversion/ and gguf-py/, next to this file or in the folder LLAMA_CPP.
The judge is transformers if it has the model. Some authors publish their own code instead; for these, the judge is the plain float32 pass
below. Also records how much llama.cpp's vectors differ with the same weights as floats. It looks GELU up in a table of 16-bit floats.
"""
import argparse
import json
import logging
import math
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path[:0] = [folder + part for folder in (os.environ.get("LLAMA_CPP", str(pathlib.Path(__file__).resolve().parent)),)
                for part in ("/gguf-py", "")]

import conversion
import gguf
import numpy
import torch
import transformers
from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
from safetensors.torch import save_file
from torch.nn import functional

LENGTHS = (1, 2, 9, 33, 70)
SPECIAL = ["<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "yes", "no"]
VOCABULARY = len(SPECIAL) + 256
COMMON = dict(vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
              max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0)

LLAMA = r"""
#include <llama.h>
#include <cstdio>
#include <cstdlib>
int main(int argc, char** argv) {  // MODEL OUT ID...
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  ggml_backend_load_all();
  llama_model_params mp = llama_model_default_params();
  mp.n_gpu_layers = 0;
  llama_model* m = llama_model_load_from_file(argv[1], mp);
  if (m == nullptr) return 1;
  llama_context_params cp = llama_context_default_params();
  cp.n_ctx = cp.n_batch = cp.n_ubatch = 128;
  cp.n_threads = cp.n_threads_batch = 1;
  cp.embeddings = true;
  cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  cp.type_k = cp.type_v = GGML_TYPE_F32;
  if (getenv("POOLING") != nullptr) cp.pooling_type = (enum llama_pooling_type)atoi(getenv("POOLING"));
  llama_context* c = llama_init_from_model(m, cp);
  if (c == nullptr) return 1;
  const int n = argc - 3;
  llama_batch b = llama_batch_init(n, 0, 1);
  for (int i = 0; i < n; ++i) {
    b.token[i] = atoi(argv[3 + i]);
    b.pos[i] = i;
    b.n_seq_id[i] = 1;
    b.seq_id[i][0] = 0;
    b.logits[i] = 1;
  }
  b.n_tokens = n;
  if (llama_decode(c, b) != 0) return 1;
  const int width = llama_pooling_type(c) == LLAMA_POOLING_TYPE_RANK ? (int)llama_model_n_cls_out(m) : llama_model_n_embd(m);
  FILE* f = fopen(argv[2], "wb");
  fwrite(llama_get_embeddings_seq(c, 0), sizeof(float), width, f);
  fclose(f);
  return 0;
}
"""


class Weights:
    """Random tensors by name, exact in BF16. Their values depend on the order of first use."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.tensors = {}

    def draw(self, shape, scale, centre=0.0):
        return (centre + scale * torch.randn(shape, generator=self.generator)).bfloat16().float()

    def matrix(self, name, *shape):
        self.tensors[name] = self.draw(shape, 1.2 / math.sqrt(shape[-1]))

    def table(self, name, *shape):
        self.tensors[name] = self.draw(shape, 0.5)

    def linear(self, name, n_out, n_in, bias=True):
        self.matrix(name + ".weight", n_out, n_in)
        if bias:
            self.tensors[name + ".bias"] = self.draw((n_out,), 0.1)

    def norm(self, name, n, bias=True):
        self.tensors[name + ".weight"] = self.draw((n,), 0.1, 1.0)
        if bias:
            self.tensors[name + ".bias"] = self.draw((n,), 0.1)

    def __getitem__(self, name):
        return self.tensors[name]

    def apply(self, name, x):
        return functional.linear(x, self[name + ".weight"], self.tensors.get(name + ".bias"))

    def normed(self, name, x, eps=1e-5):
        return functional.layer_norm(x, x.shape[-1:], self[name + ".weight"], self.tensors.get(name + ".bias"), eps)


def randomise(model, seed):
    weights = Weights(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_norm = "norm" in name.lower()
            if parameter.dim() == 1 and is_norm and parameter.abs().max() < 1e-6:  # 1 + w, or a bias
                parameter.copy_(weights.draw(parameter.shape, 0.1))
            elif parameter.dim() == 1 and is_norm:
                parameter.copy_(weights.draw(parameter.shape, 0.1, 1.0))
            elif parameter.dim() == 1:
                parameter.copy_(weights.draw(parameter.shape, 0.1))
            else:
                scale = 0.5 if "embed" in name else 1.2 / math.sqrt(parameter.shape[-1])
                parameter.copy_(weights.draw(parameter.shape, scale))


def built(kind, seed, auto=transformers.AutoModel, **config):
    config = transformers.AutoConfig.for_model(kind, **config)
    torch.manual_seed(seed)
    model = auto.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    randomise(model, seed)
    return model


def heads(x, n):
    return x.view(x.shape[0], n, -1).transpose(0, 1)


def attention(q, k, v, n_heads, bias=None):
    """Attention without a mask. Each row holds all heads of a token, one after another."""
    q, k, v = (heads(x, n_heads) for x in (q, k, v))
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias
    return (scores.softmax(-1) @ v).transpose(0, 1).reshape(q.shape[1], -1)


def rotated(x, n_heads, base, side_by_side):
    n = x.shape[0]
    x = x.view(n, n_heads, -1)
    length = x.shape[-1]
    angles = torch.arange(n).double()[:, None] * base ** (-torch.arange(0, length, 2).double() / length)
    cosines, sines = angles.cos().float()[:, None], angles.sin().float()[:, None]
    a, b = (x[..., 0::2], x[..., 1::2]) if side_by_side else (x[..., : length // 2], x[..., length // 2 :])
    pair = (a * cosines - b * sines, a * sines + b * cosines)
    out = torch.stack(pair, -1) if side_by_side else torch.cat(pair, -1)
    return out.reshape(n, -1)


class Made:
    """A model as its authors publish it, and a function that computes the vector of tokens."""

    def __init__(self, config, tensors, vector, judge="transformers " + transformers.__version__, **more):
        self.config, self.tensors, self.vector, self.judge = config, tensors, vector, judge
        self.pooling = more.get("pooling")
        self.files = more.get("files", {})
        self.dense = more.get("dense", False)
        self.ranks = more.get("ranks", False)
        self.unsaid_pooling = "4" if self.ranks else more.get("unsaid_pooling")  # the converter does not write this value
        self.special = more.get("special", (True, True))  # BOS, EOS
        self.pre = more.get("pre", "default")
        self.name = more.get("name", "model")


OWN_JUDGE = "the plain pass of make_embedding_fixtures.py"


def state_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def hidden_of(model):
    return lambda tokens: model(torch.tensor([tokens])).last_hidden_state[0]


def pooled(hidden, pooling):
    pick = {"mean": lambda h: h.mean(0), "cls": lambda h: h[0], "lasttoken": lambda h: h[-1]}[pooling]
    return lambda tokens: pick(hidden(tokens))


def qwen3_embedding(seed):
    config = {**COMMON, "num_key_value_heads": 2, "head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    model = built("qwen3", seed, **config)
    return Made({**config, "architectures": ["Qwen3Model"], "model_type": "qwen3", "rms_norm_eps": model.config.rms_norm_eps},
                state_of(model), pooled(hidden_of(model), "lasttoken"), pooling="lasttoken", special=(False, True), pre="qwen2")


def qwen3_reranker(seed):
    # Its template alone takes about 400 tokens of this vocabulary.
    config = {**COMMON, "num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": True, "max_position_embeddings": 1024,
              "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    model = built("qwen3", seed, transformers.AutoModelForCausalLM, **config)

    def score(tokens):
        logits = model(torch.tensor([tokens])).logits[0, -1]
        return logits[[SPECIAL.index("yes")]] - logits[[SPECIAL.index("no")]]

    tensors = {name: value for name, value in state_of(model).items() if name != "lm_head.weight"}
    return Made({**config, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "rms_norm_eps": model.config.rms_norm_eps},
                tensors, score, ranks=True, special=(False, False), pre="qwen2", name="Qwen3-Reranker-tiny")


def gemma_embedding(seed):
    config = {**COMMON, "hidden_size": 32, "num_hidden_layers": 6, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 64,
              "sliding_window": 16, "query_pre_attn_scalar": 16, "use_bidirectional_attention": True}
    model = built("gemma3_text", seed, **config)
    dense = Weights(seed + 1)
    dense.matrix("2", 64, 32)
    dense.matrix("3", 32, 64)
    mean = pooled(hidden_of(model), "mean")
    files = {}
    for number, sizes in (("2", (32, 64)), ("3", (64, 32))):
        files[f"{number}_Dense/model.safetensors"] = {"linear.weight": dense[number]}
        files[f"{number}_Dense/config.json"] = {"in_features": sizes[0], "out_features": sizes[1], "bias": False,
                                               "activation_function": "torch.nn.modules.linear.Identity"}
    # The window as published. transformers halves it when it reads the configuration.
    return Made({**config, "architectures": ["Gemma3TextModel"], "model_type": "gemma3_text", "rope_theta": 1e6,
                 "rope_local_base_freq": 1e4, "rms_norm_eps": model.config.rms_norm_eps},
                state_of(model), lambda tokens: dense["3"] @ (dense["2"] @ mean(tokens)), pooling="mean", dense=True, files=files)


def modern_bert(seed):
    config = {**COMMON, "num_hidden_layers": 4, "intermediate_size": 64, "local_attention": 16, "global_attn_every_n_layers": 3}
    model = built("modernbert", seed, **config)
    return Made({**config, "architectures": ["ModernBertModel"], "model_type": "modernbert", "global_rope_theta": 160000.0,
                 "local_rope_theta": 10000.0, "norm_eps": 1e-5, "layer_norm_eps": 1e-5, "hidden_activation": "gelu"},
                state_of(model), pooled(hidden_of(model), "cls"), pooling="cls")


def modern_bert_reranker(seed):
    config = {**COMMON, "num_hidden_layers": 2, "intermediate_size": 64, "local_attention": 16, "global_attn_every_n_layers": 3,
              "num_labels": 1, "classifier_pooling": "mean"}
    model = built("modernbert", seed, transformers.AutoModelForSequenceClassification, **config)
    return Made({**config, "architectures": ["ModernBertForSequenceClassification"], "model_type": "modernbert",
                 "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "norm_eps": 1e-5, "layer_norm_eps": 1e-5,
                 "hidden_activation": "gelu", "id2label": {"0": "LABEL_0"}},
                state_of(model), lambda tokens: model(torch.tensor([tokens])).logits[0], ranks=True)


def eurobert(seed):
    config = {**COMMON, "num_key_value_heads": 2, "head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 250000.0}}
    model = built("eurobert", seed, **config)
    return Made({**config, "architectures": ["EuroBertModel"], "model_type": "eurobert", "rms_norm_eps": model.config.rms_norm_eps,
                 "classifier_pooling": "mean"},
                state_of(model), pooled(hidden_of(model), "mean"), pooling="mean")


def bidirectional(kind, architecture, seed, pooling="lasttoken", **more):
    """A language model whose attention is not causal."""
    config = {**COMMON, "num_key_value_heads": 2, "head_dim": 16, "is_causal": False, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    model = built(kind, seed, **config)
    tokens = torch.randint(len(SPECIAL), VOCABULARY, (9,)).tolist()
    hidden = hidden_of(model)
    assert (hidden(tokens)[0] - hidden(tokens[:1])[0]).abs().max() > 1e-3, "the first token should see the others"
    return Made({**config, "architectures": [architecture], "model_type": kind, "rms_norm_eps": model.config.rms_norm_eps},
                state_of(model), pooled(hidden, pooling), pooling=pooling, special=(False, True), **more)


def llama_bidirectional(seed):
    return bidirectional("llama", "LlamaBidirectionalModel", seed, "mean", unsaid_pooling="1")


def qwen2_bidirectional(seed):
    return bidirectional("qwen2", "Qwen2Model", seed, pre="qwen2")


def qwen3_bidirectional(seed):
    return bidirectional("qwen3", "Qwen3Model", seed, pre="qwen2")


def jina_bert_v3(seed):
    """Uses the tensor names of the code that the model's authors publish."""
    config = {**COMMON, "type_vocab_size": 1, "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}}
    model = built("jina_embeddings_v3", seed, **config)
    names = {"self_attn.o_proj": "mixer.out_proj", "mlp.up_proj": "mlp.fc1", "mlp.fc1": "mlp.fc1", "mlp.down_proj": "mlp.fc2",
             "mlp.fc2": "mlp.fc2", "post_attention_layernorm": "norm1", "post_mlp_layernorm": "norm2"}
    state = state_of(model)
    tensors = {"roberta.embeddings.word_embeddings.weight": state["embeddings.word_embeddings.weight"],
               "roberta.embeddings.token_type_embeddings.weight": state["embeddings.token_type_embeddings.weight"]}
    for part in ("weight", "bias"):
        tensors["roberta.emb_ln." + part] = next(state[name + part] for name in ("embeddings.LayerNorm.", "embeddings.layer_norm.",
                                                                               "embeddings.layernorm.") if name + part in state)
        for i in range(config["num_hidden_layers"]):
            old, new = f"layers.{i}.", f"roberta.encoder.layers.{i}."
            tensors[new + "mixer.Wqkv." + part] = torch.cat([state[f"{old}self_attn.{head}_proj.{part}"] for head in "qkv"])
            for theirs, published in names.items():
                if f"{old}{theirs}.{part}" in state:
                    tensors[f"{new}{published}.{part}"] = state[f"{old}{theirs}.{part}"]
    return Made({**config, "architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta", "layer_norm_eps": 1e-5,
                 "rotary_emb_base": 20000.0, "lora_adaptations": ["retrieval.query"], "max_position_embeddings": 129},
                tensors, pooled(hidden_of(model), "mean"), pooling="mean")


def jina_bert_v2(seed):
    """Includes the parts that only the models for code have."""
    width, n_heads, n_layers, n_ff = 64, 6, 2, 96
    length = 8
    wide = n_heads * length  # 6 heads: not a power of two
    width = wide
    w = Weights(seed)
    w.table("embeddings.word_embeddings.weight", VOCABULARY, width)
    w.table("embeddings.token_type_embeddings.weight", 2, width)
    w.norm("embeddings.LayerNorm", width)
    for i in range(n_layers):
        at = f"encoder.layer.{i}."
        for head in ("query", "key", "value"):
            w.linear(at + "attention.self." + head, width, width)
        for name in ("layer_norm_q", "layer_norm_k"):
            w.norm(at + "attention.self." + name, width)
        w.linear(at + "attention.output.dense", width, width)
        w.norm(at + "attention.output.LayerNorm", width)
        w.norm(at + "layer_norm_1", width)
        w.linear(at + "mlp.up_gated_layer", 2 * n_ff, width, bias=False)
        w.linear(at + "mlp.down_layer", width, n_ff)
        w.norm(at + "layer_norm_2", width)
    slopes = [2 ** (-8 * (h + 1) / 4) for h in range(4)] + [2 ** (-8 * (2 * h + 1) / 8) for h in range(n_heads - 4)]

    def hidden(tokens):
        x = w["embeddings.word_embeddings.weight"][tokens] + w["embeddings.token_type_embeddings.weight"][0]
        x = w.normed("embeddings.LayerNorm", x, 1e-12)
        n = len(tokens)
        distance = (torch.arange(n)[:, None] - torch.arange(n)[None]).abs().float()
        bias = -torch.tensor(slopes)[:, None, None] * distance
        for i in range(n_layers):
            at = f"encoder.layer.{i}."
            own = at + "attention.self."
            q = w.normed(own + "layer_norm_q", w.apply(own + "query", x), 1e-12)
            k = w.normed(own + "layer_norm_k", w.apply(own + "key", x), 1e-12)
            seen = w.apply(at + "attention.output.dense", attention(q, k, w.apply(own + "value", x), n_heads, bias))
            y = w.normed(at + "attention.output.LayerNorm", seen + x, 1e-12)
            y = w.normed(at + "layer_norm_1", x + y, 1e-12)
            gate, up = w.apply(at + "mlp.up_gated_layer", y).chunk(2, -1)
            x = w.normed(at + "layer_norm_2", w.apply(at + "mlp.down_layer", functional.gelu(gate) * up) + y, 1e-12)
        return x

    return Made({**COMMON, "hidden_size": width, "num_attention_heads": n_heads, "intermediate_size": n_ff,
                 "architectures": ["JinaBertModel"], "model_type": "bert", "layer_norm_eps": 1e-12, "type_vocab_size": 2},
                w.tensors, pooled(hidden, "mean"), OWN_JUDGE, pooling="mean")


def nomic_bert_moe(seed):
    width, n_heads, n_layers, n_ff, n_experts, n_used = 32, 2, 2, 64, 4, 2
    w = Weights(seed)
    w.table("embeddings.word_embeddings.weight", VOCABULARY, width)
    w.table("embeddings.token_type_embeddings.weight", 1, width)
    w.norm("emb_ln", width)
    for i in range(n_layers):
        at = f"encoder.layers.{i}."
        w.linear(at + "attn.Wqkv", 3 * width, width)
        w.linear(at + "attn.out_proj", width, width)
        w.norm(at + "norm1", width)
        if i % 2 == 1:
            w.linear(at + "mlp.router.layer", n_experts, width, bias=False)
            w.matrix(at + "mlp.experts.mlp.w1", n_experts * n_ff, width)
            w.matrix(at + "mlp.experts.mlp.w2", n_experts * n_ff, width)
        else:
            w.linear(at + "mlp.fc1", n_ff, width)
            w.linear(at + "mlp.fc2", width, n_ff)
        w.norm(at + "norm2", width)

    def experts(at, x):
        first = w[at + "mlp.experts.mlp.w1"].view(n_experts, n_ff, width)
        second = w[at + "mlp.experts.mlp.w2"].view(n_experts, n_ff, width)
        shares, chosen = w.apply(at + "mlp.router.layer", x).softmax(-1).topk(n_used)
        rows = [sum(share * (functional.gelu(first[e] @ row) @ second[e]) for share, e in zip(shares[i], chosen[i], strict=True))
                for i, row in enumerate(x)]
        return torch.stack(rows)

    def hidden(tokens):
        x = w["embeddings.word_embeddings.weight"][tokens] + w["embeddings.token_type_embeddings.weight"][0]
        x = w.normed("emb_ln", x)
        for i in range(n_layers):
            at = f"encoder.layers.{i}."
            q, k, v = w.apply(at + "attn.Wqkv", x).chunk(3, -1)
            q, k = (rotated(part, n_heads, 10000.0, False) for part in (q, k))
            x = w.normed(at + "norm1", w.apply(at + "attn.out_proj", attention(q, k, v, n_heads)) + x)
            if i % 2 == 1:
                y = experts(at, x)
            else:
                y = w.apply(at + "mlp.fc2", functional.gelu(w.apply(at + "mlp.fc1", x)))
            x = w.normed(at + "norm2", y + x)
        return x

    return Made({"vocab_size": VOCABULARY, "n_embd": width, "n_head": n_heads, "n_layer": n_layers, "n_inner": n_ff, "n_positions": 2048,
                 "max_trained_positions": 2048, "activation_function": "gelu", "causal": False, "qkv_proj_bias": True,
                 "mlp_fc1_bias": True, "mlp_fc2_bias": True, "prenorm": False, "rotary_emb_fraction": 1.0, "rotary_emb_base": 10000.0,
                 "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "moe_every_n_layers": 2, "moe_top_k": n_used,
                 "num_experts": n_experts, "layer_norm_epsilon": 1e-5, "type_vocab_size": 1, "pad_token_id": 0,
                 # The same values by transformers' names. transformers supports only the first version.
                 "hidden_size": width, "num_attention_heads": n_heads, "num_hidden_layers": n_layers, "intermediate_size": n_ff,
                 "layer_norm_eps": 1e-5, "max_position_embeddings": 129, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
                 "architectures": ["NomicBertModel"], "model_type": "nomic_bert"},
                w.tensors, pooled(hidden, "mean"), OWN_JUDGE, pooling="mean")


def neo_bert(seed):
    """Its file stores queries, keys and values one after another, as llama.cpp reads them."""
    width, n_heads, n_layers, n_ff = 64, 4, 2, 96
    w = Weights(seed)
    w.table("encoder.weight", VOCABULARY, width)
    for i in range(n_layers):
        at = f"transformer_encoder.{i}."
        w.linear(at + "qkv", 3 * width, width, bias=False)
        w.linear(at + "wo", width, width, bias=False)
        w.linear(at + "ffn.w12", 2 * n_ff, width, bias=False)
        w.linear(at + "ffn.w3", width, n_ff, bias=False)
        w.norm(at + "attention_norm", width, bias=False)
        w.norm(at + "ffn_norm", width, bias=False)
    w.norm("layer_norm", width, bias=False)

    def normed(name, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w[name + ".weight"]

    def hidden(tokens):
        x = w["encoder.weight"][tokens]
        for i in range(n_layers):
            at = f"transformer_encoder.{i}."
            q, k, v = w.apply(at + "qkv", normed(at + "attention_norm", x)).chunk(3, -1)
            q, k = (rotated(part, n_heads, 10000.0, True) for part in (q, k))
            x = x + w.apply(at + "wo", attention(q, k, v, n_heads))
            gate, up = w.apply(at + "ffn.w12", normed(at + "ffn_norm", x)).chunk(2, -1)
            x = x + w.apply(at + "ffn.w3", functional.silu(gate) * up)
        return normed("layer_norm", x)

    return Made({**COMMON, "intermediate_size": n_ff * 3 // 2, "norm_eps": 1e-5, "architectures": ["NeoBERT"], "model_type": "neobert"},
                {"model." + name: value for name, value in w.tensors.items()}, pooled(hidden, "cls"), OWN_JUDGE, pooling="cls")


FAMILIES = {"llama-bidirectional": llama_bidirectional, "qwen2-bidirectional": qwen2_bidirectional,
            "qwen3-bidirectional": qwen3_bidirectional, "qwen3-embedding": qwen3_embedding, "qwen3-reranker": qwen3_reranker, "gemma-embedding": gemma_embedding,
            "modern-bert": modern_bert, "modern-bert-reranker": modern_bert_reranker, "eurobert": eurobert,
            "jina-bert-v3": jina_bert_v3, "jina-bert-v2": jina_bert_v2, "nomic-bert-moe": nomic_bert_moe, "neo-bert": neo_bert}


def byte_alphabet():
    """Returns the character for each byte in byte-level vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = dict(zip(printable, map(chr, printable), strict=True)) | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [characters[byte] for byte in range(256)]


def vocabulary_setter(made):
    def set_vocab(self):
        writer = self.gguf_writer
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(made.pre)
        writer.add_token_list(SPECIAL + byte_alphabet())
        kinds = [4 if token in ("yes", "no") else 3 for token in SPECIAL] + [1] * 256
        writer.add_token_types(kinds)
        writer.add_token_merges(["Ġ t", "h e"])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_pad_token_id(0)
        writer.add_add_bos_token(made.special[0])
        writer.add_add_eos_token(made.special[1])
        if "type_vocab_size" in self.hparams:
            writer.add_token_type_count(self.hparams["type_vocab_size"])

    return set_vocab


def write_folder(made, folder):
    files = {"config.json": made.config, "model.safetensors": made.tensors, **made.files}
    vocabulary = {token: i for i, token in enumerate(SPECIAL + byte_alphabet())}
    kind = "Unigram" if made.config["model_type"] == "nomic_bert" else "BPE"
    files["tokenizer.json"] = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
                               "decoder": None, "model": {"type": kind, "vocab": vocabulary, "merges": []}}
    files["tokenizer_config.json"] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    if made.pooling is not None:
        modules = [{"type": "sentence_transformers.models.Transformer", "path": ""},
                   {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
        if made.dense:
            modules += [{"type": "sentence_transformers.models.Dense", "path": f"{i}_Dense"} for i in (2, 3)]
        files["modules.json"] = modules
        files["1_Pooling/config.json"] = {"pooling_mode_mean_tokens": made.pooling == "mean",
                                          "pooling_mode_cls_token": made.pooling == "cls",
                                          "pooling_mode_lasttoken": made.pooling == "lasttoken"}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        if name.endswith(".safetensors"):
            save_file({key: value.contiguous() for key, value in content.items()}, path, metadata={"format": "pt"})
        else:
            path.write_text(json.dumps(content))


def convert(made, folder, out, file_type):
    hparams = ModelBase.load_hparams(folder, False)
    kind = get_model_class(get_model_architecture(hparams, ModelType.TEXT), mmproj=False)
    todo = [conversion.base.TextModel]
    while todo:
        each = todo.pop()
        todo += each.__subclasses__()
        if "set_vocab" in vars(each):
            each.set_vocab = vocabulary_setter(made)
    # These are class attributes, so they would keep values of the last model.
    for name, empty in (("module_paths", []), ("dense_features_dims", {}), ("_lora_files", {})):
        if hasattr(kind, name):
            setattr(kind, name, empty)
    with torch.inference_mode():
        kind(folder, file_type, out, use_temp_file=False, eager=True,
             sentence_transformers_dense_modules=made.dense).write()


def cosine(a, b):
    a, b = (numpy.asarray(x, dtype=numpy.float64) for x in (a, b))
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))


def agreement(made, program, model, texts):
    """Compares with llama.cpp. Returns the min cosine, for scores the max difference of sigmoid(score), or why there is no value."""
    worst = []
    for text in texts:
        with tempfile.NamedTemporaryFile() as out:
            environment = {**os.environ, **({"POOLING": made.unsaid_pooling} if made.unsaid_pooling else {})}
            done = subprocess.run([program, model, out.name, *map(str, text["tokens"])], env=environment, capture_output=True, check=False)
            if done.returncode != 0:
                return "it fails"
            theirs = numpy.fromfile(out.name, numpy.float32)
        if made.ranks:
            sigmoid = 1 / (1 + math.exp(-text["vector"][0]))
            share = theirs[0] if len(theirs) == 2 else 1 / (1 + math.exp(-theirs[0]))
            worst.append(abs(sigmoid - float(share)))
        else:
            worst.append(1 - cosine(theirs, text["vector"]))
    return float(f"{max(worst):.1e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    options.out.mkdir(exist_ok=True, parents=True)
    with tempfile.TemporaryDirectory() as build:
        source = pathlib.Path(build, "vectors.cpp")
        source.write_text(LLAMA)
        program = str(source.with_suffix(""))
        subprocess.run(["g++", "-O1", "-o", program, source, "-lllama", "-lggml", "-lggml-base"], check=True)
        for name in options.only.split(",") if options.only else FAMILIES:
            with torch.no_grad():
                made = FAMILIES[name](options.seed)
                chance = torch.Generator().manual_seed(options.seed + 7)
                texts = []
                for n in LENGTHS:
                    tokens = torch.randint(len(SPECIAL), VOCABULARY, (n,), generator=chance).tolist()
                    texts.append({"tokens": tokens, "vector": [float(f"{x:.9g}") for x in made.vector(tokens)]})
            folder = pathlib.Path(build, name, made.name)
            folder.mkdir(parents=True)
            write_folder(made, folder)
            model = options.out / f"{name}.gguf"
            convert(made, folder, model, gguf.LlamaFileType.MOSTLY_BF16)
            for adapter in options.out.glob("lora-*"):
                adapter.unlink()
            floats = pathlib.Path(build, f"{name}.gguf")  # llama.cpp rounds activations to the weights' type
            convert(made, folder, floats, gguf.LlamaFileType.ALL_F32)
            apart = agreement(made, program, floats, texts)
            architecture = bytes(gguf.GGUFReader(model).fields["general.architecture"].parts[-1]).decode()
            about = {"architecture": architecture, "judge": made.judge, "llama_cpp_is_apart": apart, "texts": texts}
            (options.out / f"{name}.json").write_text(json.dumps(about) + "\n")
            print(f"{name:22} {architecture:16} {model.stat().st_size // 1024:4} KiB, llama.cpp is apart by {apart}", flush=True)


main()
