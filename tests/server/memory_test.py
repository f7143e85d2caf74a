"""Tests that a server refuses exactly the requests that exceed its memory budget.

memory_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]

Runs random loads, prompts, vectors, scores and unloads of generated models under a small budget, sequentially and in parallel.
Computes the need of a request from `billow runner --describe`. The server must answer if, and only if, the need is within the
budget. Regression tests with the small real model run if it is installed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

from run_cases import run_cases
from server import WEIGHTS, Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
options, rest = parser.parse_known_args()

PARALLEL = 2
ARGUMENTS = ("--threads", "1", "--parallel", str(PARALLEL))
WORD = "7 "


def rounded_up(n, unit):
    return (n + unit - 1) // unit * unit


class Need:
    """The memory need of a model, as its runner describes it."""

    def __init__(self, path):
        done = subprocess.run([options.billow, "runner", "--describe", str(path), *ARGUMENTS], capture_output=True, check=True)
        self.facts = json.loads(done.stdout)
        self.memory = self.facts["memory"]

    def bytes(self, n_positions):
        memory = self.memory
        scratch = next((step["bytes"] for step in memory["scratch"] if step["positions"] >= n_positions),
                       memory["scratch"][-1]["bytes"])
        n_blocks = rounded_up(n_positions, memory["block_positions"]) // memory["block_positions"]
        return memory["weight_bytes"] + scratch + n_blocks * sum(group["block_bytes"] for group in memory["kv_groups"])

    def rung(self, n_prompt, n_answer):
        """Returns the first rung of an answer to a prompt."""
        limit = self.facts["max_context"]
        context = min(limit, rounded_up(n_prompt + n_answer, 1024))
        expected = min(context, rounded_up(n_prompt + 1024, 1024)) if context == limit else context
        rung = 512
        while rung < expected:
            rung *= 2
        return min(rung, context)


class Memory(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def serve(self, *arguments):
        self.server = Server(self.folder, ARGUMENTS + arguments, program=options.billow)
        self.addCleanup(self.server.stop)

    def post(self, path, body):
        status, _, text = self.server.request("POST", path, {"keep_alive": -1, **body})
        return status, json.loads(text)

    def generate(self, model, prompt, n=1):
        return self.post("/api/generate", {"model": model, "prompt": prompt, "stream": False, "raw": True,
                                           "options": {"temperature": 0, "num_predict": n}})

    def expect(self, got, needed, what):
        status, answer = got
        if needed <= self.budget:
            self.assertEqual(status, 200, f"{what} takes {needed} of {self.budget}: {answer}")
        else:
            self.n_refused += 1
            self.assertEqual(status, 500, f"{what} takes {needed} of {self.budget}")
            self.assertIn("requires more system memory", answer["error"])


class Generated(Memory):
    """Models of a few MiB that need more memory for KV than for anything else."""

    def setUp(self):
        super().setUp()
        subprocess.run([options.make_models, str(self.folder), "--to-serve"], check=True)
        self.needs = {name: Need(self.folder / f"{name}.gguf") for name in ("writer", "large", "vectors", "ranker")}
        # Room for all of the small model, or half of the context of the large one, but not both.
        self.budget = max(self.needs["writer"].bytes(4096), self.needs["large"].bytes(2048)) + 1000
        self.assertGreater(self.needs["large"].bytes(4096), self.budget)
        self.serve("--memory", str(self.budget))
        for name in self.needs:
            self.server.add_model(name, self.folder / f"{name}.gguf")
        per_word = [self.generate("writer", WORD * n)[1]["prompt_eval_count"] for n in (100, 200)]
        self.n_per_word = (per_word[1] - per_word[0]) // 100
        self.n_more = per_word[0] - 100 * self.n_per_word
        self.server.json("POST", "/api/generate", {"model": "writer", "keep_alive": 0})

    def prompt_of(self, n_tokens):
        n_words = max(1, (n_tokens - self.n_more) // self.n_per_word)
        return WORD * n_words, n_words * self.n_per_word + self.n_more

    def act(self, chance, only_what_fits=False):
        """Sends a random request, and checks that it succeeds exactly if it fits the budget."""
        kind = chance.choice(("load", "unload", "write", "write", "write", "chat", "embed", "embed", "vector", "rank"))
        model = chance.choice(("writer", "large"))
        need = self.needs[model]
        text, n_tokens = self.prompt_of(chance.choice((50, 600, 1500, 2500, 3900)))
        if kind == "load":
            self.expect(self.post("/api/generate", {"model": model}), need.bytes(0), f"to load {model}")
        elif kind == "unload":
            self.assertEqual(self.post("/api/generate", {"model": model, "keep_alive": 0})[0], 200)
        elif kind == "write":
            n = chance.choice((1, 8, 600))
            needed = need.bytes(need.rung(n_tokens, n))
            if needed <= self.budget or not only_what_fits:
                self.expect(self.generate(model, text, n), needed, f"{n_tokens} tokens and {n} of {model}")
        elif kind == "chat":
            body = {"model": model, "stream": False, "messages": [{"role": "user", "content": "7 7 7"}],
                    "options": {"temperature": 0, "num_predict": 3}}
            self.expect(self.post("/api/chat", body), need.bytes(1024), f"to chat with {model}")
        elif kind == "embed":
            needed = need.bytes(rounded_up(n_tokens, 1024))
            if needed <= self.budget or not only_what_fits:
                self.expect(self.post("/api/embed", {"model": model, "input": text}), needed, f"vector of {n_tokens} of {model}")
        elif kind == "vector":
            need = self.needs["vectors"]
            self.expect(self.post("/api/embed", {"model": "vectors", "input": [text, "7"]}),
                        need.bytes(rounded_up(n_tokens, 1024)), f"vectors of {n_tokens}")
        else:
            self.expect(self.post("/rerank", {"model": "ranker", "query": "a", "texts": ["b c", "d"]}),
                        self.needs["ranker"].bytes(0), "to rank")

    def test_sequential_requests(self):
        self.n_refused = 0
        for seed in range(2):
            chance = random.Random(seed)
            for step in range(30):
                with self.subTest(seed=seed, step=step):
                    self.act(chance)
        self.assertGreater(self.n_refused, 3)

    def test_parallel_requests_succeed_if_each_fits_alone(self):
        def client(seed):
            chance = random.Random(seed)
            for _ in range(6):
                self.act(chance, only_what_fits=True)

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            for future in [pool.submit(client, 100 + seed) for seed in range(6)]:
                future.result()


@unittest.skipUnless(WEIGHTS.exists(), f"no model at {WEIGHTS}")
class Real(Memory):
    """Regression tests: two requests that must get free memory."""

    def setUp(self):
        super().setUp()
        self.serve()
        self.server.add_model("m")

    def test_long_chat_after_load_without_prompt(self):
        self.assertEqual(self.post("/api/generate", {"model": "m"})[0], 200)
        status, answer = self.post("/api/chat", {"model": "m", "stream": False, "options": {"temperature": 0, "stop": [" "]},
                                                 "messages": [{"role": "user", "content": "word " * 4400}]})
        self.assertEqual(status, 200, answer)
        self.assertGreater(answer["prompt_eval_count"], 4312)

    def test_longest_prompt_after_an_embedding(self):
        self.assertEqual(self.post("/api/embed", {"model": "m", "input": "a text"})[0], 200)
        status, answer = self.generate("m", "word " * 7900)
        self.assertEqual(status, 200, answer)
        self.assertGreater(answer["prompt_eval_count"], 7800)


if __name__ == "__main__":
    os.environ.setdefault("BILLOW_LOG", "info")
    run_cases(rest)
