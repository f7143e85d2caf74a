"""A running `billow serve` for tests, with its own store.

BILLOW_PROGRAM is the program; BILLOW_TEST_MODELS has the real models.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

MODELS = pathlib.Path(os.environ.get("BILLOW_TEST_MODELS", "~/.cache/billow/models")).expanduser()
WEIGHTS = MODELS / "smollm2-135m-q4_1.gguf"
# Nothing listens at this address, so tests use only their own registries.
NO_REGISTRY = "http://127.0.0.1:9"


def is_running(pid):
    """Returns whether a process has not ended yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid):
    """Returns the process ids of the children of a process."""
    found = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # the thread has just ended
            found |= {int(child) for child in pathlib.Path(f"/proc/{pid}/task/{thread}/children").read_text().split()}
    return sorted(found)


def words_of(pid):
    """Returns the command line of a process; [] if it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


class Server:
    """A running `billow serve`."""

    def __init__(self, folder, arguments=(), program=None, host="127.0.0.1", variables=None, prefix=(), port=0):
        """`port` is 0 for a free port."""
        # The bound socket keeps the port from other programs until the server listens on it.
        with socket.socket() as place:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            place.bind(("127.0.0.1", port))
            self.port = place.getsockname()[1]
            self.url = f"http://127.0.0.1:{self.port}"
            self.models = pathlib.Path(folder) / "models"
            self.log = pathlib.Path(folder) / "log"
            self.environment = {**os.environ, "OLLAMA_HOST": f"{host}:{self.port}", "OLLAMA_MODELS": str(self.models),
                                "BILLOW_REGISTRY_MIRROR": NO_REGISTRY, **(variables or {})}
            self.program = program or os.environ["BILLOW_PROGRAM"]
            with self.log.open("ab") as log:
                self.process = subprocess.Popen([*prefix, self.program, "serve", *arguments], env=self.environment, stderr=log)
            self.wait_until_it_answers()

    def wait_until_it_answers(self):
        deadline = time.monotonic() + 300
        while True:
            try:
                urllib.request.urlopen(self.url + "/healthz", timeout=5).read()
                return
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.01)

    def wait_for_log(self, text):
        """Waits until the log contains a text. Lines of runners and of answered requests may come after the answer. Returns the log."""
        deadline = time.monotonic() + 60
        while text not in (log := self.log.read_text()):
            assert time.monotonic() < deadline, f"the log has no {text!r}:\n{log}"
            time.sleep(0.02)
        return log

    def request(self, method, path, body=None, headers=None):
        """Returns the status, headers and body of an answer, also of an error."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers or {})
        try:
            answer = urllib.request.urlopen(request, timeout=1100)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return answer.status, answer.headers, answer.read()

    def json(self, method, path, body=None):
        status, _, text = self.request(method, path, body)
        assert status == 200, text
        return json.loads(text)

    def lines(self, path, body):
        status, _, text = self.request("POST", path, body)
        assert status == 200, text
        return [json.loads(line) for line in text.splitlines()]

    def add_model(self, name, path=WEIGHTS, **fields):
        self.add_files(name, {path.name: path}, **fields)

    def add_files(self, name, paths, **fields):
        """Adds a model of several files, such as a model and its projector."""
        files = {file: self.upload(path) for file, path in paths.items()}
        self.json("POST", "/api/create", {"model": name, "files": files, "stream": False, **fields})

    def upload(self, path):
        """Uploads a file as a blob. Returns its digest."""
        with path.open("rb") as blob:
            digest = "sha256:" + hashlib.file_digest(blob, "sha256").hexdigest()
        if self.request("HEAD", "/api/blobs/" + digest)[0] != 200:
            with path.open("rb") as blob:
                assert self.request("POST", "/api/blobs/" + digest, blob.read())[0] == 201
        return digest

    def blob(self, name):
        """Returns the path of a model's GGUF file."""
        manifest = self.models / "manifests/registry.ollama.ai/library" / name / "latest"
        layers = json.loads(manifest.read_text())["layers"]
        digest = next(layer["digest"] for layer in layers if layer["mediaType"].endswith("image.model"))
        return self.models / "blobs" / digest.replace(":", "-")

    def runners(self):
        """Returns the process ids of the children that serve models. A runner that only describes a file has no socket."""
        return [pid for pid in children_of(self.process.pid) if {b"runner", b"--socket"} <= set(words_of(pid))]

    def kill(self):
        """Kills the server. Its runners notice that and end, too."""
        children = children_of(self.process.pid)
        self.process.kill()
        self.process.wait()
        deadline = time.monotonic() + 60
        while any(is_running(pid) for pid in children):
            assert time.monotonic() < deadline, "a runner outlives its server"
            time.sleep(0.01)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode
