"""Shared code of tests of faulty stores: folders with a store and its servers, and a prepared store with two models.

The main module needs `setUpModule = store_case.set_up` and `tearDownModule = store_case.tear_down`, and gets the options
--billow PROGRAM --make-models PROGRAM --shim LIBRARY.
"""

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
parser.add_argument("--shim", required=True)
options, rest = parser.parse_known_args()
PROGRAM = str(pathlib.Path(options.billow).resolve())
SHIM = str(pathlib.Path(options.shim).resolve())
if not os.path.exists(SHIM):  # the loader would ignore it, and tests would wait for faults
    sys.exit(f"{SHIM} is missing: build billow_fault_shim")

LONG = 300  # timeout in seconds; the machine may be busy
HOUR = 3600


def until(condition, what):
    """Waits until the condition holds."""
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Place:
    """A folder with a store, and its servers."""

    def __init__(self, prepared=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="billow-store-"))
        self.folder.chmod(0o755)
        self.store = self.folder / "models"
        self.fault = self.folder / "fault"
        self.servers = []
        if prepared:
            shutil.copytree(prepared, self.store, symlinks=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.rule("")
        for server in self.servers:
            if server.process.poll() is None:
                server.process.kill()
            server.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def rule(self, text):
        """Sets the fault of the shim; see fault_shim.cpp."""
        new = self.folder / "fault.new"
        new.write_text(text + "\n")
        new.rename(self.fault)

    def server(self, shim=True, arguments=(), prefix=(), program=PROGRAM):
        shimmed = {"LD_PRELOAD": SHIM, "BILLOW_FAULT": str(self.fault)} if shim else {}
        server = Server(self.folder, ["--drain-timeout", "1", *arguments], program, variables=shimmed, prefix=prefix)
        self.servers.append(server)
        return server

    def manifest(self, name):
        return self.store / "manifests/registry.ollama.ai/library" / name / "latest"

    def blob(self, name, kind):
        """Returns the path of the blob of a layer, or of the config."""
        manifest = json.loads(self.manifest(name).read_text())
        layers = [*manifest["layers"], {**manifest["config"], "mediaType": "config"}]
        digest = next(layer["digest"] for layer in layers if layer["mediaType"].endswith(kind))
        return self.store / "blobs" / digest.replace(":", "-")

    def fault_in(self):
        """Returns a description of a missing or wrong blob; empty if all models are complete."""
        for path in self.store.glob("manifests/*/*/*/*"):
            manifest = json.loads(path.read_text())
            for layer in [*manifest["layers"], manifest["config"]]:
                blob = self.store / "blobs" / layer["digest"].replace(":", "-")
                if not blob.exists():
                    return f"{path}: {blob} is not there"
                if "sha256:" + hashlib.sha256(blob.read_bytes()).hexdigest() != layer["digest"]:
                    return f"{path}: {blob} has other bytes"
        return ""

    def models(self):
        return sorted(str(path.relative_to(self.store / "manifests")) for path in self.store.glob("manifests/*/*/*/*"))

    def leftovers(self):
        """Returns blobs that no model needs, and files of unfinished writes."""
        used = set()
        for path in self.store.glob("manifests/*/*/*/*"):
            manifest = json.loads(path.read_text())
            used |= {layer["digest"].replace(":", "-") for layer in [*manifest["layers"], manifest["config"]]}
        return sorted(path.name for path in (self.store / "blobs").iterdir() if path.name not in used)

    def age(self):
        """Makes all files of the store two hours older, so that cleanup may delete them."""
        for path in self.store.glob("blobs/*"):
            with contextlib.suppress(FileNotFoundError):
                os.utime(path, (time.time() - 2 * HOUR,) * 2)


def set_up():
    """Makes the models TINY and OTHER, and the store `prepared` with the models "slow" and "quick"."""
    global models, prepared, TINY, OTHER
    models = tempfile.TemporaryDirectory()
    made = subprocess.run([options.make_models, models.name], check=True, capture_output=True, text=True).stdout.split()
    writers = sorted(path for path in made if "llama" in path)
    TINY, OTHER = (pathlib.Path(path) for path in writers[:2])
    with Place() as place:
        server = place.server(shim=False)
        server.add_model("slow", TINY, system="slow")
        server.add_model("quick", OTHER, system="quick")
        server.stop()
        prepared = pathlib.Path(models.name) / "prepared"
        shutil.copytree(place.store, prepared)


def tear_down():
    models.cleanup()


def all_of(cases, check):
    """Runs check(case) for all cases, twelve in parallel, because they mostly wait. Raises the first failure."""
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for case, result in [(case, pool.submit(check, case)) for case in cases]:
            try:
                result.result()
            except Exception as error:
                raise AssertionError(f"case {case}: {error}") from error


def ask(server, method, path, body=None, expected=(200,)):
    status, _, text = server.request(method, path, body)
    assert status in expected, (path, body, status, text)
    return text


def check_other_requests(server):
    """Checks that the server answers all requests that do not need the model "slow"."""
    for path in ("/healthz", "/readyz", "/metrics", "/metrics/load", "/api/version", "/api/ps", "/"):
        ask(server, "GET", path)
    ask(server, "POST", "/api/generate", {"model": "quick", "prompt": "a", "options": {"num_predict": 2}, "stream": False})
    ask(server, "POST", "/api/show", {"model": "quick"})
    ask(server, "GET", "/readyz?model=quick")
    for path, body in (("/api/generate", {"model": "nothing"}), ("/api/show", {"model": "nothing"}),
                       ("/v1/chat/completions", {"model": "nothing", "messages": [{"role": "user", "content": "a"}]})):
        ask(server, "POST", path, body, (404,))
    assert "quick:latest" in [model["name"] for model in json.loads(ask(server, "GET", "/api/tags"))["models"]]
    assert "quick:latest" in [model["id"] for model in json.loads(ask(server, "GET", "/v1/models"))["data"]]
