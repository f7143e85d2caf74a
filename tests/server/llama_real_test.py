"""Tests the real llama-server on a real small model: answers, adapters, and failures.

llama_real_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]; exits with 77 if there is no llama-server.
"""

import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import signal
import sys
import time

from adapter_file import write_adapter
from llama_place import LONG, REAL, Place, is_running, options, rest, until
from run_cases import run_cases
from server import WEIGHTS


def descendants(pid):
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in path.read_text().split():
                yield int(child)
                yield from descendants(int(child))


class Answers(Place):
    """Compares answers with those of Billow's engine."""

    def setUp(self):
        super().setUp()
        self.serve(program=REAL)
        self.add("m", WEIGHTS, parameters={"engine": "llama"})
        self.add("own", WEIGHTS)

    def chat(self, model, **fields):
        return self.server.json("POST", "/api/chat", {
            "model": model, "stream": False, "options": {"temperature": 0, "num_predict": 24},
            "messages": [{"role": "user", "content": "Name the capital of France."}], **fields})

    def first_token(self, model):
        """Returns the first token and its log probability."""
        body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "logprobs": True, "top_logprobs": 3, "max_tokens": 4, "temperature": 0}
        return self.server.json("POST", "/v1/chat/completions", body)["choices"][0]["logprobs"]["content"][0]

    def test_both_engines_give_the_same_answer(self):
        llama, own = self.chat("m"), self.chat("own")
        self.assertEqual(llama["prompt_eval_count"], own["prompt_eval_count"])
        self.assertEqual(llama["message"]["content"][:20], own["message"]["content"][:20])

    def test_answer_follows_a_schema(self):
        schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}
        got = self.chat("m", format=schema, options={"temperature": 0, "num_predict": 60})
        self.assertIn("city", json.loads(got["message"]["content"]))

    def test_log_probabilities(self):
        got, own = self.first_token("m"), self.first_token("own")
        self.assertEqual(got["token"], own["token"])
        self.assertEqual(len(got["top_logprobs"]), 3)
        self.assertAlmostEqual(got["logprob"], own["logprob"], delta=0.1)

    def test_adapter_changes_the_answer_as_on_billows_engine(self):
        adapter = write_adapter(options.billow, WEIGHTS, self.folder / "adapter.gguf", size=0.3)
        for name, engine in (("llama-with", "llama"), ("own-with", "billow")):
            self.add_adapted(name, WEIGHTS, [adapter], parameters={"engine": engine})
        plain, llama, own = (self.first_token(model) for model in ("m", "llama-with", "own-with"))
        self.assertEqual(llama["token"], own["token"])
        self.assertAlmostEqual(llama["logprob"], own["logprob"], delta=0.15)
        self.assertTrue(llama["token"] != plain["token"] or abs(llama["logprob"] - plain["logprob"]) > 0.3, (llama, plain))


class Faults(Place):
    """Failures of the real program."""

    def setUp(self):
        super().setUp()
        self.serve(program=REAL)
        self.add("m", WEIGHTS, parameters={"engine": "llama"})

    def llama(self):
        """Returns the process id of llama-server."""
        def found():
            for pid in descendants(self.server.process.pid):
                with contextlib.suppress(OSError):
                    if b"--ctx-size" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                        return pid
            return None
        return until(found, "there is no llama-server")

    def strike(self, sign):
        """Sends the signal to llama-server after a stream has started. Returns the last line of the stream."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=LONG)
        connection.request("POST", "/api/generate", json.dumps({"model": "m", "prompt": "Count:", "raw": True, "options": {"num_predict": 2000}}))
        answer = connection.getresponse()
        self.assertIn("response", json.loads(answer.readline()))
        pid = self.llama()
        os.kill(pid, sign)
        last = json.loads(answer.read().splitlines()[-1])
        connection.close()
        until(lambda: not is_running(pid), "the broken llama-server still runs")
        return last

    def is_well(self):
        return self.generate("Hello", options={"num_predict": 2})[0] == 200

    def test_crash_during_an_answer(self):
        self.assertIn("error", self.strike(signal.SIGKILL))
        until(self.is_well, "the model does not come back")

    def test_hang_during_an_answer(self):
        self.assertIn("error", self.strike(signal.SIGSTOP))
        until(self.is_well, "the model does not come back")

    def test_slow_start(self):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            answer = pool.submit(self.is_well)
            pid = self.llama()
            os.kill(pid, signal.SIGSTOP)
            time.sleep(5)
            self.assertFalse(answer.done())
            os.kill(pid, signal.SIGCONT)
            self.assertTrue(answer.result())

    def test_no_llama_server_outlives_the_server(self):
        for sign in (signal.SIGTERM, signal.SIGKILL):
            self.assertTrue(self.is_well())
            pid = self.llama()
            self.server.process.send_signal(sign)
            self.server.process.wait(LONG)
            until(lambda pid=pid: not is_running(pid), f"llama-server outlives the server after {sign.name}")
            self.serve(program=REAL)


if __name__ == "__main__":
    why_not = "" if WEIGHTS.exists() else f"no model at {WEIGHTS}"
    if not REAL:
        why_not = "no llama-server: set BILLOW_TEST_LLAMA_SERVER or install llama.cpp"
    if why_not:
        print("skipped:", why_not)
        sys.exit(77)
    run_cases(rest)
