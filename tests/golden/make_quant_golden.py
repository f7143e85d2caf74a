#!/usr/bin/env python3
"""Writes quant.json beside this file: groups of each weight format with the values that the gguf package gives them.

    pip install gguf numpy && python3 tests/golden/make_quant_golden.py

"decode": random bytes and their values. "encode": values and their bytes, for the formats whose encoder is defined to
the bit. Bytes are hexadecimal; floats are the bytes of little-endian singles. golden_test.cpp of src/quant reads it.
"""
import json
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize

DECODED = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
           "IQ4_NL", "IQ4_XS", "MXFP4"]
ENCODED = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4"]


def decode_entry(name, random):
    kind = GGMLQuantizationType[name]
    group_len, group_bytes = GGML_QUANT_SIZES[kind]
    n_groups = {1: 32, 32: 4, 256: 2}[group_len]
    while True:
        groups = random.integers(0, 256, (n_groups * group_bytes,), dtype=np.uint8)
        with np.errstate(all="ignore"):
            values = dequantize(groups, kind).astype(np.float32)
        if np.isfinite(values).all():
            return {"type": name, "bytes": groups.tobytes().hex(), "floats": values.tobytes().hex()}


def encode_entry(name, random):
    """A spread of sizes, zeros and ties."""
    values = np.concatenate([
        random.standard_normal(32),
        random.standard_normal(32) * 1000,
        random.standard_normal(32) * 1e-3 - 1e-2,
        np.zeros(32),
        random.integers(-4, 5, 32) / 2,
    ]).astype(np.float32)
    encoded = quantize(values, GGMLQuantizationType[name])
    return {"type": name, "floats": values.tobytes().hex(), "bytes": encoded.tobytes().hex()}


def main():
    random = np.random.default_rng(2024)
    golden = {"decode": [decode_entry(name, random) for name in DECODED],
              "encode": [encode_entry(name, random) for name in ENCODED]}
    path = pathlib.Path(__file__).with_name("quant.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
