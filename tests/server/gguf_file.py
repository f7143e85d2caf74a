"""Reads GGUF files, changes them in memory, and writes them, for tests."""

import dataclasses
import math
import pathlib
import struct

U32, FLOAT, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
BYTES = {0: 4, 1: 2, 30: 2}  # of an element: F32, F16, BF16
ALIGNMENT = 32


@dataclasses.dataclass
class Tensor:
    shape: list[int]  # the row length first
    type: int
    data: bytes


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        n = self.number("Q")
        self.at += n
        return self.data[self.at - n : self.at]

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            element = self.number("I")
            return element, [self.value(element) for _ in range(self.number("Q"))]
        return self.number(FORMATS[kind])


class GgufFile:
    """keys: name -> (type, value), where texts are bytes and an array is (type, list). tensors: name -> Tensor, unquantised."""

    def __init__(self, path):
        reader = Reader(pathlib.Path(path).read_bytes())
        assert reader.data[:4] == b"GGUF"
        reader.at = 8
        n_tensors, n_keys = reader.number("Q"), reader.number("Q")
        self.keys = {}
        for _ in range(n_keys):
            name = reader.text().decode()
            kind = reader.number("I")
            self.keys[name] = kind, reader.value(kind)
        heads = []
        for _ in range(n_tensors):
            name = reader.text().decode()
            shape = [reader.number("Q") for _ in range(reader.number("I"))]
            heads.append((name, shape, reader.number("I"), reader.number("Q")))
        begin = -(-reader.at // ALIGNMENT) * ALIGNMENT
        self.tensors = {name: Tensor(shape, kind, reader.data[begin + at : begin + at + math.prod(shape) * BYTES[kind]])
                        for name, shape, kind, at in heads}

    def get(self, name):
        return self.keys[name][1]

    def write(self, path):
        out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys)))

        def add_text(text):
            nonlocal out
            out += struct.pack("<Q", len(text)) + text

        def add(kind, value):
            nonlocal out
            if kind == STRING:
                add_text(value)
            elif kind == ARRAY:
                out += struct.pack("<IQ", value[0], len(value[1]))
                for element in value[1]:
                    add(value[0], element)
            else:
                out += struct.pack("<" + FORMATS[kind], value)

        for name, (kind, value) in self.keys.items():
            add_text(name.encode())
            out += struct.pack("<I", kind)
            add(kind, value)
        at = 0
        for name, tensor in self.tensors.items():
            add_text(name.encode())
            out += struct.pack(f"<I{len(tensor.shape)}QIQ", len(tensor.shape), *tensor.shape, tensor.type, at)
            at += -(-len(tensor.data) // ALIGNMENT) * ALIGNMENT
        for tensor in self.tensors.values():
            out += bytes(-len(out) % ALIGNMENT) + tensor.data
        pathlib.Path(path).write_bytes(out + bytes(-len(out) % ALIGNMENT))
