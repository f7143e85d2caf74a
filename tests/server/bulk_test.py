"""Tests generation with bulk priority on the small real model: interactive requests do not wait for the queue of bulk requests, and
answers are those of a server without other work.

bulk_test.py --billow PROGRAM [unittest arguments]; exits with 77 if the small model is missing.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from run_cases import run_cases
from server import WEIGHTS, Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
options, rest = parser.parse_known_args()

N_BULK = 24
LONG = "The keeper of the lighthouse wrote another letter about the boats of that year. " * 12


class Bulk(unittest.TestCase):
    def begin(self, n_parallel):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.server = Server(folder.name, arguments=("--parallel", str(n_parallel), "--max-queue", str(N_BULK)),
                             program=options.billow)
        self.addCleanup(self.stop)
        self.server.add_model("m")
        self.bodies = [{"model": "m", "prompt": f"{LONG} Letter {i}:", "stream": False,
                        "options": {"temperature": 0.8, "seed": i, "num_predict": 40 + i}} for i in range(N_BULK)]

    def stop(self):
        if self.server.process.poll() is None:
            self.server.stop()

    def send(self, body):
        status, _, text = self.server.request("POST", "/api/generate", body, {"X-Billow-Priority": "bulk"})
        self.answers.append((body["options"]["seed"], status, json.loads(text)))

    def send_bulk(self):
        """Sends all bulk requests, and returns when one has ended and most others wait."""
        self.answers = []
        self.threads = [threading.Thread(target=self.send, args=(body,), daemon=True) for body in self.bodies]
        for thread in self.threads:
            thread.start()
        deadline = time.monotonic() + 300
        while not self.answers:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.assertLess(len(self.answers), N_BULK // 2)

    def n_before_first_token(self):
        """Returns for each chat how many bulk answers ended between its arrival and its first token, by the clock of the server."""
        chats, ends = [], []
        for row in self.server.json("GET", "/api/trace")["traces"]:
            begin = datetime.datetime.fromisoformat(row["began_at"]).timestamp()
            if row["route"] == "/api/generate":
                ends.append(begin + row["duration"] / 1e9)
            elif row["route"] == "/api/chat":
                spans = {span["name"]: span for span in self.server.json("GET", "/api/trace/" + row["id"])["spans"]}
                chats.append((begin + spans["queued"]["begin"] / 1e9, begin + spans["first token"]["begin"] / 1e9))
        return [sum(begin < end < token for end in ends) for begin, token in chats]

    def end_bulk(self):
        for thread in self.threads:
            thread.join(300)
        self.assertEqual([status for _, status, _ in self.answers], [200] * N_BULK)
        return {seed: answer["response"] for seed, _, answer in self.answers}

    def check(self, n_parallel, max_answers):
        self.begin(n_parallel)
        chat = {"model": "m", "messages": [{"role": "user", "content": "Why is the sky blue?"}],
                "options": {"temperature": 0, "num_predict": 8}}
        alone = [self.server.json("POST", "/api/generate", body)["response"] for body in self.bodies[:6]]
        self.send_bulk()
        for _ in range(3):
            self.assertTrue(self.server.lines("/api/chat", chat)[0]["message"]["content"])
        self.assertLess(len(self.answers), N_BULK, "the interactive requests waited for the queue")
        together = self.end_bulk()
        n_before = self.n_before_first_token()
        self.assertEqual(len(n_before), 3)
        self.assertLessEqual(max(n_before), max_answers, n_before)
        self.assertEqual([together[i] for i in range(6)], alone)

    def test_interactive_requests_take_the_places_that_bulk_requests_leave(self):
        # One may have just ended, and all four that run may end before the first token.
        self.check(4, 5)

    def test_with_one_place_an_interactive_request_is_the_next(self):
        self.check(1, 2)

    def test_a_full_queue_of_bulk_requests_refuses_no_interactive_request(self):
        self.begin(1)
        self.send_bulk()
        more = [threading.Thread(target=self.send, args=(body,), daemon=True) for body in self.bodies[:4]]
        for thread in more:
            thread.start()
        status, _, text = self.server.request("POST", "/api/generate", {"model": "m", "prompt": "a", "stream": False,
                                                                        "options": {"num_predict": 2}})
        self.assertEqual(status, 200, text)
        for thread in [*self.threads, *more]:
            thread.join(300)
        self.assertEqual(len(self.answers), N_BULK + 4)

    def test_a_job_continues_after_the_loss_of_the_server(self):
        self.begin(4)
        folder = pathlib.Path(self.server.models).parent
        rows, out = folder / "rows.jsonl", folder / "out.jsonl"
        rows.write_text("".join(json.dumps({"id": i, "prompt": f"Letter {i}:", "options": {"num_predict": 24 + i % 16}}) + "\n"
                                for i in range(40)))
        command = [options.billow, "generate", "--model", "m", "--in", str(rows), "--temperature", "0", "--jobs", "2", "--timeout", "5"]
        first = subprocess.Popen([*command, "--out", str(out)], env=self.server.environment, stderr=subprocess.PIPE, text=True)
        state = folder / "out.jsonl.part.json"
        deadline = time.monotonic() + 300
        while not (state.exists() and json.loads(state.read_text())["rows"] > 0):
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(first.poll())
            time.sleep(0.02)
        self.server.process.kill()
        self.server.process.wait()
        _, errors = first.communicate(timeout=120)
        self.assertEqual(first.returncode, 75, errors)
        self.assertFalse(out.exists())
        self.server = Server(folder, program=options.billow, port=self.server.port)
        again = subprocess.run([*command, "--out", str(out)], env=self.server.environment, capture_output=True, text=True, check=False)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertRegex(again.stderr, r"^continuing after \d+ rows\n")
        whole = subprocess.run(command, env=self.server.environment, capture_output=True, text=True, check=False)
        self.assertEqual(out.read_text(), whole.stdout)
        self.assertEqual([json.loads(line)["id"] for line in whole.stdout.splitlines()], list(range(40)))


if __name__ == "__main__":
    if not WEIGHTS.exists():
        print(f"skipped: no model at {WEIGHTS}")
        sys.exit(77)
    run_cases(rest)
