"""Tests embedding with many and with hostile clients: other routes still answer, gauges return to 0, memory is bounded.

embedding_load_test.py --billow PROGRAM [unittest arguments]; exits with 77 if the model is missing. Prints times; only a hang fails a test.
"""

import argparse
import concurrent.futures
import http.client
import json
import math
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import prometheus_text
from prometheus_text import total
from run_cases import run_cases
from server import MODELS, Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
options, rest = parser.parse_known_args()

MINILM = MODELS / "all-minilm-l6-v2"
ROUTES = {"/v1/embeddings": "input", "/api/embed": "input", "/embed": "inputs"}
ALLOWANCE = 64 << 20  # growth of the server in addition to twice the body: heaps of threads, and a text's tokens
HANG_SECONDS = 60
UNTIL_SECONDS = 60


class EmbeddingCase(unittest.TestCase):
    """A test case with its own server, which has MiniLM as `m`."""

    arguments = ()
    variables = {}

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(cls.folder.name, cls.arguments, program=str(pathlib.Path(options.billow).resolve()), variables=cls.variables)
        cls.addClassCleanup(cls.folder.cleanup)
        cls.addClassCleanup(cls.server.process.wait)
        cls.addClassCleanup(cls.server.process.kill)
        done = subprocess.run([cls.server.program, "create", "m"], cwd=MINILM, env=cls.server.environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        cls.n_sent = 0
        cls.embed(["warm"])

    @classmethod
    def embed(cls, texts, **fields):
        answer = cls.server.json("POST", "/v1/embeddings", {"model": "m", "input": texts, **fields})
        cls.n_sent += len(texts)
        return answer

    def metrics(self):
        status, headers, text = self.server.request("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers["Content-Type"])
        return prometheus_text.parse(text.decode())

    def wait_for(self, is_so, what):
        """Returns the first metrics that meet the condition. The server polls its runners."""
        deadline = time.monotonic() + UNTIL_SECONDS
        while True:
            samples, _ = self.metrics()
            if is_so(samples):
                return samples
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def wait_for_log(self, line):
        """Waits until a line of the log matches. The server forwards its runners' lines from time to time."""
        deadline = time.monotonic() + UNTIL_SECONDS
        while not re.search(line, self.server.log.read_text()):
            self.assertLess(time.monotonic(), deadline, f"the log has no {line}")
            time.sleep(0.02)

    def wait_until_idle(self):
        """Waits until all sent texts are counted and no text is queued or active. Returns the metrics."""
        gauges = ("billow_embed_queue_pending_tokens", "billow_embed_batches_active", "billow_embed_context_utilization_percent")
        return self.wait_for(lambda samples: total(samples, "billow_embed_inputs_total") == self.n_sent and
                             not any(total(samples, name) for name in gauges), "the counts of texts are wrong")

    def wait_for_inputs(self, n):
        self.wait_for(lambda samples: total(samples, "billow_embed_inputs_total") >= n, "inputs are missing from the counts")


class TextFormat(unittest.TestCase):
    GOOD = ('# HELP a_total what\n# TYPE a_total counter\na_total{m="x\\"y",n="2"} 3\na_total 4\n# TYPE h histogram\n'
            'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 2\nh_sum 3\nh_count 2\n')
    FAULTS = (("h_count 2\n", "h_count 2"), ('"2"', "2"), ("h_count 2", "h_count 3"), ('le="1"} 1', 'le="1"} 7'), ("} 3", "} x"),
              ("h_count 2\n", "h_count 2\nb 1\n"), ("h_count 2\n", "h_count 2\na_total{z=\"1\"} 5\n"), ("a_total 4", 'a_total{m="x\\"y",n="2"} 4'),
              ("h_sum 3\n", ""), ("# TYPE h histogram\n", "# TYPE h histogram\n# TYPE h gauge\n"), ("counter", "number"))

    def test_MT_7_parser_finds_broken_rules(self):
        self.assertEqual(total(prometheus_text.parse(self.GOOD)[0], "a_total"), 7)
        for right, wrong in self.FAULTS:
            with self.assertRaises(ValueError, msg=wrong):
                prometheus_text.parse(self.GOOD.replace(right, wrong, 1))


class Load(EmbeddingCase):
    def clients(self, over, n):
    
        texts = [f"text {i} " * (1 + i * i % 40) for i in range(32)]

        def work():
            n_requests = 0
            while not over.is_set():
                status, _, text = self.server.request("POST", "/v1/embeddings", {"model": "m", "input": texts})
                self.assertEqual(status, 200, text)
                n_requests += 1
            return n_requests

        pool = concurrent.futures.ThreadPoolExecutor(n)
        self.addCleanup(pool.shutdown)
        self.addCleanup(over.set)
        return [pool.submit(work) for _ in range(n)]

    def end(self, over, clients):
        over.set()
        for client in clients:
            type(self).n_sent += 32 * client.result()
        return self.wait_until_idle()

    def test_MT_7_FI_22_other_routes_answer_under_load(self):
        over = threading.Event()
        before = total(self.wait_until_idle(), "billow_embed_batches_created_total", model="m:latest")
        clients = self.clients(over, 6)
        self.wait_for(lambda samples: total(samples, "billow_embed_batches_created_total") > before + 2, "no load")
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        worst, last, n_scrapes = {}, {}, 0
        due = time.perf_counter()
        for number in range(300):  # 100 a second
            path = ("/metrics", "/api/tags", "/healthz")[number % 3]
            began = time.perf_counter()
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read().decode()
            seconds = time.perf_counter() - began
            worst[path] = max(worst.get(path, 0), seconds)
            self.assertEqual(answer.status, 200, path)
            if path == "/metrics":
                n_scrapes += 1
                samples, kinds = prometheus_text.parse(text)
                for at, value in prometheus_text.cumulative(samples, kinds).items():
                    self.assertGreaterEqual(value, last.get(at, 0), at)
                    self.assertTrue(math.isfinite(value), at)
                    last[at] = value
            due += 0.01
            time.sleep(max(0, due - time.perf_counter()))
        connection.close()
        self.end(over, clients)
        print("worst under load: " + ", ".join(f"{path} {1000 * seconds:.1f} ms" for path, seconds in worst.items()), flush=True)
        self.assertLess(max(worst.values()), HANG_SECONDS)
        self.assertEqual(n_scrapes, 100)
        self.assertGreater(total(last, "billow_embed_batches_created_total"), before + 2)

    def test_CC_13_one_pass_runs_at_a_time_and_metrics_show_it(self):
        over = threading.Event()
        clients = self.clients(over, 4)
        max_active = 0
        for _ in range(50):
            samples = self.metrics()[0]
            max_active = max(max_active, total(samples, "billow_embed_batches_active"))
            self.assertEqual(total(samples, "billow_embed_batches_max", model="m:latest"), 1)
        self.end(over, clients)
        self.assertLessEqual(max_active, 1)

    def test_MT_1_P_2_P_6_passes_count_exactly_the_tokens_of_their_texts(self):
        def sums(samples):
            return {name: total(samples, "billow_embed_" + name) for name in
                    ("batch_tokens_sum", "input_tokens_sum", "inputs_total", "vectors_total", "batches_created_total", "queue_wait_seconds_count")}

        before = sums(self.wait_until_idle())
        asked = [f"number {i} of some" for i in range(900)]
        usage = self.embed(asked)["usage"]["prompt_tokens"]
        after = sums(self.wait_until_idle())
        grown = {name: after[name] - before[name] for name in after}
        self.assertEqual(grown["batch_tokens_sum"], usage)
        self.assertEqual(grown["input_tokens_sum"], usage)
        self.assertEqual((grown["inputs_total"], grown["vectors_total"]), (900, 900))
        self.assertEqual(grown["batches_created_total"], grown["queue_wait_seconds_count"])
        self.assertGreaterEqual(grown["batches_created_total"], usage / 2048)
        self.assertLessEqual(grown["batches_created_total"], 2 * math.ceil(usage / 2048))

    def test_MT_6_each_embedding_request_measures_tokenization(self):
        name = "billow_tokenize_seconds"
        before, _ = self.metrics()
        self.embed(["a text of some words"] * 3)
        after, kinds = self.metrics()
        self.assertEqual(kinds[name], "histogram")
        self.assertEqual(total(after, name + "_count", model="m:latest") - total(before, name + "_count", model="m:latest"), 1)
        self.assertGreater(total(after, name + "_sum", model="m:latest"), total(before, name + "_sum", model="m:latest"))

    def drops_queued_texts(self, n):
        """Returns whether 64 texts of a disconnected client were dropped while n longer texts were before them."""
        dropped = total(self.wait_until_idle(), "billow_embed_dropped_total")
        n_before = self.n_sent
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            first = pool.submit(self.embed, ["word " * 400] * n)
            self.wait_for_inputs(n_before + n)
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            connection.request("POST", "/v1/embeddings", json.dumps({"model": "m", "input": ["b " * 100] * 64}), {"X-Billow-Priority": "bulk"})
            self.wait_for_inputs(n_before + n + 64)
            connection.close()
            first.result()
        type(self).n_sent += 64
        return total(self.wait_until_idle(), "billow_embed_dropped_total") == dropped + 64

    def test_SV_5_FI_5_MT_4_queued_texts_are_dropped_after_disconnect(self):
        # The client must disconnect while texts are before its own. How many that takes depends on the machine's speed.
        self.assertTrue(any(self.drops_queued_texts(n) for n in (100, 400, 1600, 6400)))


class Hostile(EmbeddingCase):
    def memory(self, what):
        lines = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(what + ":"))

    def post(self, path, text, model="m"):
        """Returns the answer to an input in JSON. Checks that the server's memory grows at most by the allowance."""
        body = b'{"model":"%s","%s":%s}' % (model.encode(), ROUTES[path].encode(), text)
        pathlib.Path(f"/proc/{self.server.process.pid}/clear_refs").write_text("5")  # resets VmHWM
        before = self.memory("VmRSS")
        status, _, answer = self.server.request("POST", path, body)
        growth = self.memory("VmHWM") - before
        self.assertLess(growth, 2 * len(body) + ALLOWANCE, (path, body[:60]))
        return status, answer

    def tearDown(self):
        self.assertEqual(self.server.request("POST", "/api/embed", {"model": "m", "input": "still here"})[0], 200)

    def test_FI_13_million_inputs(self):
        for element in (b'"a"', b'""', b"[1]", b"null", b"{}"):
            text = b"[" + b",".join([element] * 1_000_000) + b"]"
            for path in ROUTES:
                status, answer = self.post(path, text)
                self.assertEqual(status, 413, (path, element))
                self.assertIn(b"65536", answer)

    def test_FI_13_text_of_ten_megabytes(self):
        for path in ROUTES:
            for text in (b'"' + b"word " * 2_000_000 + b'"', b'"' + b"x" * 10_000_000 + b'"'):
                self.assertEqual(self.post(path, text)[0], 200, path)
            status, answer = self.post(path, b'"' + b"word " * 2_000_000 + b'","truncate":false')
            self.assertEqual(status, 400, path)
            self.assertIn(b"2000002", answer)
            self.assertIn(b"512", answer)

    def test_FI_13_nested_values(self):
        for depth, mark in ((100, b'"a"'), (100_000, b""), (5_000_000, b"")):
            for path in ROUTES:
                self.assertEqual(self.post(path, b"[" * depth + mark + b"]" * depth)[0], 400, (path, depth))
                self.assertEqual(self.post(path, b'{"a":' * depth + b"1" + b"}" * depth)[0], 400, (path, depth))

    def vector(self, path, text):
        status, answer = self.post(path, text)
        self.assertEqual(status, 200, (path, text, answer))
        answer = json.loads(answer)
        if path == "/embed":
            return answer[0]
        return answer["data"][0]["embedding"] if path.startswith("/v1") else answer["embeddings"][0]

    def test_FI_13_invalid_utf8(self):
        for path in ROUTES:
            self.assertEqual(self.post(path, b'"a\x00b"')[0], 400, path)  # invalid in JSON
            # Invalid UTF-8 becomes U+FFFD. The model's normaliser drops U+FFFD and NUL.
            for text, same in ((b'"a\\u0000b"', b'"ab"'), (b'"a\xff\xfeb"', b'"ab"'), (b'"a\xc3"', b'"a"'),
                               (b'"a\\ud800b"', b'"a\xef\xbf\xbdb"'), (b'"a\xed\xa0\x80b"', b'"ab"')):
                self.assertEqual(self.vector(path, text), self.vector(path, same), (path, text))

    def test_FI_13_PK_12_empty_inputs(self):
        for path in ("/v1/embeddings", "/embed"):
            self.assertEqual(self.post(path, b"[]")[0], 400)
            self.assertEqual(self.vector(path, b'""'), self.vector(path, b'" "'))
        self.assertEqual(self.post("/api/embed", b"[]")[0], 200)

    def test_SV_9_unknown_models_have_errors_of_each_api(self):
        status, answer = self.post("/v1/embeddings", b'"a"', "nobody")
        self.assertEqual(status, 404)
        error = json.loads(answer)["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertIn("nobody", error["message"])
        status, answer = self.post("/api/embed", b'"a"', "nobody")
        self.assertEqual((status, json.loads(answer)), (404, {"error": 'model "nobody" not found, try pulling it first'}))
        status, answer = self.post("/embed", b'"a"', "nobody")
        self.assertEqual((status, set(json.loads(answer))), (404, {"error", "error_type"}))


class Sizes(EmbeddingCase):
    """A server with passes of 128 tokens and one thread. Vectors equal those of the default sizes."""

    arguments = ("--n-batch", "128", "--threads", "1")
    variables = {"BILLOW_N_BATCH": "512", "BILLOW_N_UBATCH": "96", "BILLOW_CONTEXT_SIZE": "300"}

    def test_CFG_8_options_override_variables_and_sizes_are_logged(self):
        self.wait_for_log(r"Batch configuration: n_batch=128, n_ubatch=96, n_seq_max=64, context_size=300, max_batches=1 \(1 in parallel\)")

    def test_FI_12_texts_longer_than_a_pass_are_refused_or_truncated(self):
        text = "word " * 200
        status, _, answer = self.server.request("POST", "/v1/embeddings", {"model": "m", "input": [text, "a"], "truncate": False})
        self.assertEqual(status, 400)
        self.assertIn(b"202 of 96 tokens", answer)
        status, headers, answer = self.server.request("POST", "/v1/embeddings", {"model": "m", "input": [text, "a"]})
        self.assertEqual((status, headers["X-Billow-Truncated"], json.loads(answer)["usage"]["prompt_tokens"]), (200, "1", 96 + 3))
        type(self).n_sent += 2
        status, _, answer = self.server.request("POST", "/v1/embeddings", {"model": "m", "input": [2003] * 97, "truncate": False})
        self.assertEqual(status, 400)
        self.assertIn(b"97 of 96 tokens", answer)

    def test_EQ_3_EQ_4_pass_sizes_and_threads_change_no_bit(self):
        asked = [f"{i} words and " + "more of them " * (i % 25) for i in range(150)]
        small = self.embed(asked, encoding_format="base64")
        usage = small["usage"]["prompt_tokens"]
        self.assertGreaterEqual(total(self.wait_until_idle(), "billow_embed_batches_created_total"), usage / 128)
        for threads in ("2", "8"):
            self.assertEqual(small["data"], self.by_default(asked, threads)["data"], threads)

    def by_default(self, asked, threads):
        with tempfile.TemporaryDirectory() as folder:
            store = self.server.models
            server = Server(folder, ("--threads", threads), program=self.server.program, variables={"OLLAMA_MODELS": str(store)})
            try:
                return server.json("POST", "/v1/embeddings", {"model": "m", "input": asked, "encoding_format": "base64"})
            finally:
                server.stop()


class ParallelPasses(EmbeddingCase):
    """A server with two parallel passes of one thread each."""

    arguments = ("--threads", "2", "--n-batch", "256", "--max-batches", "2")

    def test_CC_2_parallel_passes_give_the_same_vectors_within_the_context(self):
        texts = [f"text {i} " * (1 + i * i % 40) for i in range(64)]
        alone = [self.embed([text], encoding_format="base64")["data"][0]["embedding"] for text in texts]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: self.server.json("POST", "/v1/embeddings",
                                                               {"model": "m", "input": texts, "encoding_format": "base64"}), range(16)))
        type(self).n_sent += 16 * len(texts)
        for answer in answers:
            self.assertEqual([row["embedding"] for row in answer["data"]], alone)
        samples = self.wait_until_idle()
        self.assertEqual(total(samples, "billow_embed_batches_max", model="m:latest"), 2)
        self.wait_for_log(r"max_batches=2 \(2 in parallel\)")


class Faults(EmbeddingCase):
    """A server whose passes of more than 300 tokens run out of memory. Its log has all levels."""

    arguments = ("--allow-faults", "--fail-embed-above", "300")
    variables = {"BILLOW_LOG": "debug"}

    def test_OM_19_pass_without_memory_is_retried_in_halves_and_logged(self):
        texts = [f"{i} words and " + "more of them " * (5 + i % 30) for i in range(40)]
        alone = [self.embed([text], encoding_format="base64")["data"][0]["embedding"] for text in texts]
        before = total(self.wait_until_idle(), "billow_embed_oom_retries_total")
        self.assertEqual(before, 0, "each text fits alone")
        answer = self.embed(texts, encoding_format="base64")
        self.assertEqual([row["embedding"] for row in answer["data"]], alone)
        samples = self.wait_until_idle()
        retries = total(samples, "billow_embed_oom_retries_total")
        self.assertGreater(retries, 0)
        self.assertEqual(total(samples, "billow_embed_oom_retry_tokens_count"), retries)
        self.assertEqual(total(samples, "billow_embed_failures_total"), 0)
        for line in (r"faults are on", r"Batch configuration: n_batch=2048, n_ubatch=2048, n_seq_max=64",
                     r"Batch sizing: pending=\d+ active=0 available=8192 n_batch=2048: \d+ tokens \(light load",
                     r"Batch sizing: pending=0 active=0 .* \(no pending work\)", r"Batch \d+ starts: \d+ sequences, \d+ tokens",
                     r"Batch \d+ ended: \d+ sequences, \d+ tokens in [0-9.]+ ms; active batches: 0",
                     r"Pending tokens: \d+ in 40 sequences", r"Packed 40 sequences \(\d+ total tokens\) into \d+ batches \(n_batch=2048\)",
                     r"OOM at batch_size=\d+ \(attempt 1\), retrying with batch_size=\d+", r"OOM retry: attempt 2 with batch_size=\d+",
                     r"OOM retry succeeded at batch_size=\d+ after \d attempts"):
            self.wait_for_log(line)

    def test_OM_21_text_without_memory_fails_alone(self):
        answer = self.embed(["a", "word " * 400, "b"], partial=True)
        self.assertEqual([row.get("status") for row in answer["data"]], [None, 503, None])
        self.assertIn("no memory", answer["data"][1]["error"])
        self.assertGreater(total(self.wait_until_idle(), "billow_embed_failures_total", type="memory"), 0)

    def test_faults_need_allow_faults(self):
        done = subprocess.run([self.server.program, "serve", "--fail-embed-above", "300"], capture_output=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"--allow-faults", done.stderr)


class End(EmbeddingCase):
    arguments = ("--drain-timeout", "600")

    def test_FI_6_running_requests_finish_after_sigterm(self):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.embed, ["word " * 400] * 100, encoding_format="base64")
            self.wait_for_inputs(101)
            self.server.process.send_signal(signal.SIGTERM)
            self.assertEqual(len(running.result()["data"]), 100)
        self.assertEqual(self.server.process.wait(600), 0, self.server.log.read_text())


if __name__ == "__main__":
    if not MINILM.exists():
        print(f"skipped: no model at {MINILM}; tools/setup models fetches it")
        sys.exit(77)
    run_cases(rest)
