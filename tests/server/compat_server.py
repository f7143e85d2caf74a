"""The server of compat_test.py, whose store has the models of the cases, and functions to talk to it.

Parses the arguments of the importing program: --billow PROGRAM [--without-model].
"""

import argparse
import hashlib
import http.client
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import time
import unittest

os.environ["TZ"] = "XYZ-5:30"  # an offset that differs from UTC
os.environ["BILLOW_LOG"] = "info"  # the log then has lines about disconnected clients

from compat_cases import EVERYTHING, GET, JSON_TYPE, POST, error_body
from registry import Registry
from server import MODELS, WEIGHTS, Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--without-model", action="store_true", help="only tests that a slow build can pass")
options, rest = parser.parse_known_args()
PROGRAM = str(pathlib.Path(options.billow).resolve())
HAS_MODEL = WEIGHTS.exists() and not options.without_model
MINILM = MODELS / "all-minilm-l6-v2"
HAS_EMBEDDER = MINILM.exists() and HAS_MODEL
NO_MODEL = "--without-model" if options.without_model else f"no model at {WEIGHTS}"
NO_EMBEDDER = NO_MODEL if not HAS_MODEL else f"no model at {MINILM}"
ONE_THREAD = ("--threads", "1")  # two threads that wait for each other are slow if other tests run in parallel


def small_gguf(architecture="llama"):
    """Returns a model file with one tensor of 24 numbers. It can be shown, but not run."""
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    out = b"GGUF" + struct.pack("<IQQ", 3, 1, 5)
    out += text("general.architecture") + struct.pack("<I", 8) + text(architecture)
    out += text("general.name") + struct.pack("<I", 8) + text("Small")
    for key, value in (("general.file_type", 15), (f"{architecture}.context_length", 2048), (f"{architecture}.embedding_length", 6)):
        out += text(key) + struct.pack("<II", 4, value)
    out += text("token_embd.weight") + struct.pack("<IQQIQ", 2, 6, 4, 0, 0)
    return out + b"\0" * (-len(out) % 32 + 96)


class CompatCase(unittest.TestCase):
    """A test case with a server whose store has the models of the cases."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        # Models of the default registry come from a local registry.
        cls.registry = Registry(pathlib.Path(cls.folder.name) / "registry")
        cls.addClassCleanup(cls.registry.stop)
        cls.server = Server(cls.folder.name, ONE_THREAD, program=PROGRAM, variables={"BILLOW_REGISTRY_MIRROR": cls.registry.url})
        cls.addClassCleanup(cls.server.process.kill)
        small = pathlib.Path(cls.folder.name) / "small.gguf"
        small.write_bytes(small_gguf())
        cls.server.add_model("small", small)
        small.unlink()
        cls.store("stub", {"model_format": "", "remote_host": "https://ollama.com", "remote_model": "big"})
        cls.store("painter", {"model_format": "safetensors", "capabilities": ["image"]})
        if HAS_MODEL:
            cls.server.add_model("m")
            cls.server.json(POST, "/api/create", {
                "model": "all", "from": "m", "template": EVERYTHING, "system": "S", "stream": False, "parameters": {"stop": ["never"]},
                "messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]})
            cls.store_twin("seeing", "1", capabilities=["vision"])
            cls.store_twin("twin", "1")
            cls.store_twin("triplet", "2")
        if HAS_EMBEDDER:
            subprocess.run([PROGRAM, "create", "mini", "-q", "f32"], cwd=MINILM, env=cls.server.environment, check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.log.read_text()

    @classmethod
    def store(cls, name, config, layers=()):
        """Writes a model to the store as another program would."""
        text = json.dumps(config).encode()
        digest = hashlib.sha256(text).hexdigest()
        (cls.server.models / "blobs" / ("sha256-" + digest)).write_bytes(text)
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "layers": layers,
                    "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "digest": "sha256:" + digest, "size": len(text)}}
        path = cls.server.models / "manifests" / "registry.ollama.ai" / "library" / name / "latest"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(manifest))

    @classmethod
    def store_twin(cls, name, digit, **config):
        """Stores the model "m" under another digest, so that it shares no runner with others."""
        stored = json.loads((cls.server.models / "manifests/registry.ollama.ai/library/m/latest").read_bytes())
        weights = next(layer for layer in stored["layers"] if layer["mediaType"].endswith(".model"))
        blobs = cls.server.models / "blobs"
        twin = blobs / ("sha256-" + digit * 64)
        if not twin.exists():
            os.link(blobs / weights["digest"].replace(":", "-"), twin)
        own = json.loads((blobs / stored["config"]["digest"].replace(":", "-")).read_bytes())
        cls.store(name, {**own, "base_name": name, **config}, [{**weights, "digest": "sha256:" + digit * 64}])

    def setUp(self):
        if "_with_a_model" in self._testMethodName and not HAS_MODEL:
            self.skipTest(NO_MODEL)
        if "_with_an_embedder" in self._testMethodName and not HAS_EMBEDDER:
            self.skipTest(NO_EMBEDDER)

    def tearDown(self):
        self.assertEqual(self.ask(GET, "/healthz")[0], 200, "the server is unhealthy after the test")

    def ask(self, method, path, body=None, headers=None, server=None):
        """Returns status, headers and body. Follows no redirect and sends no Content-Type."""
        connection = http.client.HTTPConnection("127.0.0.1", (server or self.server).port, timeout=600)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, headers or {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, answer.headers, text

    def lines(self, path, body):
        status, headers, text = self.ask(POST, path, body)
        self.assertEqual((status, headers["Content-Type"]), (200, "application/x-ndjson"), text)
        return [json.loads(line) for line in text.splitlines()]

    def whole(self, path, body, server=None):
        status, headers, text = self.ask(POST, path, {**body, "stream": False}, server=server)
        self.assertEqual((status, headers["Content-Type"]), (200, JSON_TYPE), text)
        self.assertNotEqual(text[-1:], b"\n")
        return json.loads(text)

    def running(self, server=None):
        return json.loads(self.ask(GET, "/api/ps", server=server)[2])["models"]

    def wait_for(self, is_so, why):
        deadline = time.monotonic() + 60
        while not is_so():
            self.assertLess(time.monotonic(), deadline, why)
            time.sleep(0.01)

    def unload(self):
        for model in self.running():
            self.assertEqual(self.whole("/api/generate", {"model": model["name"], "keep_alive": 0})["done_reason"], "unload")
        self.wait_for(lambda: self.running() == [], "the model is still loaded")

    def start(self, *arguments, host="127.0.0.1"):
        """Starts another server on the same store."""
        server = Server(self.folder.name, (*ONE_THREAD, *arguments), program=PROGRAM, host=host)
        self.addCleanup(server.process.wait)
        self.addCleanup(server.process.kill)
        return server

    def check_refused(self, table):
        for name, method, path, body, status, text in table:
            with self.subTest(name, path=path, body=body):
                got, headers, answer = self.ask(method, path, body)
                self.assertEqual((got, answer), (status, error_body(text)))
                self.assertEqual(headers["Content-Type"], JSON_TYPE)
