"""Tests pictures that requests name by URL, in a network namespace whose loopback device has a public address.

picture_urls_test.py --billow PROGRAM [unittest arguments]

The model is in ../shared/data/vision. Without the folder, or without root rights, the tests are skipped.
"""

import argparse
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

from pictures import data_url
from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--in-namespace", action="store_true", help="the program has already changed to its own network")
options, rest = parser.parse_known_args()

MODELS = pathlib.Path(__file__).resolve().parents[3] / "shared/data/vision"
PUBLIC = "9.9.9.9"
SKIPPED = 77


class Files(http.server.BaseHTTPRequestHandler):
    picture = b""
    asked = []

    def do_GET(self):
        self.asked.append((self.headers["Host"], self.path))
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "http://localhost/p.png")
            self.end_headers()
            return
        self.send_response(200 if self.path == "/p.png" else 404)
        self.end_headers()
        self.wfile.write(self.picture if self.path == "/p.png" else b"nothing")

    def log_message(self, *_):
        pass


class PictureUrls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        Files.picture = (MODELS / "picture.png").read_bytes()
        files = http.server.ThreadingHTTPServer(("0.0.0.0", 80), Files)
        threading.Thread(target=files.serve_forever, daemon=True).start()
        cls.addClassCleanup(files.server_close)
        cls.addClassCleanup(files.shutdown)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.server = cls.started(folder.name, "--picture-hosts", f"{PUBLIC},localhost,127.0.0.1")

    @classmethod
    def started(cls, folder, *arguments):
        # A proxy of the environment must get nothing.
        server = Server(folder, ["--threads", "1", *arguments], program=options.billow, variables={"http_proxy": "http://127.0.0.1:9"})
        cls.addClassCleanup(server.stop)
        server.add_files("m", {"m.gguf": MODELS / "qwen2_vl.gguf", "mmproj.gguf": MODELS / "qwen2_vl.mmproj.gguf"},
                         template="{{ range .Messages }}{{ .Content }}{{ end }}")
        return server

    def setUp(self):
        Files.asked.clear()

    def chat(self, url, status=200, server=None):
        content = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": url}}]
        body = {"model": "m", "max_tokens": 4, "temperature": 0, "messages": [{"role": "user", "content": content}]}
        got, headers, text = (server or self.server).request("POST", "/v1/chat/completions", body)
        self.assertEqual(got, status, text)
        answer = json.loads(text)
        if status != 200:
            return answer["error"]["message"]
        self.id = headers["X-Request-Id"]
        return answer["choices"][0]["message"]["content"], answer["usage"]["prompt_tokens"]

    def test_picture_of_an_address_equals_its_bytes(self):
        expected = self.chat(data_url(Files.picture))
        self.assertEqual(self.chat(f"http://{PUBLIC}/p.png"), expected)
        self.assertEqual(Files.asked, [(PUBLIC, "/p.png")])
        spans = [span["name"] for span in self.server.json("GET", f"/api/trace/{self.id}")["spans"]]
        self.assertIn("fetch pictures", spans)

    def test_other_apis(self):
        url, n_tokens = f"http://{PUBLIC}/p.png", 20
        got = self.server.json("POST", "/v1/responses", {"model": "m", "max_output_tokens": 2, "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": url}]}]})
        self.assertGreaterEqual(got["usage"]["input_tokens"], n_tokens)
        got = self.server.json("POST", "/v1/messages", {"model": "m", "max_tokens": 2, "messages": [
            {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": url}}, {"type": "text", "text": "a"}]}]})
        self.assertGreaterEqual(got["usage"]["input_tokens"] + got["usage"]["cache_read_input_tokens"], n_tokens)
        self.assertEqual(Files.asked, [(PUBLIC, "/p.png")] * 2)

    def test_private_addresses_are_refused(self):
        for host in ("localhost", "127.0.0.1"):
            self.assertIn("is not a public address", self.chat(f"http://{host}/p.png", 400))
        self.assertIn("is not a public address", self.chat(f"http://{PUBLIC}/moved", 400))
        self.assertEqual(Files.asked, [(PUBLIC, "/moved")])

    def test_other_hosts_are_refused(self):
        for url in ("http://8.8.8.8/p.png", f"http://{PUBLIC}:8080/p.png", f"https://{PUBLIC}.example/p.png"):
            self.assertIn("--picture-hosts", self.chat(url, 400))
        self.assertIn("status 404", self.chat(f"http://{PUBLIC}/other.png", 400))

    def test_a_server_without_hosts_fetches_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.started(folder)
            error = self.chat(f"http://{PUBLIC}/p.png", 400, server)
            self.assertIn("image URLs are not currently supported", error)
        self.assertEqual(Files.asked, [])


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


if __name__ == "__main__":
    if not MODELS.is_dir():
        skip(f"{MODELS} does not exist")
    if not options.in_namespace:
        if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
            skip("only root can make a network namespace, with the programs unshare and ip")
        again = subprocess.run(["unshare", "--net", sys.executable, __file__, "--in-namespace", *sys.argv[1:]], check=False)
        sys.exit(again.returncode)
    for command in (["ip", "link", "set", "lo", "up"], ["ip", "address", "add", f"{PUBLIC}/32", "dev", "lo"]):
        if subprocess.run(command, check=False).returncode != 0:
            skip(f"this machine does not allow {' '.join(command)}")
    run_cases(rest)
