"""Writes safetensors files, for tests."""

import json
import struct


def write_safetensors(path, tensors):
    """tensors: name -> (shape, list of floats)."""
    header, data = {}, bytearray()
    for name, (shape, values) in tensors.items():
        begin = len(data)
        data += struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
