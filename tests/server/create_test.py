"""Tests models that the server creates from downloads, and with quantised weights: the bytes, the progress, and cleanup after an
abort.

create_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from run_cases import run_cases
from server import Server, children_of, words_of

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
options, rest = parser.parse_known_args()

LONG = 120  # timeout in seconds


def until(condition, what):
    deadline = time.monotonic() + LONG
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.002)
    return found


def write_large(path):
    """Writes a model of one matrix, whose quantisation takes at least a second."""

    def text(value):
        return struct.pack("<Q", len(value)) + value

    rows, width = 65536, 1024
    metadata = [text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama"),
                text(b"general.file_type") + struct.pack("<II", 4, 0),
                text(b"llama.block_count") + struct.pack("<II", 4, 1)]
    tensor = text(b"blk.0.ffn_down.weight") + struct.pack("<IQQIQ", 2, width, rows, 0, 0)
    header = b"GGUF" + struct.pack("<IQQ", 3, 1, len(metadata)) + b"".join(metadata) + tensor
    values = struct.pack("<256f", *((i * 37 % 101 - 50) / 50 for i in range(256)))
    with path.open("wb") as file:
        file.write(header + bytes(-len(header) % 32))
        for _ in range(rows):
            file.write(values * (width // 256))


def digest_of(path):
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


class Made(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        subprocess.run([options.make_models, str(self.folder)], check=True, stdout=subprocess.DEVNULL)
        self.source = self.folder / "llama-wide-heads.gguf"
        self.server = Server(self.folder, ["--threads", "1"], program=options.billow)
        self.addCleanup(lambda: self.server.process.poll() is None and self.server.stop())

    def upload(self):
        digest = digest_of(self.source)
        self.assertEqual(self.server.request("POST", "/api/blobs/" + digest, self.source.read_bytes())[0], 201)
        return digest

    def expected(self, kind):
        out = self.folder / f"expected-{kind}.gguf"
        subprocess.run([options.billow, "quantize", str(self.source), str(out), kind], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return digest_of(out)

    def weights(self, name):
        return "sha256:" + self.server.blob(name).name.removeprefix("sha256-")

    def blobs(self):
        return sorted(path.name for path in (self.server.models / "blobs").iterdir())


class Quantized(Made):
    def workers(self):
        """Returns the server's processes that quantise."""
        return [pid for pid in children_of(self.server.process.pid) if b"quantize" in words_of(pid)]

    def test_weights_equal_billow_quantize(self):
        digest = self.upload()
        for kind in ("Q4_K_M", "q8_0", "IQ4_NL"):
            lines = self.server.lines("/api/create", {"model": kind.lower(), "files": {"m.gguf": digest}, "quantize": kind, "keep_files": True})
            self.assertEqual(lines[-1], {"status": "success"})
            self.assertTrue(any(line["status"] == f"quantizing model to {kind}" and line["completed"] == line["total"]
                                for line in lines if "total" in line), lines)
            self.assertEqual(self.weights(kind.lower()), self.expected(kind))
            shown = self.server.json("POST", "/api/show", {"model": kind.lower()})
            self.assertEqual(shown["details"]["quantization_level"], kind.upper())
            answer = self.server.json("POST", "/api/generate", {"model": kind.lower(), "prompt": "7", "stream": False, "raw": True,
                                                                "options": {"num_predict": 2}})
            self.assertEqual(answer["eval_count"], 2)

    def test_model_is_made_from_another(self):
        self.server.json("POST", "/api/create", {"model": "wide", "files": {"m.gguf": self.upload()}, "stream": False, "system": "S"})
        self.server.json("POST", "/api/create", {"model": "small", "from": "wide", "quantize": "Q4_0", "stream": False})
        self.assertEqual(self.weights("small"), self.expected("Q4_0"))
        self.assertEqual(self.server.json("POST", "/api/show", {"model": "small"})["system"], "S")
        status, _, body = self.server.request("POST", "/api/create", {"model": "x", "from": "small", "quantize": "Q8_0", "stream": False})
        self.assertEqual(status, 400, body)
        self.assertIn(b"this one is in Q4_0", body)

    def test_command_creates_quantized_model(self):
        (self.folder / "Modelfile").write_text(f"FROM {self.source}\n")
        done = subprocess.run([options.billow, "create", "m", "-f", str(self.folder / "Modelfile"), "-q", "q5_K_S"], env=self.server.environment,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.weights("m"), self.expected("Q5_K_S"))
        self.assertNotIn(digest_of(self.source).replace(":", "-"), self.blobs(), "the unused upload was not deleted")

    def test_unquantizable_models_are_refused_and_leave_nothing(self):
        subprocess.run([options.make_models, str(self.folder), "--to-serve"], check=True, stdout=subprocess.DEVNULL)
        self.source = self.folder / "writer.gguf"  # its matrices are in Q8_0
        digest = self.upload()
        status, _, body = self.server.request("POST", "/api/create", {"model": "x", "files": {"m.gguf": digest}, "quantize": "Q4_0",
                                                                      "stream": False})
        self.assertEqual(status, 400, body)
        self.assertIn(b"Q8_0", body)
        self.assertNotIn(str(self.server.models).encode(), body)
        self.assertEqual(self.blobs(), [])

    def stopped(self):
        """Sends a request and stops its process. Returns the connection and the process id."""
        self.source = self.folder / "large.gguf"
        write_large(self.source)
        digest = self.upload()
        client = socket.create_connection(("127.0.0.1", self.server.port))
        body = json.dumps({"model": "x", "files": {"m.gguf": digest}, "quantize": "Q4_K_M", "keep_files": True}).encode()
        client.sendall(b"POST /api/create HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

        def stop_worker():
            for pid in self.workers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    return pid
            return None

        return client, until(stop_worker, "no process quantises the model")

    def test_client_disconnect_ends_the_work(self):
        client, pid = self.stopped()
        client.close()
        until(lambda: pid not in self.workers(), "the process still runs")
        until(lambda: self.blobs() == [digest_of(self.source).replace(":", "-")], "something is left")

    def test_dead_process_fails_the_request(self):
        client, pid = self.stopped()
        os.kill(pid, signal.SIGKILL)
        client.settimeout(LONG)
        text = b""
        while b"error" not in text:
            more = client.recv(65536)
            self.assertTrue(more, text)
            text += more
        client.close()
        self.assertIn(b"signal 9", text)
        until(lambda: self.blobs() == [digest_of(self.source).replace(":", "-")], "something is left")


class Web(http.server.BaseHTTPRequestHandler):
    """A file server with ranges. It cuts off the first answer for each file in the middle."""

    protocol_version = "HTTP/1.1"
    files = {}
    seen = []

    def log_message(self, *_):
        pass

    def do_GET(self):
        data = self.files.get(self.path.split("?")[0])
        if data is None:
            self.send_error(404)
            return
        begin = 0
        if given := self.headers.get("Range"):
            begin = int(given.removeprefix("bytes=").removesuffix("-"))
        is_first = self.path not in self.seen
        self.seen.append(self.path)
        self.send_response(206 if begin else 200)
        self.send_header("ETag", '"1"')
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        rest = data[begin:]
        if is_first:
            self.wfile.write(rest[:len(rest) // 2])
            self.close_connection = True
            return
        self.wfile.write(rest)


class FromTheWeb(Made):
    def setUp(self):
        super().setUp()
        Web.files = {"/a/x.gguf": self.source.read_bytes(), "/page.gguf": b"<html>"}
        Web.seen = []
        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        self.addCleanup(web.server_close)
        self.addCleanup(web.shutdown)
        self.url = f"http://127.0.0.1:{web.server_port}"

    def run_model(self, *words):
        return subprocess.run([options.billow, "run", *words], env=self.server.environment, stdin=subprocess.DEVNULL, capture_output=True,
                              check=False)

    def test_run_downloads_the_file_once(self):
        for _ in range(2):
            done = self.run_model(self.url + "/a/x.gguf?download=true", "7 7 7")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(Web.seen), 2, "one answer was cut off, the next one had the rest")
        models = [model["name"] for model in self.server.json("GET", "/api/tags")["models"]]
        self.assertEqual(len(models), 1)
        self.assertRegex(models[0], "^web/x:[0-9a-f]{12}$")
        self.assertEqual(self.blobs().count(digest_of(self.source).replace(":", "-")), 1)

    def test_modelfile_may_name_url_and_type(self):
        (self.folder / "Modelfile").write_text(f"FROM {self.url}/a/x.gguf\nSYSTEM S\n")
        done = subprocess.run([options.billow, "create", "m", "-f", str(self.folder / "Modelfile"), "-q", "q8_0"], env=self.server.environment,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"pulling x.gguf", done.stderr)
        self.assertEqual(self.weights("m"), self.expected("Q8_0"))

    def test_invalid_downloads_are_refused_and_leave_nothing(self):
        for path, what in (("/page.gguf", b"not a GGUF file"), ("/none.gguf", b"there is no such file")):
            done = self.run_model(self.url + path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(what, done.stderr)
            errors = [line for line in re.split(rb"[\r\n]", done.stderr) if b"error" in line]
            self.assertEqual(len(errors), 1, done.stderr)
            self.assertTrue(done.stderr.strip().endswith(errors[0].strip()), "nothing follows the error")
        self.assertEqual(self.blobs(), [])


if __name__ == "__main__":
    run_cases(rest)
