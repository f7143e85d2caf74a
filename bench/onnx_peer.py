#!/usr/bin/env python3
"""Embeds a corpus in process with ONNX Runtime or OpenVINO: sorted by length, in padded batches of 32. Prints one JSON object.
bench/embeddings runs it with a Python that has the engine.

    onnx_peer.py make SAFETENSORS_FOLDER FILE.onnx             needs the package onnx
    onnx_peer.py onnxruntime|openvino FILE.onnx IDS.json THREADS
"""

import json
import pathlib
import struct
import sys
import time

import numpy

BATCH = 32


def read_safetensors(path):
    data = path.read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    for name, about in json.loads(data[8 : 8 + n]).items():
        if name != "__metadata__" and about["dtype"] == "F32":
            begin, end = about["data_offsets"]
            yield name, numpy.frombuffer(data, "<f4", (end - begin) // 4, 8 + n + begin).reshape(about["shape"])


class Graph:
    """Builds a BERT encoder of float32, node by node."""

    def __init__(self, folder):
        from onnx import helper, numpy_helper

        self.helper, self.from_array = helper, numpy_helper.from_array
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = dict(read_safetensors(folder / "model.safetensors"))
        self.nodes, self.constants = [], {}

    def constant(self, value, name=None):
        value = numpy.asarray(value)
        name = name or f"c{len(self.constants)}"
        self.constants[name] = self.from_array(numpy.ascontiguousarray(value), name)
        return name

    def node(self, kind, *inputs, **attributes):
        out = f"n{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, list(inputs), [out], name=out, **attributes))
        return out

    def linear(self, x, name):
        product = self.node("MatMul", x, self.constant(self.weights[name + ".weight"].T))
        return self.node("Add", product, self.constant(self.weights[name + ".bias"]))

    def norm(self, x, name):
        return self.node("LayerNormalization", x, self.constant(self.weights[name + ".weight"]),
                         self.constant(self.weights[name + ".bias"]), axis=-1, epsilon=self.config["layer_norm_eps"])

    def heads(self, x, order):
        n_heads = self.config["num_attention_heads"]
        shape = self.constant(numpy.array([0, 0, n_heads, self.config["hidden_size"] // n_heads], numpy.int64))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=order)

    def layer(self, x, mask, at):
        size = self.config["hidden_size"] // self.config["num_attention_heads"]
        q = self.heads(self.linear(x, at + "attention.self.query"), [0, 2, 1, 3])
        k = self.heads(self.linear(x, at + "attention.self.key"), [0, 2, 3, 1])
        v = self.heads(self.linear(x, at + "attention.self.value"), [0, 2, 1, 3])
        scores = self.node("Div", self.node("MatMul", q, k), self.constant(numpy.float32(size**0.5)))
        mixed = self.node("MatMul", self.node("Softmax", self.node("Add", scores, mask), axis=-1), v)
        whole = self.constant(numpy.array([0, 0, self.config["hidden_size"]], numpy.int64))
        mixed = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]), whole)
        mixed = self.linear(mixed, at + "attention.output.dense")
        x = self.norm(self.node("Add", mixed, x), at + "attention.output.LayerNorm")
        wide = self.linear(x, at + "intermediate.dense")
        erf = self.node("Erf", self.node("Div", wide, self.constant(numpy.float32(2**0.5))))
        wide = self.node("Mul", self.node("Mul", wide, self.node("Add", erf, self.constant(numpy.float32(1)))),
                         self.constant(numpy.float32(0.5)))
        return self.norm(self.node("Add", self.linear(wide, at + "output.dense"), x), at + "output.LayerNorm")

    def model(self):
        from onnx import TensorProto

        table = "embeddings."
        x = self.node("Gather", self.constant(self.weights[table + "word_embeddings.weight"]), "ids")
        x = self.node("Add", x, self.node("Gather", self.constant(self.weights[table + "position_embeddings.weight"]), "positions"))
        x = self.norm(self.node("Add", x, self.constant(self.weights[table + "token_type_embeddings.weight"][0])), table + "LayerNorm")
        for number in range(self.config["num_hidden_layers"]):
            x = self.layer(x, "mask", f"encoder.layer.{number}.")
        value = self.helper.make_tensor_value_info
        inputs = [value("ids", TensorProto.INT64, ["b", "t"]), value("positions", TensorProto.INT64, ["t"]),
                  value("mask", TensorProto.FLOAT, ["b", 1, 1, "t"])]
        self.nodes[-1].output[0] = "hidden"
        graph = self.helper.make_graph(self.nodes, "bert", inputs, [value("hidden", TensorProto.FLOAT, ["b", "t", "h"])],
                                       list(self.constants.values()))
        return self.helper.make_model(graph, opset_imports=[self.helper.make_opsetid("", 17)], ir_version=9)


def onnxruntime_engine(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feed: session.run(["hidden"], feed)[0]


def openvino_engine(path, threads):
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                                                           "INFERENCE_PRECISION_HINT": "f32"})
    return lambda feed: compiled(feed)[compiled.output(0)]


def embed(engine, texts):
    vectors = [None] * len(texts)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for begin in range(0, len(order), BATCH):
        part = order[begin : begin + BATCH]
        lengths = numpy.array([len(texts[i]) for i in part])
        n = int(lengths.max())
        ids = numpy.zeros((len(part), n), numpy.int64)
        for row, i in enumerate(part):
            ids[row, : len(texts[i])] = texts[i]
        there = numpy.arange(n)[None, :] < lengths[:, None]
        mask = numpy.where(there, 0, -10000).astype(numpy.float32)[:, None, None, :]
        hidden = engine({"ids": ids, "positions": numpy.arange(n), "mask": mask})
        mean = (hidden * there[:, :, None]).sum(1) / lengths[:, None]
        mean /= numpy.linalg.norm(mean, axis=1, keepdims=True)
        for row, i in enumerate(part):
            vectors[i] = mean[row]
    return vectors


def main():
    if sys.argv[1] == "make":
        import onnx

        onnx.save(Graph(pathlib.Path(sys.argv[2])).model(), sys.argv[3])
        return
    make = {"onnxruntime": onnxruntime_engine, "openvino": openvino_engine}[sys.argv[1]]
    texts = json.loads(pathlib.Path(sys.argv[3]).read_text())
    engine = make(sys.argv[2], int(sys.argv[4]))
    first = embed(engine, texts[:BATCH])
    began = time.perf_counter()
    embed(engine, texts)
    print(json.dumps({"seconds": time.perf_counter() - began, "vectors": [vector[:8].tolist() for vector in first[:2]]}))


if __name__ == "__main__":
    main()
