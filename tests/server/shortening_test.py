"""Tests conversations that are too long for their context, with the small real model.

shortening_test.py --billow PROGRAM

A growing conversation keeps its prefix for several turns, so that cached tokens are reused. The choice of messages to drop needs
few renderings. If the client disconnects or the server ends, this work ends.
"""

import http.client
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

from run_cases import run_cases
from server import WEIGHTS, Server

CONTEXT = 1024
ANSWER = 8
BLOCK = 64  # number of tokens that are cached together
LIMIT = CONTEXT - ANSWER  # max tokens of a shortened prompt


def waited_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.01)


class Shortening(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(cls.folder.name, ["--max-context-size", str(CONTEXT)])
        cls.server.add_model("m")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def trace(self, identifier):
        status, _, text = self.server.request("GET", "/api/trace/" + identifier)
        return json.loads(text) if status == 200 else {}

    def spans(self, identifier):
        return {span["name"]: span.get("attributes", {}) for span in self.trace(identifier).get("spans", [])}

    def chat(self, messages, identifier):
        body = {"model": "m", "messages": messages, "stream": False,
                "options": {"num_predict": ANSWER, "temperature": 0}}
        status, headers, text = self.server.request("POST", "/api/chat", body, {"X-Request-Id": identifier})
        self.assertEqual(status, 200, text)
        return json.loads(text), headers.get("X-Billow-Shortened")

    def test_turns_of_a_too_long_conversation_reuse_cached_tokens(self):
        messages = [{"role": "system", "content": "You are a gardener who answers in a few words."}]
        turns = []
        for turn in range(30):
            messages.append({"role": "user", "content": f"Question {turn}: " + "what grows well beside the old oak tree? " * 8})
            answer, shortened = self.chat(messages, f"turn-{turn}")
            messages.append(answer["message"])
            n_prompt, n_cached = answer["prompt_eval_count"], answer.get("prompt_cached_count", 0)
            if shortened:
                n_full, n_short = map(int, shortened.split("->"))
                self.assertGreater(n_full, CONTEXT - 1)
                self.assertEqual(n_short, n_prompt)
                self.assertLessEqual(n_prompt, LIMIT)
                self.assertLessEqual(self.spans(f"turn-{turn}")["rendered"]["times"], 4)
                turns.append((n_prompt, n_cached))
        self.assertGreaterEqual(len(turns), 15)
        growing = [(before, turn) for before, turn in zip(turns, turns[1:]) if turn[0] > before[0]]
        for (n_before, _), (n_prompt, n_cached) in growing:
            # All tokens of the previous turn are cached, except the end of its prompt and incomplete blocks.
            self.assertGreaterEqual(n_cached, n_before - 2 * BLOCK, turns)
        self.assertGreaterEqual(len(growing), 3 * (len(turns) - 1) // 5, turns)

    def test_long_conversation_needs_few_renderings(self):
        messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"This is number {i}."} for i in range(4001)]
        answer, shortened = self.chat(messages, "long")
        self.assertTrue(answer["done"])
        self.assertIsNotNone(shortened)
        self.assertLessEqual(self.spans("long")["rendered"]["times"], 6)

    def test_client_disconnect_ends_the_work(self):
        # The template is so slow that the client disconnects before the second rendering.
        slow = "{{ range .Messages }}{{ .Role }}: {{ .Content }}{{ range $.Messages }}{{ end }}\n{{ end }}"
        self.server.json("POST", "/api/create", {"model": "slow", "from": "m", "template": slow, "stream": False})
        self.server.json("POST", "/api/show", {"model": "slow"})
        body = json.dumps({"model": "slow", "messages": [{"role": "user", "content": f"number {i}"} for i in range(3000)]})
        n_whole = 0
        for attempt in range(20):
            identifier = f"left-{attempt}"
            client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            client.request("POST", "/api/chat", body, {"X-Request-Id": identifier})
            waited_for(lambda: "found" in self.spans(identifier))
            client.close()
            waited_for(lambda: self.trace(identifier).get("status"))
            self.assertEqual(self.trace(identifier)["status"], 499)
            if "rendered" not in self.spans(identifier):
                return
            n_whole += 1  # the work ended before the server noticed the disconnect
        self.fail(f"the disconnect did not end the work in {n_whole} attempts")


def processor_seconds(pid):
    """Returns the processor time of a process, without its children."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class EndOfServer(unittest.TestCase):
    DRAIN = 1  # --drain-timeout in seconds
    MORE = 1  # max processor seconds that the work may take after the drain

    def end(self, n_messages):
        """Ends a server while it shortens a chat. Returns the answer, or None if the server was faster than the drain."""
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder, ["--max-context-size", str(CONTEXT), "--drain-timeout", str(self.DRAIN)])
            self.addCleanup(server.process.wait)
            self.addCleanup(server.process.kill)
            server.add_model("m")
            text = "what grows well beside the old oak tree? " * 50
            messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"{i}: {text}"} for i in range(n_messages)]
            client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
            self.addCleanup(client.close)
            client.request("POST", "/api/chat", json.dumps({"model": "m", "messages": messages}), {"X-Request-Id": "long"})

            def has_begun():
                status, _, text = server.request("GET", "/api/trace/long")
                return status == 200 and "found" in [span["name"] for span in json.loads(text)["spans"]]

            waited_for(has_begun)
            before = processor_seconds(server.process.pid)
            server.process.send_signal(signal.SIGTERM)
            answer = client.getresponse()
            answer = answer.status, answer.headers, answer.read()
            os.waitid(os.P_PID, server.process.pid, os.WEXITED | os.WNOWAIT)
            seconds = processor_seconds(server.process.pid) - before
            self.assertEqual(server.process.wait(), 0)
            if "the oldest messages were left out" in server.log.read_text():
                return None
            self.assertIn("503 POST /api/chat", server.log.read_text())
            self.assertLess(seconds, self.DRAIN + self.MORE)
            return answer

    def test_sigterm_ends_the_work_and_the_client_gets_one_error(self):
        # A slow machine does not shorten a small chat within the drain, and notices the end sooner than in a huge one.
        for n_messages in (1251, 2501, 5001, 10001, 20001, 40001, 80001):
            if answer := self.end(n_messages):
                status, headers, text = answer
                self.assertEqual((status, headers["Retry-After"], json.loads(text)), (503, "1", {"error": "the server is shutting down"}))
                return
        self.fail("the server shortens all chats within the drain")


if __name__ == "__main__":
    if "--billow" in sys.argv:
        at = sys.argv.index("--billow")
        os.environ["BILLOW_PROGRAM"] = sys.argv[at + 1]
        del sys.argv[at:at + 2]
    if not WEIGHTS.exists():
        print(f"skipped: no model at {WEIGHTS}")
        sys.exit(77)
    run_cases()
