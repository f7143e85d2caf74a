#!/usr/bin/env python3
"""Writes encodings.json next to this file: the results of ggml's encoders for some rows.

    python3 tests/golden/make_encode_golden.py LIBGGML_BASE_SO

Each type has two entries, with an importance of the columns and without: the FNV-1a hash of all bytes, and the bytes of
the first group. src/quantize/encode_test.cpp has the same rows: four rows of 1024 elements, small products of
pseudo-random integers, with a run of 16 zeros and a run of 256 zeros.
"""
import ctypes
import json
import pathlib
import sys

ROWS, ROW_LEN = 4, 1024
TYPES = {"F16": 1, "BF16": 30, "Q8_0": 8, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q2_K": 10, "Q3_K": 11,
         "Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "IQ2_XXS": 16, "IQ2_XS": 17, "IQ3_XXS": 18, "IQ1_S": 19, "IQ4_NL": 20,
         "IQ3_S": 21, "IQ2_S": 22, "IQ4_XS": 23, "IQ1_M": 29, "TQ1_0": 34, "TQ2_0": 35, "MXFP4": 39, "Q1_0": 41,
         "Q2_0": 42}
ONLY_WITH = {"IQ2_XXS", "IQ2_XS", "IQ1_S"}


class Numbers:
    def __init__(self):
        self.state = 1

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n


def rows():
    numbers = Numbers()
    values = []
    for i in range(ROWS * ROW_LEN):
        product = 1
        for _ in range(3):
            product *= numbers.below(255) - 127
        values.append(0.0 if 512 <= i < 528 or 1536 <= i < 1792 else product / 2**26)
    return values, [(1 + numbers.below(255)) / 16 for _ in range(ROW_LEN)]


def fnv1a(data):
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return digest


def main():
    ggml = ctypes.CDLL(sys.argv[1])
    ggml.ggml_row_size.restype = ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_row_size.argtypes = [ctypes.c_int, ctypes.c_int64]
    ggml.ggml_type_size.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                                         ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    values, importance = rows()
    x = (ctypes.c_float * len(values))(*values)
    weights = (ctypes.c_float * ROW_LEN)(*importance)
    out = {}
    for name, kind in TYPES.items():
        out[name] = {}
        for key, pointer in [("without", None), ("with", weights)]:
            if pointer is None and name in ONLY_WITH:
                continue
            data = ctypes.create_string_buffer(ggml.ggml_row_size(kind, ROW_LEN) * ROWS)
            assert ggml.ggml_quantize_chunk(kind, x, data, 0, ROWS, ROW_LEN, pointer) == len(data)
            out[name][key] = {"digest": f"{fnv1a(data.raw):016x}", "first": data.raw[:ggml.ggml_type_size(kind)].hex()}
    path = pathlib.Path(__file__).parent / "encodings.json"
    path.write_text("{\n" + ",\n".join(f'"{name}": {json.dumps(entry)}' for name, entry in out.items()) + "\n}\n")


main()
