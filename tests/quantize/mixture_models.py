"""Tiny models of many shapes, and the tensor types that llama-quantize chooses for them.

    python3 tests/quantize/mixture_models.py LLAMA_QUANTIZE     writes tests/golden/mixtures.json

For each model the file has the model's facts and tensors. For each type it has one letter per tensor of the new file, with
an importance matrix ("with") and without ("without"); null if the file cannot be made. src/quantize/mixture_test.cpp reads
the file.
"""
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "mixtures.json"
F32, F16 = 0, 1
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0",
         "IQ4_NL", "IQ4_XS", "MXFP4_MOE", "Q3_K_L", "Q3_K_M", "Q3_K_S", "IQ3_M", "IQ3_S", "IQ3_XS", "IQ3_XXS", "Q2_K",
         "Q2_K_S", "IQ2_M", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S", "TQ2_0", "TQ1_0", "Q2_0", "Q1_0"]
# llama-quantize's names of tensor types, and the letter of each in the file.
LETTERS = dict(zip(["f32", "f16", "bf16", "q8_0", "q6_K", "q5_K", "q5_1", "q5_0", "q4_K", "q4_1", "q4_0", "iq4_nl",
                    "iq4_xs", "mxfp4", "q3_K", "iq3_s", "iq3_xxs", "q2_K", "iq2_s", "iq2_xs", "iq2_xxs", "iq1_m",
                    "iq1_s", "tq2_0", "tq1_0", "q2_0", "q1_0"], "ABCDEFGHIJKLMNOPQRSTUVWXYZa"))


def model(name, architecture, n_blocks, heads, kv_heads, parts, experts=0, width=512, tied=False, extra=()):
    tensors = [("token_embd.weight", [width, 2]), ("output_norm.weight", [width]), *extra]
    if not tied:
        tensors.append(("output.weight", [width, 2]))
    for block in range(n_blocks):
        for part in parts:
            stacked = part.endswith("_exps")
            is_norm = part.endswith("_norm")
            shape = [width] if is_norm else [width, 2, experts] if stacked else [width, 2]
            tensors.append((f"blk.{block}.{part}.weight", shape))
    return {"name": name, "architecture": architecture, "n_blocks": n_blocks, "n_heads": heads,
            "n_kv_heads": kv_heads, "n_experts": experts, "width": width, "tensors": tensors}


ATTENTION = ["attn_q", "attn_k", "attn_v", "attn_output"]
DENSE = ["ffn_gate", "ffn_up", "ffn_down"]
MOE = ["ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"]
MODELS = [
    model("many heads", "llama", 17, 8, 8, ["attn_norm", *ATTENTION, *DENSE]),
    model("grouped heads, tied", "llama", 24, 8, 2, [*ATTENTION, *DENSE], tied=True),
    model("eighty blocks", "llama", 80, 16, 2, ["attn_v", "ffn_down"]),
    model("eighty blocks of qwen2", "qwen2", 80, 8, 8, ["attn_v", "attn_k"]),
    model("eight experts", "llama", 16, 8, 2, [*ATTENTION, *MOE], experts=8),
    model("four experts", "llama", 16, 8, 8, [*ATTENTION, *MOE], experts=4),
    model("many experts", "qwen3moe", 18, 8, 4, [*ATTENTION, *MOE], experts=64),
    model("falcon", "falcon", 33, 8, 1, ["attn_qkv", "attn_output", "ffn_up", "ffn_down"]),
    model("falcon's falls back", "falcon", 16, 8, 1, ["attn_qkv", "attn_output", "ffn_down"], width=96),
    model("fused", "phi3", 16, 8, 2, ["attn_qkv", "attn_output", "ffn_up", "ffn_down"]),
    model("896 wide", "qwen2", 24, 14, 2, [*ATTENTION, *DENSE], width=896, tied=True),
    model("48 wide", "llama", 8, 4, 4, [*ATTENTION, *DENSE], width=48),
    model("odd names", "llama", 8, 4, 1, ["attn_q", "attn_kv_b", "attn_v_b", "ssm_conv1d", "attn_rel_b", "ffn_down"],
          extra=[("position_embd.weight", [512, 2]), ("blk.0.attn_q.bias", [512]),
                 ("per_layer_token_embd.weight", [512, 2]), ("a.rvq.codebook.weight", [512, 2])]),
]


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def gguf(metadata, tensors):
    """Returns a GGUF file. metadata: key -> text, int, float or list of texts; tensors: (name, shape, type). All data is 0."""
    header = b""
    for key, value in metadata.items():
        if isinstance(value, str):
            header += text(key) + struct.pack("<I", 8) + text(value)
        elif isinstance(value, float):
            header += text(key) + struct.pack("<If", 6, value)
        elif isinstance(value, list):
            header += text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        else:
            header += text(key) + struct.pack("<II", 4, value)
    offset = 0
    infos = b""
    for name, shape, kind in tensors:
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        size = {F32: 4, F16: 2}[kind]
        for n in shape:
            size *= n
        offset += (size + 31) // 32 * 32
    start = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + header + infos
    return start + bytes(-len(start) % 32) + bytes(offset)


def model_file(one):
    a = one["architecture"]
    metadata = {"general.architecture": a, f"{a}.block_count": one["n_blocks"], f"{a}.context_length": 64,
                f"{a}.embedding_length": one["width"], f"{a}.feed_forward_length": one["width"],
                f"{a}.attention.head_count": one["n_heads"], f"{a}.attention.head_count_kv": one["n_kv_heads"],
                f"{a}.attention.layer_norm_rms_epsilon": 1e-5, f"{a}.attention.layer_norm_epsilon": 1e-5,
                f"{a}.vocab_size": 2}
    if one["n_experts"]:
        metadata |= {f"{a}.expert_count": one["n_experts"], f"{a}.expert_used_count": 2,
                     f"{a}.expert_feed_forward_length": 2}
    return gguf(metadata, [(name, shape, F16 if len(shape) > 1 else F32) for name, shape in one["tensors"]])


def importance_file(one):
    """Returns an importance matrix with counts of 0, so that all columns have the same importance."""
    tensors = []
    for name, shape in one["tensors"]:
        if len(shape) > 1 and name.startswith("blk."):
            n = shape[2] if len(shape) > 2 else 1
            tensors += [(name + ".in_sum2", [shape[0], n], F32), (name + ".counts", [1, n], F32)]
    return gguf({"general.type": "imatrix", "imatrix.datasets": ["none"], "imatrix.chunk_count": 1,
                 "imatrix.chunk_size": 512}, tensors)


def llama_decisions(program, path, kind, importance):
    """Returns (name, type) of each tensor of the new file; None if the file cannot be made."""
    options = ["--imatrix", importance] if importance else []
    done = subprocess.run([program, *options, "--dry-run", path, kind], capture_output=True, text=True)
    out = done.stdout + done.stderr
    if "will require an imatrix" in out or "no tensor type fallback is defined" in out:
        return None
    assert done.returncode == 0, out
    # Finds the lines of tensors; warnings about widths may be between them.
    found = re.findall(r"\[ *\d+/ *\d+\] (\S+) +- \[.*?type = +(\w+), size = [ \d.]+ MiB(?: -> [ \d.]+ MiB \((\w+)\))?",
                       out)
    return [(name, to or source) for name, source, to in found]


def record(program):
    out = {"letters": {letter: name for name, letter in LETTERS.items()}, "models": []}
    with tempfile.TemporaryDirectory() as folder:
        path, importance = f"{folder}/model.gguf", f"{folder}/importance.gguf"
        for one in MODELS:
            pathlib.Path(path).write_bytes(model_file(one))
            pathlib.Path(importance).write_bytes(importance_file(one))
            entry = dict(one, decisions={})
            for kind in TYPES:
                entry["decisions"][kind] = {}
                for key, file in [("without", None), ("with", importance)]:
                    decisions = llama_decisions(program, path, kind, file)
                    letters = decisions and "".join(LETTERS[kind_] for _, kind_ in decisions)
                    assert letters is None or len(letters) == len(one["tensors"]), (one["name"], kind, key)
                    entry["decisions"][kind][key] = letters
            order = [name for name, _ in llama_decisions(program, path, "Q8_0", None)]
            entry["tensors"] = [[name, shape] for name, shape in one["tensors"]]
            entry["order"] = [order.index(name) for name, _ in one["tensors"]]
            out["models"].append(entry)
    lines = [json.dumps(entry) for entry in out["models"]]
    GOLDEN.write_text('{"letters": ' + json.dumps(out["letters"]) + ',\n"models": [\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    record(sys.argv[1])
