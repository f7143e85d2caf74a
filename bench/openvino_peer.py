#!/usr/bin/env python3
"""Measures OpenVINO GenAI once in a separate process, with a GGUF file. Prints one JSON object of rates, or the answer of the case
first-token. bench/compare runs it with a Python that has openvino_genai.

    openvino_peer.py '{"model": FILE, "kind": "prefill", "threads": 2, "n_prompt": 512, ...}'

Prompts are random token ids in tensors, so their lengths are exact. OpenVINO keeps the KV of earlier prompts, so every prompt is new.
Only a prompt at a depth begins with a prompt that was evaluated before.
"""

import json
import sys

import openvino
import openvino_genai

import numpy  # a dependency of openvino

KV_PRECISION = {"f16": "f16", "q8_0": "u8"}  # default of OpenVINO: u8


class Peer:
    def __init__(self, case):
        settings = {"INFERENCE_NUM_THREADS": case["threads"]}
        if case["kv"]:
            settings["KV_CACHE_PRECISION"] = KV_PRECISION[case["kv"]]
        self.pipeline = openvino_genai.LLMPipeline(case["model"], "CPU", **settings)
        self.n_vocab = len(self.pipeline.get_tokenizer().get_vocab())
        self.random = numpy.random.default_rng()

    def tokens(self, n, n_parallel=1):
        return self.random.integers(0, self.n_vocab, size=(n_parallel, n), dtype=numpy.int64)

    def generate(self, ids, n_new):
        """Returns the seconds to the first token, and the tokens per second of all sequences after it. The rate of a single token is None."""
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = n_new
        config.ignore_eos = True
        config.do_sample = False
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
        metrics = self.pipeline.generate(inputs, config).perf_metrics
        times = metrics.raw_metrics.m_new_token_times  # milliseconds, one per step
        rate = 1000 * ids.shape[0] * (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else None
        return metrics.get_ttft().mean / 1000, rate


def prefill(peer, case):
    n, depth = case["n_prompt"], case["depth"]
    peer.generate(peer.tokens(n), 1)
    ids = peer.tokens(depth + n)
    if depth:
        peer.generate(numpy.ascontiguousarray(ids[:, :depth]), 1)
    return {"prefill": n / peer.generate(ids, 1)[0]}


def decode(peer, case):
    peer.generate(peer.tokens(32), 4)
    return {"decode": peer.generate(peer.tokens(max(1, case["depth"])), case["n_generate"] + 1)[1]}


def parallel(peer, case):
    n, n_parallel = case["n_prompt"], case["n_parallel"]
    peer.generate(peer.tokens(n, n_parallel), 4)
    first, rate = peer.generate(peer.tokens(n, n_parallel), case["n_generate"] + 1)
    return {"prefill": n * n_parallel / first, "decode": rate}


def main():
    case = json.loads(sys.argv[1])
    peer = Peer(case)
    if case["kind"] == "first-token":
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = 1
        config.apply_chat_template = False
        print(peer.pipeline.generate(case["text"], config), flush=True)
    else:
        print(json.dumps({"prefill": prefill, "decode": decode, "parallel": parallel}[case["kind"]](peer, case)))


if __name__ == "__main__":
    main()
