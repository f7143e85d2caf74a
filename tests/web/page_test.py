"""Tests the web page in Chromium with a real `billow serve`: starts the servers and a registry, and runs page.mjs.

  page_test.py --billow PROGRAM --make-models PROGRAM --node PROGRAM --output FOLDER [NAME...]

page.mjs has the cases. For actions that a page cannot do, it sends POST /NAME to a control server in this program: to kill the server,
to start it again, to kill a model's process, to fill a queue.
"""

import argparse
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "server"))

from scripted_registry import ScriptedRegistry, digest_of  # noqa: E402
from server import Server  # noqa: E402

SKIPPED = 77
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
QUEUE = 2  # requests that may wait at the narrow server
MODEL = "application/vnd.ollama.image.model"


class SlowRegistry(ScriptedRegistry):
    """Sends blobs slowly, in pieces, while `slow` is set. Keeps the last piece until it is not."""

    slow = True

    def answer_as_registry(self, request):
        whole = super().answer_as_registry(request)
        if not self.slow or "/blobs/" not in request.path or not isinstance(whole, bytes):
            return whole
        return self.pieces(whole)

    def pieces(self, whole):
        step = len(whole) // 24 + 1
        for at in range(0, len(whole), step):
            while self.slow and at > 0 and at + step >= len(whole):
                time.sleep(0.05)
            yield whole[at:at + step]
            time.sleep(0.25)


class Stage:
    """The servers that the cases run against."""

    def __init__(self, options, folder):
        made = folder / "gguf"
        made.mkdir()
        subprocess.run([options.make_models, made, "--to-serve"], check=True, stdout=subprocess.DEVNULL)
        self.main = Server(self.place(folder / "main"), program=options.billow)
        self.narrow = Server(self.place(folder / "narrow"), ("--parallel", "1", "--max-queue", str(QUEUE)), program=options.billow)
        self.bare = Server(self.place(folder / "bare"), ("--read-only",), program=options.billow)
        keys = folder / "keys.toml"
        self.key = subprocess.run([options.billow, "keys", "add", "page", "--roles", "use,manage,observe", "--file", keys],
                                  check=True, capture_output=True, text=True).stdout.strip()
        self.locked = Server(self.place(folder / "locked"), ("--api-keys", str(keys)), program=options.billow)
        for server in (self.main, self.narrow):
            server.add_model("writer", made / "writer.gguf", parameters={"num_predict": 48, "seed": 7, "temperature": 0.8})
        self.main.add_model("other", made / "large.gguf", parameters={"num_predict": 24, "seed": 7})
        self.main.add_model("vectors", made / "encoder.gguf")
        self.main.add_model("ranker", made / "ranker.gguf")
        self.tiny = made / "writer.gguf"
        weights = self.tiny.read_bytes() + b"other weights"  # unique weights: models with the same weights are loaded under one name
        self.registry = SlowRegistry()
        self.registry.blobs = {digest_of(weights): weights, digest_of(b"{}"): b"{}"}
        layer = {"mediaType": MODEL, "digest": digest_of(weights), "size": len(weights)}
        self.registry.manifests["a/small:latest"] = {
            "schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {"mediaType": "config", "digest": digest_of(b"{}"), "size": 2}, "layers": [layer]}
        self.held = []  # connections

    @staticmethod
    def place(folder):
        folder.mkdir(parents=True)
        return folder

    # The actions that page.mjs can request.

    def kill(self):
        self.main.process.kill()  # its runners end by themselves
        self.main.process.wait()

    def start(self):
        with self.main.log.open("ab") as log:
            self.main.process = subprocess.Popen([self.main.program, "serve"], env=self.main.environment, stderr=log)
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(self.main.url + "/healthz", timeout=5).read()
                return
            except OSError:
                assert time.monotonic() < deadline, "the server does not come back"
                time.sleep(0.05)

    def crash(self):
        for pid in self.main.runners():
            os.kill(pid, signal.SIGKILL)

    def fill(self):
        """Fills the narrow server until empty(): one request runs, and the queue is full."""
        self.occupy(QUEUE)

    def line(self):
        """Gives the narrow server work until empty(): one request runs, and one waits."""
        self.occupy(1)

    def occupy(self, n_waiting):
        long = {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{4,12}$"}, "minItems": 9000}
        body = json.dumps({"model": "writer", "prompt": "1 2 3", "format": long, "options": {"num_predict": 60000}}).encode()
        head = f"POST /api/generate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        deadline = time.monotonic() + 120
        for n in range(1 + n_waiting):
            connection = socket.create_connection(("127.0.0.1", self.narrow.port))
            connection.sendall(head.encode() + body)
            self.held.append(connection)
            while not self.has_taken(n):
                assert time.monotonic() < deadline, "the narrow server does not fill"
                time.sleep(0.05)

    def has_taken(self, n_waiting):
        memory = self.narrow.json("GET", "/api/memory")
        return memory["waiting"] >= n_waiting and any(model["running"] for model in memory["models"])

    def empty(self):
        while self.held:
            self.held.pop().close()

    def work(self):
        """Lets two models of the main server answer one request each."""
        for path, body in (("/api/generate", {"model": "writer", "prompt": "1 2 3", "stream": False}),
                           ("/api/embed", {"model": "vectors", "input": ["one text", "another one"]})):
            request = urllib.request.Request(self.main.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            urllib.request.urlopen(request, timeout=60).read()

    def fast(self):
        self.registry.slow = False

    def stop(self):
        self.empty()
        for server in (self.main, self.narrow, self.bare, self.locked):
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()
        self.registry.stop()


def serve_controls(stage):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            name = self.path.strip("/")
            assert name in ("kill", "start", "crash", "fill", "line", "empty", "fast", "work"), name
            getattr(stage, name)()
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def main():
    parser = argparse.ArgumentParser()
    for name in ("--billow", "--make-models", "--node", "--output"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.billow = str(options.billow.resolve())
    if not pathlib.Path(CHROMIUM).exists():
        print("skipped: chromium is not installed")
        return SKIPPED
    shutil.rmtree(options.output, ignore_errors=True)
    options.output.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(options, pathlib.Path(folder))
        try:
            setting = {"main": stage.main.url, "narrow": stage.narrow.url, "bare": stage.bare.url, "locked": stage.locked.url, "key": stage.key, "control": serve_controls(stage),
                       "registry": stage.registry.host, "chromium": CHROMIUM, "output": str(options.output.resolve()), "names": options.names}
            done = subprocess.run([options.node, HERE / "page.mjs", json.dumps(setting)], check=False,
                                  env={**os.environ, "BILLOW_TINY_GGUF": str(stage.tiny)})
            if done.returncode != 0:
                for server in (stage.main, stage.narrow):
                    print(server.log.read_text()[-3000:])
                faults = options.output / "faults.txt"
                print(faults.read_text() if faults.exists() else "no case has failed, but the browser or node has")  # again, after the logs
            return done.returncode
        finally:
            stage.stop()


if __name__ == "__main__":
    sys.exit(main())
