"""Tests that MiniLM's vectors equal a plain float32 forward pass of its weights, alone and in a batch.

embedding_test.py --billow PROGRAM [unittest arguments]; exits with 77 if the model is missing.
"""

import argparse
import base64
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its threads would spin while others work

import numpy
from bert_reference import BertReference
from run_cases import run_cases
from server import MODELS, WEIGHTS, Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--texts", type=int, default=200, help="number of texts that are compared with the reference")
options, rest = parser.parse_known_args()

MINILM = MODELS / "all-minilm-l6-v2"
MIN_COSINE = {"f32": 0.9999, "f16": 0.9999, "q8_0": 0.999}
WORDS = ("the river carries boats towards an old harbour where merchants trade silk pepper and glass while children watch "
         "from windows above narrow streets of stone and every evening lamps are lit along the water before music begins "
         "photosynthesis turns light into sugar 1984 42 3.14 e-mail U.S. don't").split()
OTHERS = ("Übergrößenträger äßen Öl", "naïve café façade Ångström", "東京は日本の首都です", "人工知能改变世界", "Привет, мир",
          "مرحبا بالعالم", "שלום עולם", "🙂🙃 emoji 👩‍👩‍👧‍👦", "ﬁne ligatures ½ ™", "tab\tnew\nline\r\n", "", "   ", "a", "!?", "x" * 90)


def texts(n, seed):
    """Returns texts of all kinds: words of several scripts, empty texts, and some that fill the model's 512 tokens."""
    chance = random.Random(seed)
    out = list(OTHERS)
    while len(out) < n:
        n_words = chance.choice((1, 3, 8, 20, 60, 150)) if chance.random() < 0.98 else 600
        out.append(" ".join(chance.choice(WORDS) for _ in range(n_words)) + chance.choice(("", ".", " " + chance.choice(OTHERS))))
    chance.shuffle(out)
    return out


class Embedding(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(cls.folder.name, program=str(pathlib.Path(options.billow).resolve()))
        cls.addClassCleanup(cls.server.process.kill)
        for kind in MIN_COSINE:
            done = subprocess.run([cls.server.program, "create", kind, "-q", kind], cwd=MINILM, env=cls.server.environment,
                                  capture_output=True, check=False)
            assert done.returncode == 0, done.stderr.decode()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.log.read_text()
        cls.folder.cleanup()

    def embed(self, model, inputs, **fields):
        return numpy.array(self.server.json("POST", "/api/embed", {"model": model, "input": inputs, **fields})["embeddings"])

    def refused(self, path, body):
        status, _, text = self.server.request("POST", path, body)
        return status, json.loads(text)["error"]

    def test_EQ_6_vectors_equal_a_float32_reference(self):
        asked = texts(options.texts, 2)
        reference = BertReference(MINILM)
        ids = [self.server.json("POST", "/tokenize", {"model": "f32", "content": text, "add_special": True})["tokens"][:511] for text in asked]
        ids = [text if len(text) < 511 else text + [102] for text in ids]
        self.assertGreater(sum(len(text) == 512 for text in ids), 3)
        expected = numpy.array([reference.vector(text) for text in ids])
        for model, min_cosine in MIN_COSINE.items():
            vectors = self.embed(model, asked)
            cosines = (vectors * expected).sum(1) / numpy.linalg.norm(vectors, axis=1)
            worst = int(cosines.argmin())
            print(f"{model}: min cosine {cosines[worst]:.6f} ({len(ids[worst])} tokens), mean {cosines.mean():.6f}", flush=True)
            self.assertGreater(cosines[worst], min_cosine, asked[worst][:60])

    def test_bench_measures_the_engine(self):
        model = self.server.blob("q8_0")

        def bench(*arguments):
            return subprocess.run([self.server.program, "bench", "--model", model, *arguments], env=self.server.environment, capture_output=True,
                                  text=True, check=False)

        out = json.loads(bench("-p", "42", "-t", "2", "-r", "1", "--json").stdout)
        self.assertEqual((out["architecture"], out["n_texts"], out["n_tokens"], out["threads"]), ("bert", 48, 42, 2))
        self.assertGreater(out["texts"]["tokens_per_second"], 0)
        output = bench("-p", "16", "--parallel", "3", "-r", "1").stdout
        self.assertRegex(output, r"3 texts of 16 tokens a pass +[0-9.]+ tokens/s")
        for arguments, names in ((("-p", "513"), ("512", "513")), (("-p", "0"), ("--prompt-tokens",))):
            refused = bench(*arguments)
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            for name in names:
                self.assertIn(name, refused.stderr)

    def test_EQ_1_EQ_2_vector_does_not_depend_on_other_inputs(self):
        asked = texts(100, 3)
        for model in MIN_COSINE:
            packed = self.embed(model, asked)
            alone = numpy.array([self.embed(model, [text])[0] for text in asked])
            self.assertLessEqual(numpy.abs(packed - alone).max(), 1e-6)
            order = list(range(len(asked)))
            for seed in range(3):
                random.Random(seed).shuffle(order)
                shuffled = self.embed(model, [asked[i] for i in order])
                self.assertLessEqual(numpy.abs(shuffled - packed[order]).max(), 1e-6)

    def test_SV_2_SV_3_long_inputs_are_truncated_or_refused_without_effect_on_others(self):
        long = "word " * 100000
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            refused = [pool.submit(self.refused, "/api/embed", {"model": "f16", "input": ["a", long], "truncate": False}) for _ in range(2)]
            served = [pool.submit(self.embed, "f16", ["a text", "another"]) for _ in range(20)]
            for answer in refused:
                status, error = answer.result()
                self.assertEqual(status, 400)
                self.assertIn("100002", error)
                self.assertIn("512", error)
            self.assertEqual({answer.result().tobytes() for answer in served}, {self.embed("f16", ["a text", "another"]).tobytes()})
        status, headers, text = self.server.request("POST", "/api/embed", {"model": "f16", "input": [long, "a"]})
        self.assertEqual((status, headers["X-Billow-Truncated"], json.loads(text)["prompt_eval_count"]), (200, "1", 515))
        self.assertEqual(headers["X-Billow-Context"], "512", "the model's max context is smaller than 1024")
        self.assertIn(512, [model["context_length"] for model in self.server.json("GET", "/api/ps")["models"]])
        counted = " ".join(str(i) for i in range(1000))
        right, left = (self.embed("f16", counted, truncation_direction=side) for side in ("right", "left"))
        self.assertGreater(numpy.abs(right - left).max(), 1e-3)

    def test_PK_13_ten_thousand_inputs_in_one_request(self):
        asked = [f"number {i}" for i in range(10000)]
        vectors = self.embed("f16", asked)
        self.assertEqual(vectors.shape, (10000, 384))
        self.assertLessEqual(numpy.abs(vectors[[0, 5000, 9999]] - self.embed("f16", [asked[0], asked[5000], asked[9999]])).max(), 1e-6)

    def test_FI_13_PK_12_invalid_inputs_have_the_specified_answers(self):
        self.assertEqual(self.server.json("POST", "/api/embed", {"model": "f16", "input": []})["embeddings"], [])
        self.assertEqual(self.server.json("POST", "/api/embed", {"model": "f16", "input": None})["embeddings"], [])
        for path in ("/api/embed", "/v1/embeddings"):
            for wrong in (7, {"a": 1}, [True]):
                self.assertEqual(self.refused(path, {"model": "f16", "input": wrong})[0], 400, (path, wrong))
        self.assertEqual(self.refused("/v1/embeddings", {"model": "f16", "input": []})[0], 400)
        self.assertEqual(self.refused("/api/generate", {"model": "f16", "prompt": "a"}), (400, '"f16" does not support generate'))

    def test_SV_6_SV_7_SV_10_counts_lengths_and_ids(self):
        answer = self.server.json("POST", "/v1/embeddings", {"model": "f32", "input": ["I believe the meaning of life is"] * 2})
        self.assertEqual(answer["usage"], {"prompt_tokens": 18, "total_tokens": 18})
        text = self.embed("f32", "This is a test")
        ids = self.server.json("POST", "/tokenize", {"model": "f32", "content": "This is a test", "add_special": True})["tokens"]
        self.assertEqual(len(ids), 6)
        by_ids = self.server.json("POST", "/v1/embeddings", {"model": "f32", "input": ids})["data"][0]["embedding"]
        self.assertEqual(text[0].tolist(), by_ids)
        self.assertAlmostEqual(float((text * text).sum()), 1.0, places=5)
        usage = self.server.json("POST", "/v1/embeddings", {"model": "f32", "input": ["This is a test"] * 7})["usage"]
        self.assertEqual(usage["prompt_tokens"], 6 * 7)
        self.assertEqual(self.embed("f32", "hello hello hello", pooling="none").shape, (1, 5, 384))
        for body in ({"input": "This is a test"}, {"input": ["This is a test", "and others"], "dimensions": 100}):
            floats, encoded = (self.server.json("POST", "/v1/embeddings", {"model": "f32", "encoding_format": form, **body})["data"]
                               for form in ("float", "base64"))
            self.assertEqual([numpy.array(entry["embedding"], "<f4").tobytes() for entry in floats],
                             [base64.b64decode(entry["embedding"]) for entry in encoded])
        self.assertEqual(self.refused("/v1/embeddings", {"model": "f32", "input": "a", "dimensions": 385})[0], 400)
        cut = self.embed("f32", "This is a test", dimensions=64)[0]
        self.assertLess(numpy.abs(cut - text[0][:64] / numpy.linalg.norm(text[0][:64])).max(), 1e-6)


@unittest.skipUnless(WEIGHTS.exists(), f"no model at {WEIGHTS}; tools/setup models fetches it")
class Contexts(unittest.TestCase):
    """Contexts of inputs, with a model whose max context is larger than the smallest context."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.server = Server(folder.name, ["--max-context-size", "1536"], program=str(pathlib.Path(options.billow).resolve()))
        self.addCleanup(self.server.stop)
        self.server.add_model("m")

    def loaded_context(self):
        [model] = self.server.json("GET", "/api/ps")["models"]
        return model["context_length"]

    def embed(self, path, inputs):
        """Returns the headers and the trace's `sized` of a request."""
        status, headers, text = self.server.request("POST", path, {"model": "m", "input": inputs})
        self.assertEqual(status, 200, text)
        spans = self.server.json("GET", "/api/trace/" + headers["X-Request-Id"])["spans"]
        return headers, next(span["attributes"] for span in spans if span["name"] == "sized")

    def test_each_input_has_its_own_context_and_the_request_reports_the_largest(self):
        self.server.json("POST", "/api/embed", {"model": "m", "input": []})
        self.assertEqual(self.loaded_context(), 0, "a load has no context")
        inputs = ["word " * 3, "word " * 1100, "a", "b"]
        n_longest = len(self.server.json("POST", "/tokenize", {"model": "m", "content": inputs[1], "add_special": True})["tokens"])
        self.assertLess(1024, n_longest)
        for path in ("/api/embed", "/v1/embeddings"):
            headers, sized = self.embed(path, inputs)
            self.assertEqual(headers["X-Billow-Context"], "1536", path)
            self.assertEqual(headers["X-Billow-Context-Reason"], f"{n_longest} tokens of the longest of 4 inputs, of 1536")
            self.assertEqual((sized["context"], sized["contexts"]), (1536, "1024, 1536, 1024 x 2"))
            self.assertEqual(self.loaded_context(), 1536)
            headers, sized = self.embed(path, "a")
            self.assertEqual((headers["X-Billow-Context"], sized["contexts"]), ("1024", "1024"))
            self.assertRegex(headers["X-Billow-Context-Reason"], "^[0-9]+ tokens of the input, of 1536$")
            self.assertEqual(self.loaded_context(), 1024, "the context of the latest request")

    def test_a_refused_input_changes_no_context(self):
        self.embed("/api/embed", "a")
        too_long = {"model": "m", "input": ["a", "word " * 2000], "truncate": False}
        status, headers, text = self.server.request("POST", "/api/embed", too_long)
        self.assertEqual((status, headers["X-Billow-Context"]), (400, None), text)
        self.assertEqual(self.loaded_context(), 1024)
        headers, sized = self.embed("/api/embed", too_long["input"])
        self.assertEqual((headers["X-Billow-Truncated"], headers["X-Billow-Context"], sized["contexts"]), ("1", "1536", "1024, 1536"))


if __name__ == "__main__":
    if not MINILM.exists():
        print(f"skipped: no model at {MINILM}; tools/setup models fetches it")
        sys.exit(77)
    run_cases(rest)
