"""Tests that a reranker's scores and order equal those of a plain float32 forward pass of its weights.

rerank_test.py --billow PROGRAM [unittest arguments]; exits with 77 if MiniLM, its base, is missing. The reranker's head
is random, so the test compares computations, not rankings. --clients, --rounds and --kills make the load longer.
"""

import argparse
import collections
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its threads would spin while others work

import numpy
import prometheus_text
from bert_reference import BertReference
from prometheus_text import total
from reranker_model import MINILM, write_reranker
from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--clients", type=int, default=8)
parser.add_argument("--rounds", type=int, default=12, help="requests of each client")
parser.add_argument("--kills", type=int, default=1, help="kills of the runner; the third within a minute fails the model")
options, rest = parser.parse_known_args()

MAX_TOKENS = 512
UNTIL_SECONDS = 60
GAUGES = ("billow_requests_waiting", "billow_requests_running", "billow_embed_queue_pending_tokens", "billow_embed_batches_active")
TOLERANCE = 1e-4  # for F32 weights
QUERIES = ("which river carries boats to the harbour", "how is light turned into sugar", "東京 1984")
WORDS = ("the river carries boats towards an old harbour where merchants trade silk pepper and glass while children watch "
         "from windows above narrow streets photosynthesis turns light into sugar 1984 42 東京 naïve café don't").split()


def documents(seed):
    """Returns 50 documents of one word to hundreds. The last but one fills the context with any query, the last one is empty."""
    chance = random.Random(seed)
    return [" ".join(chance.choice(WORDS) for _ in range(chance.choice((1, 3, 8, 20, 60)))) for _ in range(48)] + ["harbour lamps " * 300, ""]


class Rerank(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        model = pathlib.Path(cls.folder.name) / "reranker"
        model.mkdir()
        write_reranker(model)
        cls.reference = BertReference(model)
        cls.server = Server(cls.folder.name, program=str(pathlib.Path(options.billow).resolve()))
        cls.addClassCleanup(cls.server.process.wait)
        cls.addClassCleanup(cls.server.process.kill)
        done = subprocess.run([cls.server.program, "create", "r", "-q", "f32"], cwd=model, env=cls.server.environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()

    def tokens(self, text):
        return self.server.json("POST", "/tokenize", {"model": "r", "content": text, "add_special": True})["tokens"]

    def pair(self, query, document):
        """Returns the token ids of both and the length of the first segment. Truncates a long document to the model's limit."""
        first, second = self.tokens(query), self.tokens(document)[1:]
        if len(first) + len(second) > MAX_TOKENS:
            second = [*second[: MAX_TOKENS - len(first) - 1], second[-1]]
        return first + second, len(first)

    def expect_order(self, results, expected, what):
        """Expects descending scores. Scores within the tolerance may be in any order."""
        lowest = float("inf")
        for place in results:
            self.assertLessEqual(expected[place], lowest + TOLERANCE, what)
            lowest = min(lowest, expected[place])

    def test_SV_11_EQ_6_scores_and_order_equal_a_float32_reference(self):
        worst = 0
        for number, query in enumerate(QUERIES):
            texts = documents(number)
            pairs = [self.pair(query, text) for text in texts]
            self.assertEqual(max(len(ids) for ids, _ in pairs), MAX_TOKENS)
            expected = [float(self.reference.scores(*pair)[0]) for pair in pairs]
            # The reference must distinguish documents and segments. Otherwise the comparison would be meaningless.
            self.assertGreater(numpy.std(expected), 100 * TOLERANCE)
            one_segment = [float(self.reference.scores(ids, None)[0]) for ids, _ in pairs[:5]]
            self.assertGreater(numpy.abs(numpy.array(one_segment) - expected[:5]).max(), 100 * TOLERANCE)

            ranked = self.server.json("POST", "/rerank", {"model": "r", "query": query, "texts": texts, "raw_scores": True})
            places = [entry["index"] for entry in ranked]
            self.assertEqual(sorted(places), list(range(len(texts))))
            errors = [abs(entry["score"] - expected[entry["index"]]) for entry in ranked]
            worst = max(worst, *errors)
            self.assertLess(max(errors), TOLERANCE, texts[places[int(numpy.argmax(errors))]][:60])
            self.expect_order(places, expected, query)

            best = self.server.json("POST", "/v1/rerank", {"model": "r", "query": query, "documents": texts, "top_n": 10})
            self.assertEqual([entry["index"] for entry in best["results"]], places[:10])
            self.assertEqual(best["usage"]["prompt_tokens"], sum(len(ids) for ids, _ in pairs))
            for entry in best["results"]:
                self.assertAlmostEqual(entry["relevance_score"], 1 / (1 + numpy.exp(-expected[entry["index"]])), delta=TOLERANCE)
        print(f"max difference of a score: {worst:.2e}", flush=True)

    def scores(self, query, texts):
        """Returns the scores in the order of the texts, as written in the answer."""
        status, _, text = self.server.request("POST", "/rerank", {"model": "r", "query": query, "texts": texts, "raw_scores": True})
        if status != 200:
            return status
        return [entry["score"] for entry in sorted(json.loads(text), key=lambda entry: entry["index"])]

    def leave(self, query, texts):
        """Sends a request, and disconnects before the answer comes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        connection.request("POST", "/rerank", json.dumps({"model": "r", "query": query, "texts": texts}))
        connection.close()

    def idle_metrics(self):
        """Returns the metrics once no request is queued or running, so requests of disconnected clients are gone."""
        deadline = time.monotonic() + UNTIL_SECONDS
        while True:
            samples, _ = prometheus_text.parse(self.server.request("GET", "/metrics")[2].decode())
            if not any(total(samples, name) for name in GAUGES):
                return samples
            self.assertLess(time.monotonic(), deadline, "the gauges do not return to 0")
            time.sleep(0.02)

    def test_SV_11_FI_5_FI_23_scores_under_load_equal_single_scores(self):
        """Runs many clients with short and long documents. Some disconnect, and the runner is killed midway."""
        alone = {query: dict(zip(texts, self.scores(query, texts), strict=True))
                 for number, query in enumerate(QUERIES) for texts in [documents(number)]}
        n_done = collections.Counter()

        def work(seed):
            chance = random.Random(seed)
            for _ in range(options.rounds):
                query = chance.choice(QUERIES)
                texts = chance.sample(list(alone[query]), chance.choice((1, 2, 10, 40)))
                if chance.random() < 0.2:
                    self.leave(query, texts)
                    continue
                got = self.scores(query, texts)
                self.assertEqual(got, [alone[query][text] for text in texts])
                n_done[query] += 1

        n_kills = 0
        with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
            clients = [pool.submit(work, seed) for seed in range(options.clients)]
            while n_kills < options.kills:
                enough = sum(n_done.values()) > (n_kills + 1) * options.clients * options.rounds // (2 * options.kills + 2)
                if enough and self.server.runners():
                    os.kill(self.server.runners()[0], signal.SIGKILL)
                    n_kills += 1
                elif all(client.done() for client in clients):
                    break
                time.sleep(0.005)
            for client in clients:
                client.result()
        self.assertEqual(n_kills, options.kills)
        self.assertEqual(total(self.idle_metrics(), "billow_embed_failures_total"), 0)
        self.assertEqual(len(self.server.runners()), 1)

    def test_EQ_1_EQ_2_score_does_not_depend_on_other_documents(self):
        texts = documents(9)

        together = self.scores(QUERIES[0], texts)
        self.assertEqual(self.scores(QUERIES[0], texts[::-1])[::-1], together)
        self.assertEqual([self.scores(QUERIES[0], [text])[0] for text in texts], together)


if __name__ == "__main__":
    if not MINILM.exists():
        print(f"skipped: no model at {MINILM}; tools/setup models fetches it")
        sys.exit(77)
    run_cases(rest)
