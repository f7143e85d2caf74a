"""A server whose models run on llama-server: a fake with faults (fake_llama_server.py), or the real one.

The real one is the program BILLOW_TEST_LLAMA_SERVER, or llama-server on PATH. Programs that import this module take the arguments
--billow PROGRAM --make-models PROGRAM [unittest arguments].
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

from server import Server, is_running

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
options, rest = parser.parse_known_args()

FAKE = pathlib.Path(__file__).resolve().with_name("fake_llama_server.py")
REAL = os.environ.get("BILLOW_TEST_LLAMA_SERVER") or shutil.which("llama-server")
FIRST, N_TOKENS = 20, 60  # the tokens of the generated models that are letters and signs
LONG = 120  # timeout in seconds
PATIENCE = 3


def until(condition, what):
    deadline = time.monotonic() + LONG
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found


class Place(unittest.TestCase):
    """A test case with a server whose models run on llama-server."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        subprocess.run([options.make_models, str(self.folder), "--to-serve"], check=True, stdout=subprocess.DEVNULL)
        self.plan_path = self.folder / "plan"
        self.fake_log = self.folder / "fake.log"
        self.plan()

    def plan(self, **fields):
        new = self.folder / "plan.new"
        new.write_text(json.dumps({"first": FIRST, "n_tokens": N_TOKENS, "log": str(self.fake_log), **fields}))
        new.rename(self.plan_path)

    def serve(self, *arguments, program=FAKE):
        self.server = Server(self.folder, ["--threads", "1", "--llama-server", str(program), *arguments], program=options.billow,
                             variables={"BILLOW_FAKE_LLAMA": str(self.plan_path), "LLAMA_ARG_MODEL": "/else/where.gguf", "no_proxy": "*"})
        self.addCleanup(self.end)

    def end(self):
        if self.server.process.poll() is None:
            self.server.stop()
        until(lambda: not any(is_running(pid) for pid in self.pids()), "a llama-server still runs")

    def add(self, name="m", path=None, **fields):
        self.server.add_model(name, path or self.folder / "writer.gguf", **fields)

    def add_adapted(self, name, path, adapters, **fields):
        """Adds a model with these adapter files."""
        self.add("adapted-base", path)
        digests = {}
        for adapter in adapters:
            data = adapter.read_bytes()
            digests[adapter.name] = "sha256:" + hashlib.sha256(data).hexdigest()
            self.server.request("POST", "/api/blobs/" + digests[adapter.name], data)
        self.server.json("POST", "/api/create", {"model": name, "from": "adapted-base", "adapters": digests, "stream": False, **fields})

    def add_forced(self, name="m", **parameters):
        self.add(name, parameters={"engine": "llama", **parameters})

    def notes(self, field):
        if not self.fake_log.exists():
            return []
        entries = [json.loads(line) for line in self.fake_log.read_text().splitlines()]
        return [entry for entry in entries if field in entry]

    def pids(self):
        return [entry["pid"] for entry in self.notes("pid")]

    def generate(self, prompt="7 7 7", model="m", **fields):
        given = fields.pop("options", {})
        return self.server.request("POST", "/api/generate", {"model": model, "prompt": prompt, "stream": False, "raw": True,
                                                             "options": given, **fields})

    def answer(self, *arguments, **fields):
        status, _, body = self.generate(*arguments, **fields)
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def error(self, status, *arguments, **fields):
        got, _, body = self.generate(*arguments, **fields)
        self.assertEqual(got, status, body)
        return json.loads(body)["error"]

    def models(self):
        return self.server.json("GET", "/api/ps")["models"]
