"""Tests the tiny embedding models and rerankers of tests/families/embedding through the server.

embedding_families_test.py --billow PROGRAM [unittest arguments]
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its threads would spin while others work

import numpy
from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
options, rest = parser.parse_known_args()

MODELS = pathlib.Path(__file__).parents[1] / "families/embedding"
EMBEDDERS = ("eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "llama-bidirectional", "modern-bert", "neo-bert", "nomic-bert-moe", "qwen3-embedding")
RERANKERS = ("modern-bert-reranker", "qwen3-reranker")
MIN_COSINE = 0.9999
WORDS = "the river carries boats to an old harbour where lamps are lit naïve 東京 1984 don't".split()


def texts(n, seed):
    """Returns texts of 0 to about twenty words. All fit into the models' 128 tokens."""
    chance = random.Random(seed)
    return [" ".join(chance.choice(WORDS) for _ in range(chance.choice((0, 1, 2, 5, 12)))) for _ in range(n)]


def recorded(name):
    return json.loads((MODELS / f"{name}.json").read_text())["texts"]


class EmbeddingFamilies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.server = Server(cls.folder.name, program=str(pathlib.Path(options.billow).resolve()))
        cls.addClassCleanup(cls.server.process.wait)
        cls.addClassCleanup(cls.server.process.kill)
        for name in EMBEDDERS + RERANKERS:
            cls.server.add_model(name, MODELS / f"{name}.gguf")

    def embed(self, model, inputs, **fields):
        return numpy.array(self.server.json("POST", "/api/embed", {"model": model, "input": inputs, **fields})["embeddings"])

    def refused(self, path, body):
        status, _, text = self.server.request("POST", path, body)
        error = json.loads(text)["error"]
        return status, error["message"] if isinstance(error, dict) else error

    def ranked(self, model, query, documents, **fields):
        """Returns the score of each document, in the order of the documents."""
        body = {"model": model, "query": query, "texts": documents, **fields}
        return [entry["score"] for entry in sorted(self.server.json("POST", "/rerank", body), key=lambda entry: entry["index"])]

    def test_vectors_equal_the_models_own_library(self):
        for name in EMBEDDERS:
            expected = numpy.array([text["vector"] for text in recorded(name)])
            expected /= numpy.linalg.norm(expected, axis=1, keepdims=True)
            ids = [text["tokens"] for text in recorded(name)]
            answer = self.server.json("POST", "/v1/embeddings", {"model": name, "input": ids})
            vectors = numpy.array([entry["embedding"] for entry in answer["data"]])
            self.assertEqual(answer["usage"]["prompt_tokens"], sum(map(len, ids)))
            self.assertGreater((vectors * expected).sum(1).min(), MIN_COSINE, name)
            numpy.testing.assert_allclose(numpy.linalg.norm(vectors, axis=1), 1, atol=1e-6)

    def test_EQ_1_EQ_2_vector_does_not_depend_on_other_inputs(self):
        asked = texts(12, 1)
        for name in EMBEDDERS:
            packed = self.embed(name, asked)
            alone = numpy.array([self.embed(name, [text])[0] for text in asked])
            self.assertEqual(numpy.abs(packed - alone).max(), 0, name)

    def test_each_family_has_its_special_tokens(self):
        """Qwen 3 ends a text with EOS and pools this token. Encoders put one token before a text and one after it."""
        for name, n_special in (("qwen3-embedding", 1), ("gemma-embedding", 2), ("modern-bert", 2)):
            answer = self.server.json("POST", "/api/embed", {"model": name, "input": "abc"})
            self.assertEqual(answer["prompt_eval_count"], 3 + n_special, name)
        tokens = self.server.json("POST", "/tokenize", {"model": "qwen3-embedding", "content": "a", "add_special": True})["tokens"]
        self.assertEqual((len(tokens), tokens[-1]), (2, 2))
        by_text, by_tokens = (self.server.json("POST", "/v1/embeddings", {"model": "qwen3-embedding", "input": asked})["data"][0]["embedding"]
                              for asked in ("a", [tokens]))
        self.assertEqual(by_text, by_tokens)

    def test_long_inputs_are_truncated_or_refused(self):
        for name in EMBEDDERS:
            status, headers, text = self.server.request("POST", "/api/embed", {"model": name, "input": "x" * 1000})
            self.assertEqual((status, headers["X-Billow-Truncated"], json.loads(text)["prompt_eval_count"]), (200, "1", 128), name)
            status, error = self.refused("/api/embed", {"model": name, "input": "x" * 1000, "truncate": False})
            self.assertEqual(status, 400)
            self.assertIn("of 128 tokens", error)

    def test_qwen3_reranker_scores_rendered_template(self):
        documents = [text or "none" for text in texts(10, 2)]
        scores = self.ranked("qwen3-reranker", "lamps", documents)
        self.assertGreater(numpy.std(scores), 1e-3)
        self.assertTrue(all(0 <= score <= 1 for score in scores))
        self.assertEqual([self.ranked("qwen3-reranker", "lamps", [document])[0] for document in documents], scores)
        raw = numpy.array(self.ranked("qwen3-reranker", "lamps", documents, raw_scores=True))
        numpy.testing.assert_allclose(1 / (1 + numpy.exp(-raw)), scores, rtol=1e-5)
        best = self.server.json("POST", "/v1/rerank", {"model": "qwen3-reranker", "query": "lamps", "documents": documents, "top_n": 3})
        self.assertEqual([entry["index"] for entry in best["results"]], sorted(range(10), key=lambda i: -scores[i])[:3])

    def test_rerankers_refuse_vectors_and_text(self):
        for name in RERANKERS:
            for path in ("/api/embed", "/v1/embeddings"):
                self.assertEqual(self.refused(path, {"model": name, "input": "a"}),
                                 (400, f"model '{name}:latest' is a reranker: it scores pairs of texts (/rerank)"))
            self.assertEqual(self.refused("/api/generate", {"model": name, "prompt": "a"}), (400, f'"{name}" does not support generate'))
            self.assertEqual(self.server.json("POST", "/api/show", {"model": name})["capabilities"], ["embedding"])
        for name in EMBEDDERS:
            self.assertEqual(self.refused("/rerank", {"model": name, "query": "q", "texts": ["a"]}),
                             (400, f"model '{name}:latest' is not a reranker: its file has no pooling of type rank"))
            self.assertEqual(self.server.json("POST", "/api/show", {"model": name})["capabilities"], ["embedding"])

    def test_inspect_reports_families_as_supported(self):
        for name in EMBEDDERS + RERANKERS:
            done = subprocess.run([self.server.program, "inspect", MODELS / f"{name}.gguf"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("does not run", done.stdout, name)

    def test_embed_command(self):
        done = subprocess.run([self.server.program, "embed", "--model", "gemma-embedding", "a text", "another"], env=self.server.environment,
                              capture_output=True, text=True, check=True)
        vectors = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(vectors), 2, done.stdout)


if __name__ == "__main__":
    run_cases(rest)
