"""Tests the server while another process truncates a model's GGUF file: errors name the file, and other models still answer.

truncated_file_test.py --billow PROGRAM --make-models PROGRAM --shim LIBRARY
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import unittest

import store_case
from run_cases import run_cases
from store_case import LONG, Place, all_of, ask, check_other_requests, rest, until

setUpModule, tearDownModule = store_case.set_up, store_case.tear_down


class TruncatedFile(unittest.TestCase):
    """Another process truncates the GGUF file of the model "slow" in place while the server runs."""

    GENERATE = ("/api/generate", {"model": "slow", "prompt": "a", "options": {"num_predict": 2}, "stream": False})
    CHAT = ("/v1/chat/completions", {"model": "slow", "messages": [{"role": "user", "content": "a"}], "max_tokens": 2})
    EMBED = ("/api/embed", {"model": "slow", "input": "a"})
    SHOW = ("/api/show", {"model": "slow", "verbose": True})
    LENGTHS = (lambda n: 0, lambda n: 3, lambda n: 100, lambda n: n // 2, lambda n: n - 1)

    def expect_one_error(self, answer, name):
        """Expects an error in one line that names the file."""
        status, _, text = answer
        self.assertEqual(status, 500, text)
        error = json.loads(text)["error"]
        error = error["message"] if isinstance(error, dict) else error
        self.assertIn(name, error)
        self.assertNotIn("\n", error)

    def expect_show(self, answer):
        """Expects a Modelfile. A file that cannot be read has no metadata."""
        status, _, text = answer
        self.assertEqual(status, 200, text)
        self.assertIn("FROM ", json.loads(text)["modelfile"])

    def is_open(self, server, file):
        """Returns whether the server or one of its children has opened the file."""
        for pid in (server.process.pid, *server.runners()):
            with contextlib.suppress(OSError):
                if any(os.readlink(link) == str(file) for link in pathlib.Path(f"/proc/{pid}/fd").iterdir()):
                    return True
        return False

    def test_requests_get_one_error_and_the_model_works_again_later(self):
        whole = store_case.TINY.read_bytes()

        def check(case):
            length, is_loaded = case
            with Place(store_case.prepared) as place:
                server = place.server(shim=False)
                file = place.blob("slow", "image.model")
                self.assertEqual(file.stat().st_size, len(whole))
                if is_loaded:
                    ask(server, "POST", *self.GENERATE)
                    ask(server, "POST", "/api/generate", {"model": "slow", "keep_alive": 0})
                    until(lambda: not server.json("GET", "/api/ps")["models"], "the model is not unloaded")
                os.truncate(file, length(len(whole)))
                for asked in (self.GENERATE, self.CHAT, self.EMBED):
                    self.expect_one_error(server.request("POST", *asked), file.name)
                self.expect_show(server.request("POST", *self.SHOW))
                check_other_requests(server)
                file.write_bytes(whole)
                until(lambda: server.request("POST", *self.GENERATE)[0] == 200, "the model never works again")
                self.assertEqual(server.stop(), 0)

        all_of([(length, is_loaded) for length in self.LENGTHS for is_loaded in (False, True)], check)

    def test_a_file_can_be_truncated_while_it_is_read(self):
        """Truncates the file between opening and reading it: in the server (show), and in the server and the program that
        describes it (generate)."""
        def check(case):
            length, asked = case
            with Place(store_case.prepared) as place:
                server = place.server()
                file = place.blob("slow", "image.model")
                place.rule(f"hang read {file}")
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    answer = pool.submit(server.request, "POST", *asked)
                    try:
                        until(lambda: self.is_open(server, file), "the file is not opened")
                        os.truncate(file, length(file.stat().st_size))
                    finally:
                        place.rule("")
                    if asked is self.SHOW:
                        self.expect_show(answer.result(LONG))
                    else:
                        self.expect_one_error(answer.result(LONG), file.name)
                check_other_requests(server)
                self.assertEqual(server.stop(), 0)

        all_of([(length, asked) for length in self.LENGTHS for asked in (self.SHOW, self.GENERATE)], check)

    def test_a_loaded_model_loses_its_file(self):
        """The runner that has mapped the file may answer, or die. The server and other models must not notice."""
        for length in self.LENGTHS:
            with Place(store_case.prepared) as place:
                server = place.server(shim=False)
                file = place.blob("slow", "image.model")
                ask(server, "POST", *self.GENERATE)
                os.truncate(file, length(file.stat().st_size))
                for asked in (self.GENERATE, self.CHAT, self.EMBED):
                    answer = server.request("POST", *asked)
                    if answer[0] != 200:
                        self.expect_one_error(answer, file.name)
                check_other_requests(server)
                self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    run_cases(rest)
