"""Tests models with adapters (LoRA), from the Modelfile to the answer.

adapter_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import subprocess
import tempfile
import unittest

from adapter_file import write_adapter
from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
options, rest = parser.parse_known_args()

PROMPT = "7 8 9 " * 60  # more than a block of 64 tokens


class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([options.make_models, str(cls.folder), "--to-serve"], check=True)
        cls.base = cls.folder / "writer.gguf"
        for seed in (1, 2, 3):
            write_adapter(options.billow, cls.base, cls.folder / f"{seed}.gguf", seed)
        write_adapter(options.billow, cls.base, cls.folder / "half.gguf", 1, alpha=2)
        cls.server = Server(cls.folder, ("--threads", "1", "--parallel", "8"), program=options.billow)
        cls.addClassCleanup(cls.server.stop)
        cls.server.add_model("base", cls.base)
        for seed in (1, 2, 3):
            cls.create(f"with{seed}", f"FROM base\nADAPTER {cls.folder}/{seed}.gguf\n")
        cls.create("half", f"FROM base\nADAPTER {cls.folder}/half.gguf\n")
        cls.create("scaled", f"FROM base\nADAPTER {cls.folder}/1.gguf:0.5\n")
        cls.create("both", f"FROM base\nADAPTER {cls.folder}/1.gguf\nADAPTER {cls.folder}/2.gguf:-1\n")

    @classmethod
    def billow(cls, *arguments):
        return subprocess.run([options.billow, *arguments], env=cls.server.environment, capture_output=True, text=True)

    @classmethod
    def create(cls, name, modelfile):
        path = cls.folder / "Modelfile"
        path.write_text(modelfile)
        done = cls.billow("create", name, "-f", str(path))
        assert done.returncode == 0, done.stderr
        return done

    def ask(self, model, prompt=PROMPT, n=12):
        body = {"model": model, "prompt": prompt, "stream": False, "raw": True, "keep_alive": -1,
                "options": {"temperature": 0, "num_predict": n}}
        return self.server.json("POST", "/api/generate", body)

    def test_each_adapter_changes_the_answer_on_one_runner(self):
        names = ["base", "with1", "with2", "with3", "both"]
        alone = {name: self.ask(name)["response"] for name in names}
        self.assertEqual(len(set(alone.values())), len(names), alone)
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            for name, answer in [(name, pool.submit(self.ask, name)) for name in names * 4]:
                self.assertEqual(answer.result()["response"], alone[name], name)
        self.assertEqual(len(self.server.runners()), 1)

    def test_scale_in_modelfile_equals_scale_in_file(self):
        self.assertEqual(self.ask("scaled")["response"], self.ask("half")["response"])
        self.assertNotEqual(self.ask("scaled")["response"], self.ask("with1")["response"])
        shown = self.server.json("POST", "/api/show", {"model": "both"})["modelfile"]
        self.assertEqual(shown.count("\nADAPTER "), 2, shown)

    def test_adapters_do_not_share_cached_prefixes(self):
        prompt = "9 8 7 " * 60
        for name in ("base", "with1", "with2"):
            self.assertEqual(self.ask(name, prompt).get("prompt_cached_count", 0), 0, name)
        for name in ("with2", "base", "with1"):
            self.assertGreater(self.ask(name, prompt)["prompt_cached_count"], 0, name)

    def test_invalid_adapters_are_refused_with_one_line(self):
        other = write_adapter(options.billow, self.base, self.folder / "other.gguf", architecture="qwen9")
        broken = self.folder / "broken.gguf"
        broken.write_bytes((self.folder / "1.gguf").read_bytes()[:-1000])
        digests = {}
        for path in (other, self.base, self.folder / "1.gguf"):
            data = path.read_bytes()
            digests[path.name] = "sha256:" + hashlib.sha256(data).hexdigest()
            self.server.request("POST", "/api/blobs/" + digests[path.name], data)
        for fields, expected in (
                ({"adapters": {"a": digests["other.gguf"]}}, 'a: this is an adapter for models of the architecture "qwen9"'),
                ({"adapters": {"a": digests["writer.gguf"]}}, "a: this GGUF file is not an adapter"),
                ({"adapters": {"a": digests["1.gguf"]}, "adapter_scales": {"b": 2}}, 'there is no adapter "b"'),
                ({"adapters": {"a": digests["1.gguf"]}, "adapter_scales": {"a": 0}}, "must be a number other than 0"),
                ({"adapters": {"a": digests["1.gguf"]}, "adapter_scales": {"a": "x"}}, "adapter_scales")):
            status, _, text = self.server.request("POST", "/api/create", {"model": "wrong", "from": "base", "stream": False, **fields})
            self.assertIn(expected, json.loads(text)["error"], text)
            self.assertEqual(status, 400, text)
        self.assertNotIn("wrong:latest", [model["name"] for model in self.server.json("GET", "/api/tags")["models"]])
        path = self.folder / "Modelfile"
        path.write_text(f"FROM base\nADAPTER {broken}\n")
        done = self.billow("create", "wrong", "-f", str(path))
        self.assertNotEqual(done.returncode, 0)

    def test_adapter_of_other_sizes_fails_at_first_request(self):
        large = write_adapter(options.billow, self.folder / "large.gguf", self.folder / "of-large.gguf")
        self.create("misfit", f"FROM base\nADAPTER {large}\n")
        status, _, text = self.server.request("POST", "/api/generate", {"model": "misfit", "prompt": "7", "stream": False})
        self.assertEqual(status, 500, text)
        self.assertIn("made for another model", json.loads(text)["error"])

    def create_kinds(self, base):
        """Creates models of `base` with two adapters and without one. Returns their names."""
        self.server.add_model(base, self.folder / f"{base}.gguf")
        for seed in (1, 2):
            path = write_adapter(options.billow, self.folder / f"{base}.gguf", self.folder / f"{base}-{seed}.gguf", seed)
            self.create(f"{base}-{seed}", f"FROM {base}\nADAPTER {path}\n")
        return [base, f"{base}-1", f"{base}-2"]

    def expect_alone_and_together(self, base, names, ask):
        """Expects that ask(name, i) gives each model the same answer alone and in parallel, but every model another one."""
        before = set(self.server.runners())
        alone = {(name, i): ask(name, i) for name in names for i in range(4)}
        for i in range(4):
            self.assertEqual(len({json.dumps(alone[name, i]) for name in names}), len(names), base)
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            for key, answer in [(key, pool.submit(ask, *key)) for key in list(alone) * 3]:
                self.assertEqual(answer.result(), alone[key], key)
        self.assertLessEqual(len(set(self.server.runners()) - before), 1, "the models share a runner")

    def test_vectors_of_several_adapters_share_a_runner(self):
        for base in ("encoder", "vectors"):
            def embed(name, i):
                texts = ["7 8 9 " * (1 + 7 * i), "5 5 5"]
                return self.server.json("POST", "/api/embed", {"model": name, "input": texts, "keep_alive": -1})["embeddings"]
            self.expect_alone_and_together(base, self.create_kinds(base), embed)

    def test_text_model_makes_vectors_with_adapters(self):
        def embed(name, i):
            return self.server.json("POST", "/api/embed", {"model": name, "input": "3 4 5 " * (1 + i), "keep_alive": -1})["embeddings"]
        self.expect_alone_and_together("base", ["base", "with1", "both"], embed)

    def test_scores_of_several_adapters_share_a_runner(self):
        def rank(name, i):
            body = {"model": name, "query": "7 8 " * (1 + i), "texts": ["1 2 3", "9 9 9 9"], "raw_scores": True}
            return self.server.json("POST", "/rerank", body)
        self.expect_alone_and_together("ranker", self.create_kinds("ranker"), rank)

    def test_commands_accept_adapter_files(self):
        adapter = f"{self.folder}/1.gguf"
        def logits(*more):
            done = self.billow("logits", "--model", str(self.base), "--tokens", "1,5,9", "--json", *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        plain = logits()
        self.assertNotEqual(plain, logits("--adapter", adapter))
        self.assertEqual(logits("--adapter", f"{self.folder}/half.gguf"), logits("--adapter", adapter + ":0.5"))
        self.assertEqual(plain, logits("--adapter", adapter + ":0"))
        wrong = self.billow("logits", "--model", str(self.base), "--tokens", "1", "--adapter", adapter + ":x")
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("FILE:SCALE", wrong.stderr)


if __name__ == "__main__":
    run_cases(rest)
