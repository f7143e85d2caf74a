"""Tests drafts through the server: answers are the same with and without drafts, and drafts are counted.

speculation_test.py --billow PROGRAM [unittest arguments]; exits with 77 if the small model is missing.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import prometheus_text
from run_cases import run_cases
from server import WEIGHTS, Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
options, rest = parser.parse_known_args()

CHANGE_LAYERS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "change_layers"
LIST = "\n".join(f"{number}. The river number {number} carries boats to the old harbour." for number in range(1, 40))
MESSAGES = [{"role": "user", "content": "Write this list again:\n" + LIST}]


class Speculation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.server = Server(folder.name, program=options.billow)
        cls.addClassCleanup(cls.server.stop)
        cls.server.add_model("m")

    def chat(self, **fields):
        body = {"model": "m", "messages": MESSAGES, "max_tokens": 150, "temperature": 0, "seed": 3, "logprobs": True, **fields}
        status, headers, text = self.server.request("POST", "/v1/chat/completions", body)
        self.assertEqual(status, 200, text)
        answer = json.loads(text)
        spans = self.server.json("GET", "/api/trace/" + headers["X-Request-Id"])["spans"]
        drafts = next(span["attributes"] for span in spans if span["name"] == "decode")
        return answer, drafts

    def samples(self):
        return prometheus_text.parse(self.server.request("GET", "/metrics")[2].decode())[0]

    def test_drafts_change_no_answer_and_save_time(self):
        for temperature in (0, 0.9):
            plain, none = self.chat(temperature=temperature, options={"draft_num_predict": 0})
            self.assertEqual((none["drafted"], none["draft_accepted"]), (0, 0))
            text = plain["choices"][0]["message"]["content"]
            for prediction in (text, [{"type": "text", "text": text[:200]}, {"type": "text", "text": text[240:]}]):
                answer, drafts = self.chat(temperature=temperature, prediction={"type": "content", "content": prediction})
                self.assertEqual(answer["choices"], plain["choices"])
                details = answer["usage"]["completion_tokens_details"]
                self.assertEqual(details["accepted_prediction_tokens"], drafts["draft_accepted"])
                self.assertEqual(details["rejected_prediction_tokens"], drafts["drafted"] - drafts["draft_accepted"])
                self.assertGreater(drafts["draft_accepted"], 0)

    def test_malformed_prediction_is_refused(self):
        for prediction in ("text", {"type": "content", "content": 5}, {"type": "image", "content": "x"}):
            status, _, text = self.server.request("POST", "/v1/chat/completions",
                                                  {"model": "m", "messages": MESSAGES, "prediction": prediction})
            self.assertEqual(status, 400, text)
            self.assertIn(b"prediction", text)

    def test_timings_and_metrics_count_drafts(self):
        body = {"model": "m", "prompt": LIST + "\n40. The river number", "n_predict": 120, "temperature": 0}
        before = self.samples()
        plain = self.server.json("POST", "/completion", {**body, "speculative.n_max": 0})
        self.assertNotIn("draft_n", plain["timings"])
        drafted = self.server.json("POST", "/completion", body)
        self.assertEqual(drafted["content"], plain["content"])
        self.assertEqual(drafted["tokens_predicted"], plain["tokens_predicted"])
        timings = drafted["timings"]
        self.assertGreaterEqual(timings["draft_n"], timings["draft_n_accepted"])
        self.assertGreater(timings["draft_n_accepted"], 0)
        after = self.samples()
        for name, count in (("billow_drafted_tokens_total", timings["draft_n"]),
                            ("billow_draft_accepted_tokens_total", timings["draft_n_accepted"])):
            self.assertEqual(prometheus_text.total(after, name) - prometheus_text.total(before, name), count)

    # The prompt does not repeat itself, so only the draft model can draft.
    def test_draft_model_changes_no_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "draft.gguf")
            subprocess.run([CHANGE_LAYERS, WEIGHTS, "3", path], check=True)
            draft = self.server.upload(path)
            self.server.json("POST", "/api/create", {"model": "with-draft", "from": "m", "draft_files": {"draft.gguf": draft},
                                                     "stream": False})
            self.server.add_model("small", path)
        shown = self.server.json("POST", "/api/show", {"model": "with-draft"})
        self.assertIn("\nDRAFT ", shown["modelfile"])
        self.server.json("POST", "/api/create", {"model": "by-name", "from": "m", "draft": "small", "stream": False})
        by_name = self.server.json("POST", "/api/show", {"model": "by-name"})["modelfile"]
        self.assertEqual(by_name.split("\nDRAFT ")[1].split()[0], shown["modelfile"].split("\nDRAFT ")[1].split()[0])
        status, _, text = self.server.request("POST", "/api/create", {"model": "x", "from": "m", "draft": "absent", "stream": False})
        self.assertEqual((status, text), (404, b'{"error":"DRAFT absent: no such file or model"}'))
        self.server.json("POST", "/api/create", {"model": "heir", "from": "with-draft", "stream": False})
        self.assertIn("\nDRAFT ", self.server.json("POST", "/api/show", {"model": "heir"})["modelfile"])
        for temperature in (0, 0.8):
            body = {"prompt": "The quick brown fox", "n_predict": 60, "temperature": temperature, "seed": 4, "n_probs": 2}
            plain = self.server.json("POST", "/completion", {**body, "model": "m", "speculative.n_max": 0})
            found = self.server.json("POST", "/completion", {**body, "model": "heir"})
            self.assertEqual(found["content"], plain["content"])
            self.assertEqual(found["completion_probabilities"], plain["completion_probabilities"])
            if temperature == 0:
                self.assertGreater(found["timings"]["draft_n"], 0)
        commands = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in self.server.runners()]
        self.assertEqual(sum(b"--draft" in command for command in commands), 1)  # only the runner of the heir has a draft model

    def test_draft_model_with_other_vocabulary_is_refused(self):
        status, _, text = self.server.request("POST", "/api/create", {
            "model": "wrong", "from": "m", "draft_files": {"draft.gguf": self.server.upload(self.other_vocabulary())},
            "stream": False})
        self.assertEqual(status, 400, text)
        self.assertIn(b"the same vocabulary", text)

    def other_vocabulary(self):
        return pathlib.Path(__file__).resolve().parents[1] / "families" / "data" / "olmo.gguf"

    # Streams in parallel with a long prompt of another client equal single ones.
    def test_long_prompt_changes_no_parallel_stream(self):
        def generated(prompt, results, key):
            lines = self.server.lines("/api/generate", {"model": "m", "prompt": prompt, "raw": True,
                                                        "options": {"num_predict": 120, "seed": 5, "temperature": 0.8}})
            results[key] = "".join(line["response"] for line in lines)

        prompts = {"short": "Once upon a time", "list": LIST, "long": LIST * 3 + " And"}
        alone = {}
        for key, prompt in prompts.items():
            generated(prompt, alone, key)
        for _ in range(2):
            together = {}
            threads = [threading.Thread(target=generated, args=(prompt, together, key)) for key, prompt in prompts.items()]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(together, alone)


if __name__ == "__main__":
    if not WEIGHTS.exists():
        print(f"skipped: no model at {WEIGHTS}; tools/setup models fetches it")
        sys.exit(77)
    run_cases(rest)
