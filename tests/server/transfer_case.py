"""Shared code of tests of pulls and pushes: servers with their own home and store, and models of random bytes."""

import argparse
import contextlib
import hashlib
import os
import pathlib
import random
import re
import signal
import sys
import tempfile
import time
import unittest

import registry as registries
from run_cases import run_cases
from server import Server

options = None
SKIPPED = 77
UNFINISHED = re.compile("-partial(-[0-9]+)?$|-writing-[0-9]+$")


def program():
    return options.billow.resolve()


def main(add_options=lambda parser: None, needs_registry=True):
    """Runs the tests of the main module. Never returns."""
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument("--billow", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    add_options(parser)
    options, rest = parser.parse_known_args()
    if needs_registry and not pathlib.Path(registries.PROGRAM).exists():
        print("skipped: docker-registry is not installed")
        sys.exit(SKIPPED)
    print("seed:", options.seed)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    run_cases(rest)


MB = 1_000_000


def random_gguf(n_bytes, seed=0):
    """Returns a GGUF file without tensors, followed by random bytes."""
    header = b"GGUF" + (3).to_bytes(4, "little") + (0).to_bytes(8, "little") + (1).to_bytes(8, "little")
    key, value = b"general.architecture", b"llama"
    header += len(key).to_bytes(8, "little") + key + (8).to_bytes(4, "little") + len(value).to_bytes(8, "little") + value
    piece = random.Random(seed).randbytes(min(n_bytes, 64 * MB))
    return (header + piece * (n_bytes // len(piece) + 1))[:n_bytes]


def completed(lines):
    """Returns the digests that were reported as complete, in order. Drops repetitions, which come while the checksum is computed."""
    return list(dict.fromkeys(line["digest"] for line in lines if line.get("completed") == line.get("total", 0)))


class Place:
    """A server with its own home and store."""

    def __init__(self, folder, variables=None):
        self.folder = pathlib.Path(folder)
        self.home = self.folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.variables = {"HOME": str(self.home), "no_proxy": "*", **(variables or {})}
        self.server = None
        self.start()

    def start(self):
        self.server = Server(self.folder, program=str(program()), variables=self.variables)

    def make(self, name, content):
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        status = self.server.request("POST", "/api/blobs/" + digest, content)[0]
        assert status in (200, 201), status
        self.server.json("POST", "/api/create", {"model": name, "files": {"m.gguf": digest}, "system": "s", "stream": False})

    def transfer(self, kind, name, **fields):
        """Returns the lines of the answer."""
        return self.server.lines("/api/" + kind, {"model": name, **fields})

    def last(self, kind, name, **fields):
        line = self.transfer(kind, name, **fields)[-1]
        return line.get("error") or line["status"]

    def files(self):
        """Returns name and checksum of every file of the store."""
        files = {}
        for path in sorted(self.server.models.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # the server may remove what an ended pull has left
                if path.is_file() and path.name != ".billow-lock":
                    files[str(path.relative_to(self.server.models))] = hashlib.sha256(path.read_bytes()).hexdigest()
        return files

    def unsound(self):
        """Returns blobs whose bytes do not match their names. Files of unfinished downloads are no blobs."""
        return [name for name, found in self.files().items()
                if name.startswith("blobs/sha256-") and not UNFINISHED.search(name) and name != "blobs/sha256-" + found]

    def delete(self, name):
        status, _, text = self.server.request("DELETE", "/api/delete", {"model": name})
        assert status == 200, text

    def models(self):
        return [model["name"] for model in self.server.json("GET", "/api/tags")["models"]]

    def kill(self):
        self.server.process.kill()
        self.server.process.wait()

    def stop(self):
        if self.server.process.poll() is None:
            self.server.stop()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def place(self, name, variables=None):
        place = Place(self.folder / name, variables)
        self.addCleanup(lambda: place.stop())
        return place

    def registry(self, **arguments):
        registry = registries.Registry(self.folder / "registry", **arguments)
        self.addCleanup(registry.stop)
        return registry
