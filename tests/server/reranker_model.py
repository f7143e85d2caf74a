"""Makes a reranker from MiniLM for tests. Its head is random, so it tests computations, not rankings."""

import json
import struct

import numpy
from bert_reference import read_safetensors
from server import MODELS

MINILM = MODELS / "all-minilm-l6-v2"


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(values.astype("<f4").tobytes())


def write_reranker(folder):
    """Writes a BertForSequenceClassification with one label and MiniLM as its encoder."""
    chance = numpy.random.default_rng(7)
    tensors = {"bert." + name: values for name, values in read_safetensors(MINILM / "model.safetensors").items()}
    config = json.loads((MINILM / "config.json").read_text())
    width = config["hidden_size"]
    tensors["bert.pooler.dense.weight"] = chance.normal(0, 1.5 / width**0.5, (width, width)).astype(numpy.float32)
    tensors["bert.pooler.dense.bias"] = chance.normal(0, 0.1, width).astype(numpy.float32)
    tensors["classifier.weight"] = chance.normal(0, 4 / width**0.5, (1, width)).astype(numpy.float32)
    tensors["classifier.bias"] = chance.normal(0, 0.1, 1).astype(numpy.float32)
    write_safetensors(folder / "model.safetensors", tensors)
    config |= {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        (folder / name).write_bytes((MINILM / name).read_bytes())
