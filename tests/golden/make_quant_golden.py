#!/usr/bin/env python3
"""Writes quant.json next to this file: groups of each weight format, with their values by the gguf package.

    pip install gguf numpy && python3 tests/golden/make_quant_golden.py

"decode": random bytes and their values. "encode": values and their bytes, for the formats whose encoder is defined to
the bit. "digest": many random groups of the formats with grids, and the FNV-1a hash of their values. The groups contain
nearly all entries of a grid. Bytes are hexadecimal; floats are the bytes of little-endian singles. golden_test.cpp of
src/quant reads the file. Q1_0 and Q2_0 are computed here, because gguf 0.19 lacks them.
"""
import json
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize

DECODED = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
           "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "IQ1_M", "TQ1_0", "TQ2_0",
           "MXFP4", "NVFP4", "Q1_0", "Q2_0"]
ENCODED = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4"]
DIGESTED = {"IQ2_XXS": 32, "IQ2_XS": 64, "IQ3_XXS": 16, "IQ1_S": 256, "IQ3_S": 32, "IQ2_S": 128, "IQ1_M": 64}

OF_ONE_SCALE = {"Q1_0": (128, 1), "Q2_0": (64, 2)}  # group length, bits; the scale comes before the codes


def sizes(name):
    if name in OF_ONE_SCALE:
        group_len, bits = OF_ONE_SCALE[name]
        return group_len, 2 + group_len * bits // 8
    return GGML_QUANT_SIZES[GGMLQuantizationType[name]]


def decode(name, groups):
    if name not in OF_ONE_SCALE:
        return dequantize(groups, GGMLQuantizationType[name]).astype(np.float32)
    group_len, bits = OF_ONE_SCALE[name]
    rows = groups.reshape(-1, sizes(name)[1])
    scales = np.ascontiguousarray(rows[:, :2]).view(np.float16).astype(np.float32)
    ones = np.unpackbits(rows[:, 2:], axis=1, bitorder="little")
    codes = ones if bits == 1 else ones[:, 0::2] + 2 * ones[:, 1::2]
    factors = 2.0 * codes - 1.0 if bits == 1 else codes - 1.0
    return (scales * factors.astype(np.float32)).reshape(-1)


def finite_groups(name, n_groups, random):
    while True:
        groups = random.integers(0, 256, (n_groups * sizes(name)[1],), dtype=np.uint8)
        with np.errstate(all="ignore"):
            values = decode(name, groups)
        if np.isfinite(values).all():
            return groups, values


def decode_entry(name, random):
    n_groups = {1: 32, 32: 4}.get(sizes(name)[0], 2)
    groups, values = finite_groups(name, n_groups, random)
    return {"type": name, "bytes": groups.tobytes().hex(), "floats": values.tobytes().hex()}


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def digest_entry(name, n_groups, random):
    pieces = [finite_groups(name, 1, random) for _ in range(n_groups)]
    groups = np.concatenate([groups for groups, _ in pieces])
    values = np.concatenate([values for _, values in pieces])
    return {"type": name, "bytes": groups.tobytes().hex(), "digest": fnv1a(values.tobytes())}


def encode_entry(name, random):
    """Returns an entry with values of many sizes, zeros and ties."""
    values = np.concatenate([
        random.standard_normal(32),
        random.standard_normal(32) * 1000,
        random.standard_normal(32) * 1e-3 - 1e-2,
        np.zeros(32),
        random.integers(-4, 5, 32) / 2,
        random.standard_normal(96),
    ]).astype(np.float32)
    encoded = quantize(values, GGMLQuantizationType[name])
    return {"type": name, "floats": values.tobytes().hex(), "bytes": encoded.tobytes().hex()}


def main():
    random = np.random.default_rng(2024)
    golden = {"decode": [decode_entry(name, random) for name in DECODED],
              "encode": [encode_entry(name, random) for name in ENCODED],
              "digest": [digest_entry(name, n, random) for name, n in DIGESTED.items()]}
    path = pathlib.Path(__file__).with_name("quant.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
