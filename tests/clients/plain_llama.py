"""A plain computation of a `llama` model: all weights as floats, the whole text in one pass. Shares no code with the program."""

import gguf
import numpy


def normed(x, weight, epsilon):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def softmax(x):
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def write_floats(source, target):
    """Writes a copy of a model with all weights as floats, which the server uses unchanged."""
    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(target, "llama")
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            writer.add_key_value(name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class PlainLlama:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        value = {name: field.contents() for name, field in reader.fields.items() if name.startswith("llama.")}
        self.n_layers, self.n_heads = value["llama.block_count"], value["llama.attention.head_count"]
        self.n_kv_heads = value["llama.attention.head_count_kv"]
        self.epsilon = value["llama.attention.layer_norm_rms_epsilon"]
        self.base = value["llama.rope.freq_base"]
        self.weights = {tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32) for tensor in reader.tensors}

    def rotated(self, x):
        """Rotates [texts][heads][positions][values]. Pairs are adjacent values, as in converted files."""
        n, size = x.shape[-2:]
        angles = numpy.outer(numpy.arange(n), self.base ** (-numpy.arange(0, size, 2) / size))
        cos, sin = numpy.cos(angles), numpy.sin(angles)
        even, odd = x[..., 0::2], x[..., 1::2]
        return numpy.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape).astype(numpy.float32)

    def logits(self, tokens):
        """Returns logits for [texts][positions]. Padding at the ends of shorter texts is invisible to the tokens before it."""
        (n_texts, n), shared = tokens.shape, self.n_heads // self.n_kv_heads
        x = self.weights["token_embd.weight"][tokens]
        future = numpy.triu(numpy.full((n, n), -numpy.inf, numpy.float32), 1)
        for i in range(self.n_layers):
            def times(x, name, layer=i):
                return x @ self.weights[f"blk.{layer}.{name}.weight"].T

            def heads(x, n_heads):
                return x.reshape(n_texts, n, n_heads, -1).transpose(0, 2, 1, 3)

            h = normed(x, self.weights[f"blk.{i}.attn_norm.weight"], self.epsilon)
            q = self.rotated(heads(times(h, "attn_q"), self.n_heads))
            k = self.rotated(heads(times(h, "attn_k"), self.n_kv_heads)).repeat(shared, 1)
            v = heads(times(h, "attn_v"), self.n_kv_heads).repeat(shared, 1)
            seen = softmax(q @ k.transpose(0, 1, 3, 2) / numpy.sqrt(numpy.float32(q.shape[-1])) + future) @ v
            x = x + times(seen.transpose(0, 2, 1, 3).reshape(n_texts, n, -1), "attn_output")
            h = normed(x, self.weights[f"blk.{i}.ffn_norm.weight"], self.epsilon)
            gate = times(h, "ffn_gate")
            x = x + times(gate / (1 + numpy.exp(-gate)) * times(h, "ffn_up"), "ffn_down")
        x = normed(x, self.weights["output_norm.weight"], self.epsilon)
        return x @ self.weights.get("output.weight", self.weights["token_embd.weight"]).T

    def loglikelihoods(self, texts, n_known):
        """Returns, for each text's tokens after its first n_known, their log probability and whether each is the most likely token."""
        tokens = numpy.zeros((len(texts), max(map(len, texts))), numpy.int64)
        for row, text in zip(tokens, texts, strict=True):
            row[:len(text)] = text
        logits = self.logits(tokens)
        logits -= logits.max(-1, keepdims=True)
        logprobs = logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))
        for row, text, n in zip(logprobs, texts, n_known, strict=True):
            rest, asked = text[n:], row[n - 1:len(text) - 1]
            yield float(asked[numpy.arange(len(rest)), rest].sum()), bool((asked.argmax(-1) == rest).all())
