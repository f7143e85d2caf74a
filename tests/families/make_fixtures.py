#!/usr/bin/env python3
"""Makes the tiny models of tests/families/data: random weights, and the logits that they should give.

    make_fixtures.py OUT --converter DIR [--llama-logits PROGRAM] [--only NAME,...] [--seed N]

Hugging Face transformers makes a model, and llama.cpp's converter converts it (DIR has its conversion/ and gguf-py/).
The model is written with its matrices in BF16, which hold the weights exactly. OUT gets, for each family:

    NAME.gguf   the model
    NAME.npy    logits of the judge, float32, positions x vocabulary
    NAME.json   tokens, architecture, judge, and how far llama.cpp's logits are from the judge's (null: not compared)

The judge is transformers in float32, or another model of transformers that computes the same.
PROGRAM gets a model, an output file for float32 logits of all positions, and tokens. See tests/families/data/README.md.
"""
import argparse
import dataclasses
import json
import logging
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import traceback

import numpy as np
import torch
import transformers

WORDS = 160
POSITIONS = 256
TOKENS = 24
PAD, BEGIN, END = 0, 1, 2

BASE = {"vocab_size": WORDS, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": POSITIONS,
        "pad_token_id": PAD, "bos_token_id": BEGIN, "eos_token_id": END}


REMOVED = object()  # as a value: removes the key for the converter


@dataclasses.dataclass
class Family:
    """How to make one model."""
    kind: str  # model_type of transformers
    config: dict
    patch: dict = dataclasses.field(default_factory=dict)  # changes of config.json for the converter; values may be REMOVED
    rename: object = None  # converts the weights {name: tensor} to the form that the converter needs
    vision: dict = None  # config of the vision part, in models that have one
    adjust: object = None  # function that changes the model before it computes logits
    model: str = ""  # class name in transformers, if it has no entry for the model_type
    keys: object = None  # function that adds metadata that the converter omits; gets the writer
    compared: bool = True  # whether to compare with llama.cpp


def base(**changes):
    return {**BASE, **changes}


def rope(**changes):
    return {"rope_type": "default", "rope_theta": 10000.0, **changes}


def internlm2_names(weights):
    """Returns Llama's weights by InternLM 2's names. Q, K and V of a group are adjacent."""
    heads, kv_heads = BASE["num_attention_heads"], BASE["num_key_value_heads"]
    names = {"embed_tokens": "tok_embeddings", "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1",
             "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2",
             "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "lm_head": "output"}
    out = {}
    for name, weight in weights.items():
        if "q_proj" in name:
            n_embd = weight.shape[1]
            parts = [weights[name.replace("q_proj", part)].reshape(kv_heads, -1, n_embd // heads, n_embd)
                     for part in ("q_proj", "k_proj", "v_proj")]
            joint = torch.cat(parts, dim=1).reshape(-1, n_embd)
            out[name.replace("self_attn.q_proj", "attention.wqkv")] = joint.contiguous()
        elif "k_proj" in name or "v_proj" in name:
            continue
        else:
            for old, new in names.items():
                name = name.replace(old, new)
            out[name] = weight
    return out


def exaone_names(weights):
    """Returns Llama's weights by EXAONE 3's names."""
    names = {"model.embed_tokens": "transformer.wte", "model.norm": "transformer.ln_f", "model.layers": "transformer.h",
             "self_attn.o_proj": "attn.attention.out_proj", "self_attn": "attn.attention",
             "mlp.gate_proj": "mlp.c_fc_0", "mlp.up_proj": "mlp.c_fc_1", "mlp.down_proj": "mlp.c_proj",
             "input_layernorm": "ln_1", "post_attention_layernorm": "ln_2"}
    out = {}
    for name, weight in weights.items():
        for old, new in names.items():
            name = name.replace(old, new)
        out[name] = weight
    return out


def skip_attention(model):
    """Makes layer 1 add no attention, and the heads of layer 2 share keys and values."""
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight.zero_()
        for part in ("k_proj", "v_proj"):
            weight = getattr(model.model.layers[2].self_attn, part).weight
            weight[weight.shape[0] // 2:] = weight[:weight.shape[0] // 2]


def uneven_layers(weights):
    """Returns the weights without those that skip_attention() made superfluous."""
    out = {}
    for name, weight in weights.items():
        if ".layers.1.self_attn" in name or ".layers.1.input_layernorm" in name:
            continue
        if ".layers.2." in name and ("k_proj" in name or "v_proj" in name):
            weight = weight[:weight.shape[0] // 2].contiguous()
        out[name] = weight
    return out


def bailing_names(weights):
    """Returns GLM 4.5's weights by Ling 2's names. Q, K and V are one matrix."""
    names = {"embed_tokens": "word_embeddings", "self_attn.o_proj": "attention.dense",
             "self_attn.q_norm": "attention.query_layernorm", "self_attn.k_norm": "attention.key_layernorm",
             "gate.e_score_correction_bias": "gate.expert_bias"}
    out = {}
    for name, weight in weights.items():
        if "q_proj" in name:
            parts = [weights[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")]
            out[name.replace("self_attn.q_proj", "attention.query_key_value")] = torch.cat(parts)
        elif "k_proj" not in name and "v_proj" not in name:
            for old, new in names.items():
                name = name.replace(old, new)
            out[name] = weight
    return out


def dbrx_experts(weights):
    """Transposes the matrices of experts. transformers multiplies by the transposed ones, which works because they are square."""
    n_embd = BASE["hidden_size"]
    return {name: weight.view(-1, n_embd, n_embd).transpose(1, 2).reshape(-1, n_embd).contiguous()
            if ".experts.mlp." in name else weight for name, weight in weights.items()}


def transposed_experts(weights):
    """Returns the weights with experts as in files of Qwen 3 VL."""
    return {name: weight.transpose(1, 2).contiguous() if ".mlp.experts." in name else weight
            for name, weight in weights.items()}


def mistral_temperature(writer):
    writer.add_attn_temperature_scale(0.1)
    writer.add_attn_temperature_length(8)


MINICPM = {"scale_emb": 12.0, "scale_depth": 1.4, "dim_model_base": 32}
QWEN3_VISION = {"depth": 1, "hidden_size": 32, "num_heads": 2, "intermediate_size": 32, "out_hidden_size": 64,
                "num_position_embeddings": 64, "deepstack_visual_indexes": [0]}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}

FAMILIES = {
    "ernie4_5-moe": Family("ernie4_5_moe", base(
        num_hidden_layers=3, intermediate_size=64, moe_num_experts=4, moe_k=2, moe_intermediate_size=32,
        moe_num_shared_experts=1, moe_layer_start_index=1, moe_layer_end_index=2, moe_layer_interval=1)),
    # llama.cpp computes the norms without subtracting the mean, and weights experts by a softmax over all.
    "phimoe": Family("phimoe", base(
        num_local_experts=4, num_experts_per_tok=2, intermediate_size=32, sliding_window=None, lm_head_bias=True,
        attention_bias=True, router_jitter_noise=0.01,
        rope_parameters=rope(original_max_position_embeddings=POSITIONS)),
        {"architectures": ["PhiMoEForCausalLM"]}, compared=False),
    "hunyuan-moe": Family("hunyuan_v1_moe", base(
        head_dim=16, num_experts=4, moe_topk=2, intermediate_size=32), {
            "moe_topk": [2, 2], "moe_intermediate_size": [32, 32], "num_shared_expert": [1, 1]}),
    "minimax-m2": Family("minimax_m2", base(
        head_dim=32, num_local_experts=4, num_experts_per_tok=2, intermediate_size=32, rotary_dim=16,
        scoring_func="sigmoid", use_routing_bias=True, rope_parameters=rope(partial_rotary_factor=0.5))),
    "cohere2": Family("cohere2", base(
        num_hidden_layers=4, sliding_window=16, logit_scale=0.25,
        layer_types=["sliding_attention"] * 3 + ["full_attention"]), {"rotary_pct": 1.0}),
    "gptneox": Family("gpt_neox", base(
        num_key_value_heads=None, use_parallel_residual=True, rope_parameters=rope(partial_rotary_factor=0.25)),
        {"rotary_pct": 0.25}),
    "gptneox-serial": Family("gpt_neox", base(
        num_key_value_heads=None, use_parallel_residual=False, rope_parameters=rope(partial_rotary_factor=0.25)),
        {"rotary_pct": 0.25}),
    "gpt2": Family("gpt2", {
        "vocab_size": WORDS, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS, "bos_token_id": BEGIN,
        "eos_token_id": END}, {"n_ctx": POSITIONS}),
    "internlm2": Family("llama", base(), {"architectures": ["InternLM2ForCausalLM"]}, internlm2_names),
    "minicpm": Family("granite", base(
        embedding_multiplier=MINICPM["scale_emb"], attention_multiplier=0.25, logits_scaling=2.0,
        residual_multiplier=MINICPM["scale_depth"] / math.sqrt(2)), {
            "architectures": ["MiniCPMForCausalLM"], **MINICPM}),
    "mpt": Family("mpt", {
        "vocab_size": WORDS, "d_model": 64, "n_layers": 2, "n_heads": 4, "max_seq_len": POSITIONS,
        "attn_config": {"clip_qkv": 1.0, "alibi": True, "alibi_bias_max": 8}}, {"architectures": ["MPTForCausalLM"]}),
    # llama.cpp requires experts in dense models, too.
    "nemotron-h": Family("nemotron_h", base(
        num_hidden_layers=4, layers_block_type=["mamba", "mlp", "attention", "mlp"], head_dim=16,
        mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=16, n_groups=2, conv_kernel=4, expand=1,
        mlp_hidden_act="relu2"), {"hybrid_override_pattern": "M-*-", "num_experts_per_tok": REMOVED}, compared=False),
    "nemotron-h-moe": Family("nemotron_h", base(
        moe_latent_size=32, num_hidden_layers=4, layers_block_type=["mamba", "moe", "attention", "moe"], head_dim=16,
        mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=16, n_groups=2, conv_kernel=4, expand=1,
        mlp_hidden_act="relu2", n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
        n_shared_experts=1, moe_shared_expert_intermediate_size=32, n_group=1, topk_group=1,
        routed_scaling_factor=2.5, norm_topk_prob=True), {"hybrid_override_pattern": "ME*E"}),
    "olmo": Family("olmo", base(clip_qkv=1.0)),
    "afmoe": Family("afmoe", base(
        hidden_size=32, head_dim=16, num_hidden_layers=4, num_experts=4, num_shared_experts=1, num_dense_layers=1,
        sliding_window=16, global_attn_every_n_layers=4, mup_enabled=True, route_scale=2.0, **EXPERTS),
        {"route_norm": True}),
    "qwen2vl": Family("qwen2_vl", base(
        model_type="qwen2_vl_text", rope_parameters=rope(mrope_section=[2, 3, 3])), vision={
            "depth": 1, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2}),
    "qwen3vl": Family("qwen3_vl", base(
        model_type="qwen3_vl_text", head_dim=32, rope_parameters=rope(mrope_section=[6, 5, 5])), vision=QWEN3_VISION),
    "qwen3vlmoe": Family("qwen3_vl_moe", base(
        model_type="qwen3_vl_moe_text", head_dim=32, num_experts=4, decoder_sparse_step=1, mlp_only_layers=[],
        norm_topk_prob=True, rope_parameters=rope(mrope_section=[6, 5, 5]), **EXPERTS), vision=QWEN3_VISION,
        rename=transposed_experts),
    "starcoder": Family("gpt_bigcode", {
        "vocab_size": WORDS, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS, "multi_query": True,
        "bos_token_id": BEGIN, "eos_token_id": END}),
    "dbrx": Family("dbrx", {
        "vocab_size": WORDS, "d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": POSITIONS,
        "attn_config": {"clip_qkv": 1.0, "kv_n_heads": 2, "rope_theta": 10000.0},
        "ffn_config": {"hidden_size": 64, "ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2,
                       "moe_normalize_expert_weights": 1.0}}, rename=dbrx_experts),
    "chatglm": Family("glm", base(
        head_dim=16, attention_bias=True, rms_norm_eps=1e-5, rope_parameters=rope(partial_rotary_factor=0.5)), {
            "seq_length": POSITIONS, "layernorm_epsilon": 1e-5}),
    "exaone": Family("llama", base(rope_parameters={
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}), {
            "architectures": ["ExaoneForCausalLM"], "activation_function": "silu", "layer_norm_epsilon": 1e-6},
        exaone_names),
    "deci": Family("llama", base(
        hidden_size=32, num_attention_heads=2, num_hidden_layers=3, intermediate_size=256), {
            "architectures": ["DeciLMForCausalLM"], "block_configs": [
                {"attention": {"n_heads_in_group": heads, "replace_with_linear": False}, "ffn": {"ffn_mult": 1.0}}
                for heads in (1, None, 2)]}, uneven_layers, adjust=skip_attention),
    "bailingmoe2": Family("glm4_moe", base(
        head_dim=16, n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, n_group=2, topk_group=1,
        routed_scaling_factor=1.5, norm_topk_prob=True, use_qk_norm=True, attention_bias=False,
        partial_rotary_factor=0.5, num_nextn_predict_layers=0, rope_parameters=rope(partial_rotary_factor=0.5),
        **EXPERTS), {
            "architectures": ["BailingMoeV2ForCausalLM"], "num_experts": 4, "num_shared_experts": 1,
            "score_function": "sigmoid"}, bailing_names),
    # With mscale_all_dim 1, transformers leaves scores as they are; with 0, llama.cpp scales them.
    "mistral4": Family("mistral4", base(
        hidden_size=32, num_key_value_heads=4, n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=0,
        q_lora_rank=32, kv_lora_rank=32, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32, norm_topk_prob=True,
        rope_parameters={
            "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 8,
            "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 0.0, "mscale_all_dim": 0.0, "llama_4_scaling_beta": 0.1,
            "partial_rotary_factor": 1 / 3}, **EXPERTS), {"architectures": ["Mistral3ForConditionalGeneration"]},
        model="Mistral4ForCausalLM", keys=mistral_temperature, compared=False),
    # llama.cpp assumes that exactly 20 layers have their own keys and values.
    "gemma3n": Family("gemma3n_text", base(
        hidden_size=32, head_dim=16, sliding_window=16, num_hidden_layers=5, num_kv_shared_layers=2,
        hidden_size_per_layer_input=32, vocab_size_per_layer_input=WORDS, laurel_rank=32, altup_num_inputs=4,
        activation_sparsity_pattern=[0.95, 0.5, 0.0, 0.0, 0.0],
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
                     "full_attention"]), compared=False),
    "llama4": Family("llama4_text", base(
        hidden_size=32, head_dim=16, num_hidden_layers=4, intermediate_size=32, intermediate_size_mlp=64,
        num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, attention_chunk_size=8192,
        no_rope_layer_interval=4, use_qk_norm=True, attn_temperature_tuning=True, floor_scale=8192, attn_scale=0.1)),
}


def randomise(model, seed):
    """Sets weights that are exact in BF16, scaled so that each of them affects the logits."""
    generator = torch.Generator().manual_seed(seed)

    def fill(name, values):
        noise = torch.randn(values.shape, generator=generator)
        if "norm" in name and "bias" not in name and values.dim() == 1:
            values.copy_(1 + 0.1 * noise)
        elif values.dim() == 1 or "correction_bias" in name:
            values.copy_(0.1 * noise)
        elif any(part in name for part in ("embed", "wte", "wpe", "lm_head")):
            values.copy_(0.25 * noise)
        else:
            values.copy_(noise * 1.2 / math.sqrt(min(values.shape[-2:])))
        values.copy_(values.bfloat16().float())

    with torch.no_grad():
        for name, values in model.named_parameters():
            fill(name, values)
        for name, values in model.named_buffers():
            if "correction_bias" in name or "expert_bias" in name:
                fill(name, values)


def words():
    """Returns special tokens, then one token per byte in GPT-2's spelling."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    spelling = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return (["<pad>", "<s>", "</s>"] + [spelling[byte] for byte in range(256)])[:WORDS]


def set_vocab(converter):
    writer = converter.gguf_writer
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words())
    writer.add_token_types([3, 3, 3] + [1] * (WORDS - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(END)
    writer.add_pad_token_id(PAD)


def convert(folder, family, out):
    """Runs llama.cpp's converter with our vocabulary and with changes of config.json."""
    import conversion
    import gguf
    hparams = conversion.ModelBase.load_hparams(folder, False) | family.patch
    hparams = {name: value for name, value in hparams.items() if value is not REMOVED}
    kind = conversion.get_model_class(
        conversion.get_model_architecture(hparams, conversion.ModelType.TEXT), mmproj=False)
    kind.no_mtp = True
    classes = [conversion.base.TextModel]
    while classes:
        one = classes.pop()
        classes += one.__subclasses__()
        if "set_vocab" in vars(one):
            one.set_vocab = set_vocab
    with torch.inference_mode():
        converter = kind(folder, gguf.LlamaFileType.ALL_F32, out, use_temp_file=False, eager=True, hparams=hparams)
        if family.keys:
            family.keys(getattr(converter, "impl", converter).gguf_writer)
        converter.write()


def is_matrix(tensor):
    n_dims = sum(int(size) > 1 for size in tensor.shape)
    return tensor.name.endswith(".weight") and "norm" not in tensor.name and n_dims >= 2


def pack(source, out):
    """Writes the same model with its matrices in BF16."""
    import gguf
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(out, reader.get_field("general.architecture").contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub_type)
    for tensor in reader.tensors:
        if is_matrix(tensor):
            bits = np.ascontiguousarray(tensor.data).view(np.uint32)
            if np.any(bits & 0xFFFF):
                raise ValueError(f"{tensor.name} is not exact in BF16")
            halves = (bits >> 16).astype(np.uint16)
            writer.add_tensor(tensor.name, halves.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return reader.get_field("general.architecture").contents()


def divergence(expected, found):
    """Returns the mean KL divergence over positions."""
    def log_softmax(x):
        x = x.astype(np.float64)
        x = x - x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))

    p, q = log_softmax(expected), log_softmax(found)
    return float((np.exp(p) * (p - q)).sum(-1).mean())


def save(model, family, folder):
    model.save_pretrained(folder)
    if family.rename:
        from safetensors.torch import load_file, save_file
        weights = folder / "model.safetensors"
        save_file(family.rename(load_file(weights)), weights, metadata={"format": "pt"})
    # Some converters read this file.
    vocabulary = {word: i for i, word in enumerate(words())}
    (folder / "tokenizer.json").write_text(json.dumps(
        {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
         "decoder": None, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


def new_model(family):
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    if family.vision:
        config = transformers.AutoConfig.for_model(
            family.kind, text_config=family.config, vision_config=family.vision, tie_word_embeddings=False,
            image_token_id=WORDS - 1, video_token_id=WORDS - 2, vision_start_token_id=WORDS - 3,
            vision_end_token_id=WORDS - 4)
        return transformers.AutoModelForImageTextToText.from_config(config, **options).eval()
    config = transformers.AutoConfig.for_model(family.kind, **family.config)
    if family.model:
        return getattr(transformers, family.model)._from_config(config, **options).eval()
    return transformers.AutoModelForCausalLM.from_config(config, **options).eval()


def llama_logits(program, model, tokens, folder):
    out = folder / "logits.f32"
    command = [program, str(model), str(out), *map(str, tokens)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{program}: {done.stderr.strip()[-300:]}")
    return np.fromfile(out, np.float32).reshape(len(tokens), -1)


def make(name, family, arguments, folder):
    model = new_model(family)
    randomise(model, 1000 * arguments.seed + len(name))
    if family.adjust:
        family.adjust(model)
    generator = torch.Generator().manual_seed(arguments.seed)
    tokens = [BEGIN, *torch.randint(3, WORDS - 4, (TOKENS - 1,), generator=generator).tolist()]
    with torch.no_grad():
        expected = model(torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()
    save(model, family, folder)
    floats = folder / "floats.gguf"
    convert(folder, family, floats)
    apart = None
    if arguments.llama_logits and family.compared:
        apart = divergence(expected, llama_logits(arguments.llama_logits, floats, tokens, folder)[:, :WORDS])
    architecture = pack(floats, arguments.out / f"{name}.gguf")
    np.save(arguments.out / f"{name}.npy", expected.astype(np.float32))
    about = {"architecture": architecture, "judge": f"transformers {transformers.__version__}, {family.kind}",
             "seed": arguments.seed, "kl_llama_cpp": apart, "tokens": tokens}
    (arguments.out / f"{name}.json").write_text(json.dumps(about) + "\n")
    size = (arguments.out / f"{name}.gguf").stat().st_size
    print(f"{name}: {architecture}, {size // 1024} KiB, deviation {expected.std():.2f}, of llama.cpp {apart}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--converter", required=True)
    parser.add_argument("--llama-logits")
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trace", action="store_true", help="print the traceback of an error")
    arguments = parser.parse_args()
    sys.path[:0] = [arguments.converter + "/gguf-py", arguments.converter]
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in arguments.only.split(",") if arguments.only else FAMILIES:
        above = pathlib.Path(tempfile.mkdtemp())
        folder = above / name  # the converter writes its name into the file
        try:
            folder.mkdir()
            make(name, FAMILIES[name], arguments, folder)
        except Exception as error:  # pylint: disable=broad-except
            failed.append(name)
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            if arguments.trace:
                traceback.print_exc()
        finally:
            shutil.rmtree(above, ignore_errors=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
