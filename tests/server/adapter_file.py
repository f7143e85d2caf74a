"""Writes adapters (LoRA) with random values as GGUF files, for tests."""

import json
import math
import random
import struct
import subprocess

F32, U32, FLOAT, STRING = 0, 4, 6, 8


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def write_gguf(path, metadata, tensors):
    """Writes a GGUF file. metadata: name -> text or float. tensors: name -> (shape with the row length first, list of floats)."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
    for name, value in metadata.items():
        is_text = isinstance(value, str)
        out += text(name) + struct.pack("<I", STRING if is_text else FLOAT)
        out += text(value) if is_text else struct.pack("<f", value)
    at = 0
    for name, (shape, values) in tensors.items():
        assert len(values) == math.prod(shape)
        out += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, F32, at)
        at += -(-4 * len(values) // 32) * 32
    for shape, values in tensors.values():
        out += bytes(-len(out) % 32) + struct.pack(f"<{len(values)}f", *values)
    path.write_bytes(out + bytes(-len(out) % 32))


def write_adapter(billow, model, path, seed=1, rank=4, size=0.3, alpha=None, architecture=None):
    """Writes an adapter for all matrices in the layers of the GGUF file `model`."""
    described = json.loads(subprocess.run([billow, "inspect", "--json", str(model)], capture_output=True, check=True).stdout)
    metadata = described["metadata"]
    chance = random.Random(seed)
    tensors = {}
    for tensor in described["tensors"]:
        shape = tensor["shape"]
        if not tensor["name"].startswith("blk.") or len(shape) != 2 or shape[1] == 1:
            continue
        n_in, n_out = shape
        tensors[tensor["name"] + ".lora_a"] = ((n_in, rank), [chance.gauss(0, n_in**-0.5) for _ in range(n_in * rank)])
        tensors[tensor["name"] + ".lora_b"] = ((rank, n_out), [chance.gauss(0, size) for _ in range(n_out * rank)])
    keys = {"general.type": "adapter", "general.architecture": architecture or metadata["general.architecture"]["value"],
            "adapter.type": "lora", "adapter.lora.alpha": float(rank if alpha is None else alpha)}
    write_gguf(path, keys, tensors)
    return path
