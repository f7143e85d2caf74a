"""Pulling and pushing against Debian's docker-registry: plain, with TLS, with tokens, and behind a proxy that makes mistakes.

  registry_test.py --billow PROGRAM [--pulls N] [NAME...]
"""

import argparse
import base64
import hashlib
import http.client
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import registry as registries
from server import Server

options = None

MB = 1_000_000


def random_gguf(n_bytes, seed=0):
    """A file that begins as a GGUF file of no tensors; what stands behind is of no concern."""
    header = b"GGUF" + (3).to_bytes(4, "little") + (0).to_bytes(8, "little") + (1).to_bytes(8, "little")
    key, value = b"general.architecture", b"llama"
    header += len(key).to_bytes(8, "little") + key + (8).to_bytes(4, "little") + len(value).to_bytes(8, "little") + value
    return header + random.Random(seed).randbytes(n_bytes - len(header))


def completed(lines):
    """The digests of what was reported as complete, in order; some are more than once, as their sum is computed meanwhile."""
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
        self.server = Server(self.folder, program=str(options.billow.resolve()), variables=self.variables)

    def make(self, name, content):
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        status = self.server.request("POST", "/api/blobs/" + digest, content)[0]
        assert status in (200, 201), status
        self.server.json("POST", "/api/create", {"model": name, "files": {"m.gguf": digest}, "system": "s", "stream": False})

    def transfer(self, kind, name, **fields):
        """The lines of the answer."""
        return self.server.lines("/api/" + kind, {"model": name, **fields})

    def last(self, kind, name, **fields):
        line = self.transfer(kind, name, **fields)[-1]
        return line.get("error") or line["status"]

    def files(self):
        """Name and sum of every file of the store."""
        files = {}
        for path in sorted(self.server.models.rglob("*")):
            if path.is_file() and path.name != ".billow-lock":
                files[str(path.relative_to(self.server.models))] = hashlib.sha256(path.read_bytes()).hexdigest()
        return files

    def unsound(self):
        """Blobs whose bytes are others than their names say."""
        return [name for name, found in self.files().items()
                if name.startswith("blobs/sha256-") and "partial" not in name and name != "blobs/sha256-" + found]

    def delete(self, name):
        status, _, text = self.server.request("DELETE", "/api/delete", {"model": name})
        assert status == 200, text

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


class Transfers(Case):
    def test_a_model_comes_back_byte_for_byte(self):
        registry = self.registry()
        here = self.place("here")
        content = random_gguf(3 * MB)
        here.make("m", content)
        name = registry.host + "/me/m:1"
        here.server.request("POST", "/api/copy", {"source": "m", "destination": name})
        here.delete("m")
        before = here.files()
        lines = here.transfer("push", name, insecure=True)
        self.assertEqual(lines[0], {"status": "retrieving manifest"})
        self.assertEqual(lines[-2:], [{"status": "pushing manifest"}, {"status": "success"}])
        manifest = json.loads((here.server.models / "manifests" / registry.host / "me/m/1").read_text())
        digests = [layer["digest"] for layer in [*manifest["layers"], manifest["config"]]]
        self.assertEqual(completed(lines), digests)
        here.delete(name)
        self.assertEqual(here.files(), {})
        lines = here.transfer("pull", name, insecure=True)
        self.assertEqual([line["status"] for line in lines if "digest" not in line],
                         ["pulling manifest", "verifying sha256 digest", "writing manifest", "success"])
        self.assertEqual(completed(lines), digests)
        self.assertEqual(here.files(), before)
        there = self.place("there")
        self.assertEqual(there.server.json("POST", "/api/pull", {"model": name, "insecure": True, "stream": False}), {"status": "success"})
        self.assertEqual(there.files(), before)

    def test_from_a_model_that_is_not_there_pulls_it(self):
        registry = self.registry()
        here = self.place("here")
        here.make("m", random_gguf(MB))
        # A mirror is asked for models of the default registry.
        there = self.place("there", {"BILLOW_REGISTRY_MIRROR": registry.url})
        mirrored = self.place("mirrored", {"BILLOW_REGISTRY_MIRROR": registry.url + "/"})
        mirrored.make("m", random_gguf(MB))
        self.assertEqual(mirrored.last("push", "m"), "success")
        steps = [line["status"] for line in there.server.lines("/api/create", {"model": "made", "from": "m", "system": "mine"})]
        self.assertEqual((steps[0], steps[-1]), ("pulling manifest", "success"))
        self.assertEqual(there.server.json("POST", "/api/show", {"model": "made"})["system"], "mine")
        self.assertEqual(sorted(model["name"] for model in there.server.json("GET", "/api/tags")["models"]), ["m:latest", "made:latest"])

    def test_what_is_wrong_is_said(self):
        registry = self.registry()
        here = self.place("here")
        self.assertEqual(here.last("pull", registry.host + "/me/none", insecure=True), "pull model manifest: file does not exist")
        self.assertRegex(here.last("pull", registry.host + "/me/none"), "--insecure")
        self.assertEqual(here.last("push", registry.host + "/me/none", insecure=True),
                         f"model '{registry.host}/me/none:latest' not found")
        registry.stop()
        self.assertRegex(here.last("pull", registry.host + "/me/none", insecure=True), "Failed to connect|refused")
        self.assertEqual(here.files(), {})

    def test_tls_needs_a_certificate_that_is_trusted(self):
        certificate = registries.make_certificate(self.folder)
        registry = self.registry(tls=certificate)
        name = registry.host + "/me/m"
        stranger = self.place("stranger")
        stranger.make(name, random_gguf(MB))
        self.assertRegex(stranger.last("push", name), "certificate")
        here = self.place("here", {"SSL_CERT_FILE": str(certificate[0])})
        here.make(name, random_gguf(MB))
        self.assertEqual(here.last("push", name), "success")
        before = here.files()
        here.delete(name)
        self.assertEqual(here.last("pull", name), "success")
        self.assertEqual(here.files(), before)

    def test_tokens_are_asked_for_with_the_users_key(self):
        tokens = registries.TokenServer(self.folder / "tokens")
        self.addCleanup(tokens.stop)
        registry = self.registry(token_server=tokens)
        here = self.place("here")
        name = registry.host + "/me/m"
        here.make(name, random_gguf(MB))
        self.assertRegex(here.last("push", name, insecure=True), "unauthorized: access denied")
        self.assertEqual(tokens.refusals[-1], "unknown key")
        key = (here.home / ".ollama/id_ed25519.pub").read_text().split()
        self.assertEqual(key[0], "ssh-ed25519")
        self.assertEqual((here.home / ".ollama/id_ed25519").stat().st_mode & 0o777, 0o600)
        tokens.known_keys.add(key[1])
        self.assertEqual(here.last("push", name, insecure=True), "success")
        before = here.files()
        here.delete(name)
        self.assertEqual(here.last("pull", name, insecure=True), "success")
        self.assertEqual(here.files(), before)
        self.assertNotIn("wrong signature", tokens.refusals)

    def test_passwords_are_those_of_docker(self):
        registry = self.registry(has_password=True)
        here = self.place("here")
        name = registry.host + "/me/m"
        here.make(name, random_gguf(MB))
        self.assertRegex(here.last("push", name, insecure=True), "the registry wants a password; 'docker login ")
        config = here.home / ".docker/config.json"
        config.parent.mkdir()
        config.write_text(json.dumps({"auths": {registry.host: {"auth": base64.b64encode(b"me:wrong").decode()}}}))
        self.assertRegex(here.last("push", name, insecure=True), "unauthorized: access denied")
        config.write_text(json.dumps({"auths": {registry.host: {"auth": base64.b64encode(b"me:secret").decode()}}}))
        self.assertEqual(here.last("push", name, insecure=True), "success")
        before = here.files()
        here.delete(name)
        self.assertEqual(here.last("pull", name, insecure=True), "success")
        self.assertEqual(here.files(), before)

    def test_tokens_that_expire_are_renewed(self):
        tokens = registries.TokenServer(self.folder / "tokens", life=-65)  # docker-registry allows for a minute
        self.addCleanup(tokens.stop)
        registry = self.registry(token_server=tokens)
        here = self.place("here")
        here.make(registry.host + "/me/m", random_gguf(MB))
        self.assertIn("unauthorized", here.last("push", registry.host + "/me/m", insecure=True))
        tokens.known_keys.add((here.home / ".ollama/id_ed25519.pub").read_text().split()[1])
        self.assertIn("unauthorized", here.last("push", registry.host + "/me/m", insecure=True))
        tokens.life = 60
        self.assertEqual(here.last("push", registry.host + "/me/m", insecure=True), "success")


class Faults(Case):
    """Pulls through a proxy that makes mistakes: each ends complete, or can be resumed."""

    def setUp(self):
        super().setUp()
        origin = self.registry()
        self.proxy = registries.FaultyProxy(origin, options.seed)
        self.addCleanup(self.proxy.stop)
        self.name = self.proxy.host + "/me/m"
        self.content = random_gguf(options.megabytes * MB, 1)
        here = self.place("here")
        here.make(self.name, self.content)
        self.assertEqual(here.last("push", self.name, insecure=True), "success")
        self.whole = here.files()
        here.stop()
        self.there = self.place("there")
        self.random = random.Random(options.seed)

    def pull_until_done(self, kill):
        """How many attempts it took."""
        for attempt in range(1, 60):
            killer = None
            if kill:
                killer = threading.Timer(self.random.uniform(0.02, 0.4), self.there.kill)
                killer.start()
            try:
                told = self.there.last("pull", self.name, insecure=True)
            except (OSError, ValueError, http.client.HTTPException):
                told = "the server was killed"
            if killer:
                killer.cancel()
                killer.join()
                if self.there.server.process.poll() is not None:
                    self.assertEqual(self.there.unsound(), [])
                    self.there.start()
            self.assertEqual(self.there.unsound(), [])
            if told == "success":
                return attempt
            models = [model["name"] for model in self.there.server.json("GET", "/api/tags")["models"]]
            self.assertEqual(models, [], told)
        self.fail("the pull never ended: " + told)

    def test_pulls_end_complete(self):
        n_wanted = n_sent = 0
        for i in range(options.pulls):
            kinds = [kind for kind in ("cut", "refuse", "redirect", "damage") if self.random.random() < 0.5]
            self.proxy.faults = kinds
            self.proxy.n_sent = 0
            with self.subTest(i=i, faults=kinds):
                self.pull_until_done(kill=self.random.random() < 0.3)
                self.assertEqual(self.there.files(), self.whole)
                if "damage" not in kinds:  # else the whole file is fetched again
                    n_wanted += len(self.content)
                    n_sent += self.proxy.n_sent
                self.there.delete(self.name)
                self.assertEqual(self.there.files(), {})
        print(f"faults: {self.proxy.n_faults}; {n_sent / max(n_wanted, 1) - 1:.1%} of the bytes came twice")
        # A crash loses a megabyte of each part, and what stands in buffers.
        self.assertLess(n_sent, n_wanted * (1.05 if options.megabytes >= 64 else 2) + 1)

    def test_a_connection_that_stalls_is_given_up(self):
        self.proxy.faults = ("stall",)
        self.proxy.share = 0.3
        self.assertLessEqual(self.pull_until_done(kill=False), 3)
        self.assertEqual(self.there.files(), self.whole)

    def test_a_disk_without_room_is_an_error_and_the_rest_comes_later(self):
        small = pathlib.Path(tempfile.mkdtemp())
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "none", small], capture_output=True).returncode != 0:
            self.skipTest("a small file system cannot be mounted here")
        self.addCleanup(lambda: (subprocess.run(["umount", "-l", small]), small.rmdir()))
        place = Place(small, {"HOME": str(self.folder)})
        self.addCleanup(place.stop)
        told = place.last("pull", self.name, insecure=True)
        self.assertRegex(told, "the disk has .* left")
        self.assertEqual(self.proxy.n_sent, 0)
        subprocess.run(["mount", "-o", "remount,size=40m", small], check=True)
        self.assertEqual(place.last("pull", self.name, insecure=True), "success")
        self.assertEqual(place.unsound(), [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--billow", type=pathlib.Path, required=True)
    parser.add_argument("--pulls", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=8, help="the size of the model that is pulled among faults")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options, rest = parser.parse_known_args()
    if not pathlib.Path(registries.PROGRAM).exists():
        print("skipped: docker-registry is not installed")
        sys.exit(77)
    print("seed:", options.seed)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    unittest.main(argv=[sys.argv[0], *rest])
