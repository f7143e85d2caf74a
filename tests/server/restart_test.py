"""Tests packed weights and the KV of conversations, which a server saves on disk for the next one. Saved files change no answer
after unloading, kills, restarts and damage.

restart_test.py --billow PROGRAM [unittest arguments]; exits with 77 if the small model is missing.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import stat
import sys
import tempfile
import time
import unittest

from run_cases import run_cases
from server import WEIGHTS, Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
options, rest = parser.parse_known_args()

STORY = " ".join(f"In year {year} the keeper of the lighthouse wrote {year % 7} letters and mended the old boat." for year in range(40))


class Restart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.server = None
        self.start()
        self.server.add_model("m")
        self.addCleanup(lambda: self.server.stop())

    def start(self, *arguments):
        if self.server is not None:
            self.server.stop()
        self.server = Server(self.folder, arguments=arguments or ("--sessions-limit", "1G"), program=options.billow)

    def chat(self, messages):
        """Returns the answer, and the numbers of evaluated and cached tokens of the prompt."""
        self.saved_before = self.saved()
        body = {"model": "m", "messages": messages, "max_tokens": 40, "temperature": 0.7, "seed": 5}
        answer = self.server.json("POST", "/v1/chat/completions", body)
        usage = answer["usage"]
        return answer["choices"][0]["message"]["content"], usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

    def unload(self):
        self.server.json("POST", "/api/generate", {"model": "m", "keep_alive": 0, "stream": False})
        self.wait_for(lambda: not self.server.json("GET", "/api/ps")["models"])

    def wait_for(self, condition, seconds=600):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def files(self, name):
        folder = self.server.models / name
        return sorted(path for path in folder.iterdir() if path.suffix in (".kv", ".packed")) if folder.exists() else []

    def saved(self):
        """Returns the name, the size and the time of each file of conversations."""
        folder = self.server.models / "sessions"
        found = []
        for path in sorted(folder.iterdir()) if folder.exists() else []:
            with contextlib.suppress(FileNotFoundError):
                found.append((path.name, path.stat().st_size, path.stat().st_mtime_ns))
        return found

    def wait_until_saved(self):
        """Waits until the runner has saved the last chat. It saves when it is idle."""
        seen = []

        def rests():
            seen.append(self.saved())
            time.sleep(0.05)
            return seen[-1] != self.saved_before and self.files("sessions") and len(seen) >= 100 and all(one == seen[-1] for one in seen[-100:])
        self.wait_for(rests)

    def test_conversation_continues_after_every_end_of_a_runner(self):
        messages = [{"role": "user", "content": STORY + " Tell me more."}]
        answers = []
        ends = [self.unload, self.kill_runner, self.start, self.kill_server]
        for end in [None, *ends]:
            if end is not None:
                end()
            text, n_prompt, n_known = self.chat(messages)
            if end is not None:
                self.assertGreaterEqual(n_known, n_prompt - 64 - 64, end)
            answers.append(text)
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And then?"}]
            self.wait_until_saved()
        # A server without saved files gives the same answers.
        self.start("--packed-limit", "0")
        self.unload()
        for i, expected in enumerate(answers):
            text, _, n_known = self.chat(messages[:2 * i + 1])
            self.assertEqual(text, expected)
            self.assertEqual(n_known == 0, i == 0)

    def kill_runner(self):
        for pid in self.server.runners():
            os.kill(pid, signal.SIGKILL)

    def kill_server(self):
        self.server.kill()
        self.server = None
        self.start()

    def test_saved_conversations_are_readable_by_the_user_only(self):
        self.chat([{"role": "user", "content": STORY}])
        self.wait_until_saved()
        folder = self.server.models / "sessions"
        self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o700)
        for path in self.files("sessions"):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)

    def test_conversations_are_not_saved_by_default(self):
        self.start("--max-queue", "100")
        self.chat([{"role": "user", "content": STORY}])
        self.unload()
        self.assertEqual(self.files("sessions"), [])

    def test_damaged_conversations_are_evaluated_again(self):
        messages = [{"role": "user", "content": STORY}]
        expected = self.chat(messages)[0]
        self.wait_until_saved()
        self.unload()
        path = max(self.files("sessions"), key=lambda path: path.stat().st_size)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 16
        path.write_bytes(content)
        text, n_prompt, n_known = self.chat(messages)
        self.assertEqual(text, expected)
        self.assertLess(n_known, n_prompt - 128)

    def test_weights_are_packed_once(self):
        messages = [{"role": "user", "content": "Hello"}]
        expected = self.chat(messages)[0]
        self.wait_for(lambda: self.files("packed"))
        [path] = self.files("packed")
        before = path.stat().st_ino
        for end in (self.unload, self.start):
            end()
            self.assertEqual(self.chat(messages)[0], expected)
            self.assertEqual(path.stat().st_ino, before)
        # The runner maps the file.
        [pid] = self.server.runners()
        self.assertIn(str(path), pathlib.Path(f"/proc/{pid}/maps").read_text())

    def test_damaged_weights_are_packed_again(self):
        messages = [{"role": "user", "content": "Hello"}]
        expected = self.chat(messages)[0]
        self.wait_for(lambda: self.files("packed"))
        [path] = self.files("packed")
        self.unload()
        with path.open("r+b") as file:
            file.seek(1_000_000)
            byte = file.read(1)
            file.seek(1_000_000)
            file.write(bytes([byte[0] ^ 255]))
        self.assertEqual(self.chat(messages)[0], expected)
        self.server.wait_for_log("is damaged; the weights are packed again")

    def test_limits_are_sizes(self):
        for option in ("--packed-limit", "--sessions-limit"):
            with self.assertRaises(AssertionError) as raised:
                Server(self.folder, arguments=(option, "much"), program=options.billow)
            self.assertIn(option + ": ", str(raised.exception))


if __name__ == "__main__":
    if not WEIGHTS.exists():
        print(f"skipped: no model at {WEIGHTS}")
        sys.exit(77)
    run_cases(rest)
