"""A BERT encoder in plain NumPy, in float32 from its safetensors. Tests compare the server's vectors with it."""

import json
import math
import pathlib
import struct

import numpy


def read_safetensors(path):
    data = path.read_bytes()
    (n_header,) = struct.unpack_from("<Q", data)
    tensors = {}
    for name, about in json.loads(data[8 : 8 + n_header]).items():
        if name != "__metadata__" and about["dtype"] == "F32":
            begin, end = about["data_offsets"]
            values = numpy.frombuffer(data, "<f4", (end - begin) // 4, 8 + n_header + begin)
            tensors[name] = values.reshape(about["shape"])
    return tensors


def erf(x):
    """The error function, exact to 1.5e-7: Abramowitz and Stegun, 7.1.26."""
    size = numpy.abs(x)
    t = 1 / (1 + numpy.float32(0.3275911) * size)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * numpy.float32(1.061405429)))))
    return numpy.sign(x) * (1 - series * numpy.exp(-size * size))


class BertReference:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        config = json.loads((folder / "config.json").read_text())
        tensors = read_safetensors(folder / "model.safetensors")
        self.tensors = {name.removeprefix("bert."): values for name, values in tensors.items()}
        self.n_heads = config["num_attention_heads"]
        self.n_layers = config["num_hidden_layers"]
        self.epsilon = config["layer_norm_eps"]

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / numpy.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon)
        return x * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def linear(self, x, name):
        return x @ self.tensors[name + ".weight"].T + self.tensors[name + ".bias"]

    def hidden(self, ids, n_first=None):
        """Returns [tokens][width] of one text with special tokens. Tokens from n_first on are the second segment of a pair."""
        embedded = "embeddings."
        x = self.tensors[embedded + "word_embeddings.weight"][ids]
        x = x + self.tensors[embedded + "position_embeddings.weight"][: len(ids)]
        types = (numpy.arange(len(ids)) >= (len(ids) if n_first is None else n_first)).astype(int)
        x = self.norm(x + self.tensors[embedded + "token_type_embeddings.weight"][types], embedded + "LayerNorm")
        for layer in range(self.n_layers):
            at = f"encoder.layer.{layer}."
            q, k, v = (self.linear(x, f"{at}attention.self.{name}").reshape(len(ids), self.n_heads, -1).transpose(1, 0, 2)
                       for name in ("query", "key", "value"))
            scores = q @ k.transpose(0, 2, 1) / numpy.float32(math.sqrt(q.shape[2]))
            scores = numpy.exp(scores - scores.max(-1, keepdims=True))
            mixed = (scores / scores.sum(-1, keepdims=True)) @ v
            mixed = mixed.transpose(1, 0, 2).reshape(x.shape)
            x = self.norm(x + self.linear(mixed, at + "attention.output.dense"), at + "attention.output.LayerNorm")
            wide = self.linear(x, at + "intermediate.dense")
            wide = (0.5 * wide * (1 + erf(wide / math.sqrt(2)))).astype(numpy.float32)
            x = self.norm(x + self.linear(wide, at + "output.dense"), at + "output.LayerNorm")
        return x

    def vector(self, ids):
        """Returns the mean of the hidden states, normalized to length 1."""
        mean = self.hidden(ids).astype(numpy.float64).mean(0)
        return mean / numpy.linalg.norm(mean)

    def scores(self, ids, n_first):
        """Returns [labels] of a BertForSequenceClassification."""
        first = self.hidden(ids, n_first)[0]
        return self.linear(numpy.tanh(self.linear(first, "pooler.dense")), "classifier")
