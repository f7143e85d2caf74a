"""billow convert: conversion of a folder of safetensors, errors, and use of the new file."""
import json
import struct

import numpy

from program import ProgramTest, main

WIDTH, HEADS, KV_HEADS, HEAD, FEED, LAYERS, TOKENS = 64, 4, 2, 16, 96, 2, 260


def byte_letters():
    """The characters for the bytes 0 to 255 in byte-level BPE, in the order of the bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) if byte in plain else chr(256 + others.index(byte)) for byte in range(256)]


def write_checkpoint(folder, dtype="F32"):
    """Writes a LlamaForCausalLM with random weights. Returns its tensors."""
    chance = numpy.random.default_rng(3)
    tensors = {"model.embed_tokens.weight": chance.normal(0, 1, (TOKENS, WIDTH)), "model.norm.weight": numpy.ones(WIDTH)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        shapes = {"self_attn.q_proj": (HEADS * HEAD, WIDTH), "self_attn.k_proj": (KV_HEADS * HEAD, WIDTH),
                  "self_attn.v_proj": (KV_HEADS * HEAD, WIDTH), "self_attn.o_proj": (WIDTH, HEADS * HEAD),
                  "mlp.gate_proj": (FEED, WIDTH), "mlp.up_proj": (FEED, WIDTH), "mlp.down_proj": (WIDTH, FEED)}
        for name, shape in shapes.items():
            tensors[f"{layer}{name}.weight"] = chance.normal(0, shape[1] ** -0.5, shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{layer}{name}.weight"] = numpy.ones(WIDTH)
    header, data = {}, b""
    for name, values in tensors.items():
        stored = values.astype("<f4").tobytes()
        header[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": [len(data), len(data) + len(stored)]}
        data += stored
    text = json.dumps(header).encode()
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "intermediate_size": FEED, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True}))
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [{"id": 256, "content": "<|end|>", "special": True}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "model": {"type": "BPE", "vocab": {**{letter: byte for byte, letter in enumerate(byte_letters())}, "th": 257}, "merges": ["t h"]}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "eos_token": "<|end|>", "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}))
    return tensors


class Convert(ProgramTest):
    def setUp(self):
        self.source = self.dir / "checkpoint"
        self.tensors = write_checkpoint(self.source)
        self.out = self.dir / "converted.gguf"

    def tearDown(self):
        self.out.unlink(missing_ok=True)
        self.assertEqual([path.name for path in self.dir.iterdir() if ".partial-" in path.name], [])

    def test_the_file_runs_and_tokenizes_correctly(self):
        made = json.loads(self.ok("convert", "--json", "--outtype", "f32", self.source, self.out))
        self.assertEqual(made["bytes"], self.out.stat().st_size)
        shown = json.loads(self.ok("inspect", "--json", self.out))
        self.assertEqual(len(shown["tensors"]), len(self.tensors))
        self.assertEqual(json.loads(self.ok("tokenize", "--model", self.out, "--json", stdin="aéth".encode())), [97, 0xC3, 0xA9, 257])
        text = self.ok("generate", "--model", self.out, "--prompt", "a", "--max-tokens", "4", "--temperature", "0")
        self.assertTrue(text)

    def test_quantize_after_convert_gives_the_same_types(self):
        self.ok("convert", "--outtype", "F32", self.source, self.out)
        again = self.dir / "again.gguf"
        self.ok("quantize", self.out, again, "F16")
        self.ok("convert", "--outtype", "F16", self.source, self.out)
        self.assertEqual({t["name"]: t["type"] for t in json.loads(self.ok("inspect", "--json", again))["tensors"]},
                         {t["name"]: t["type"] for t in json.loads(self.ok("inspect", "--json", self.out))["tensors"]})
        again.unlink()

    def test_takes_folders_of_the_cache_of_hugging_face(self):
        blobs = self.dir / "hub" / "models--maker--small-model" / "blobs"
        snapshot = blobs.parent / "snapshots" / ("c" * 40)
        blobs.mkdir(parents=True)
        snapshot.mkdir(parents=True)
        for number, file in enumerate(sorted(self.source.iterdir())):
            (blobs / str(number)).write_bytes(file.read_bytes())
            (snapshot / file.name).symlink_to(f"../../blobs/{number}")
        self.ok("convert", snapshot, self.out)
        self.assertEqual(json.loads(self.ok("inspect", "--json", self.out))["metadata"]["general.name"]["value"], "small-model")

    def test_refuses_numbers_that_are_not_finite(self):
        weights = self.source / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-4] + struct.pack("<f", float("nan")))
        for kind in ("F32", "F16", "BF16", "Q8_0"):
            self.refused("convert", "--outtype", kind, self.source, self.out, names=["tensor 'blk.1.ffn_norm.weight'", "not finite"])
        self.assertFalse(self.out.exists())

    def test_refuses_to_replace_its_input_or_its_other_file(self):
        for name in ("model.safetensors", "config.json"):
            before = (self.source / name).read_bytes()
            self.refused("convert", self.source, self.source / name, names=[name, "is part of the input"])
            self.refused("convert", self.source, self.out, "--mmproj", self.source / name, names=[name, "is part of the input"])
            self.assertEqual((self.source / name).read_bytes(), before)
        self.refused("convert", self.source, self.out, "--mmproj", self.dir / "." / self.source.name / ".." / self.out.name,
                     names=[self.out, "cannot be the model and the projector", "--mmproj"])
        self.assertFalse(self.out.exists())

    def test_errors_have_one_line(self):
        self.refused("convert", self.dir / "none", self.out, names=["there is no such folder"])
        self.refused("convert", "--outtype", "Q4_K_M", self.source, self.out, names=["Q4_K_M", "billow quantize"])
        (self.source / "tokenizer.json").unlink()
        self.refused("convert", self.source, self.out, names=["there is no vocabulary", "tokenizer.json"])
        write_checkpoint(self.source, "I32")
        self.refused("convert", self.source, self.out, names=["I32", "cannot be converted"])
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    main()
