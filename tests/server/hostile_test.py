"""Tests hostile clients: they get the specified answers, the server writes only to the store, and it survives.

hostile_test.py --billow PROGRAM [--without-model]
"""

import argparse
import http.client
import json
import os
import pathlib
import signal
import socket
import tempfile
import threading
import time
import unittest

from run_cases import run_cases
from server import WEIGHTS, Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--without-model", action="store_true", help="only tests that a slow build can pass")
options, rest = parser.parse_known_args()
HAS_MODEL = WEIGHTS.exists() and not options.without_model
NO_MODEL = "--without-model" if options.without_model else f"no model at {WEIGHTS}"


def raw(server, data, close_sending=False):
    """Returns the answer to these bytes, until it is complete or the server closes the connection. A silent server is an error."""
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        try:
            connection.sendall(data)
            if close_sending:
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                answer += part
                if b"\r\n\r\n" in answer and b"chunked" not in answer:
                    head, body = answer.split(b"\r\n\r\n", 1)
                    length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                    if length and len(body) >= int(length[0].split(b":")[1]):
                        break
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has closed the connection before it had read everything
    return answer


def post(path, body, headers=b""):
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n%s" % (
        path.encode(), len(body), headers, body)


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(cls.folder.name, program=str(pathlib.Path(options.billow).resolve()))
        if HAS_MODEL:
            cls.server.add_model("m")

    @classmethod
    def tearDownClass(cls):
        before = sorted(str(path.relative_to(cls.folder.name)) for path in pathlib.Path(cls.folder.name).glob("*"))
        code = cls.server.stop()
        cls.folder.cleanup()
        assert code == 0 and before == ["log", "models"], (code, before)

    def tearDown(self):
        self.assertEqual(self.server.request("GET", "/healthz")[0], 200, "the server is unhealthy after the test")

    def test_malformed_json(self):
        for path in ("/api/generate", "/api/chat", "/api/embed", "/api/show", "/api/create", "/api/copy",
                     "/v1/chat/completions", "/v1/completions", "/v1/embeddings"):
            for body in (b"{", b"[]", b"nonsense", b"\xff\xfe", b'{"model":1}', b'{"model":"\xc3\x28"}',
                         b"[" * 100000, b'{"a":' * 5000 + b"1" + b"}" * 5000):
                status, _, text = self.server.request("POST", path, body)
                self.assertIn(status, (400, 404), (path, body[:30], text))
                self.assertIn("error", json.loads(text), (path, body[:30]))

    def test_names_with_path_traversal(self):
        for name in ("../../etc/passwd", "/etc/passwd", "a/../../b", "..", "m:../x", "%2e%2e/x", "x" * 5000, "a\x00b"):
            for path, field in (("/api/generate", "model"), ("/api/show", "model"), ("/api/delete", "model"),
                                ("/api/copy", "source"), ("/api/create", "model")):
                method = "DELETE" if path == "/api/delete" else "POST"
                body = {field: name, "prompt": "x", "destination": name, "from": "m"}
                status, _, text = self.server.request(method, path, body)
                self.assertIn(status, (400, 404), (path, name, text))
        for digest in ("sha256:..%2f..%2fx", "sha256:" + "0" * 63, "..", "sha256-" + "g" * 64):
            self.assertEqual(self.server.request("POST", "/api/blobs/" + digest, b"x")[0], 400, digest)

    def test_blobs_with_wrong_digest_leave_nothing(self):
        digest = "sha256:" + "0" * 64
        status, _, text = self.server.request("POST", "/api/blobs/" + digest, b"x" * 100000)
        self.assertEqual(status, 400)
        self.assertIn("digest mismatch", text.decode())
        self.assertEqual(self.server.request("HEAD", "/api/blobs/" + digest)[0], 404)
        self.assertEqual([path.name for path in self.server.models.glob("blobs/*0000*")], [])

    def test_foreign_hosts_and_origins(self):
        for header in (b"Host: evil.example", b"Host: localhost\r\nOrigin: http://evil.example",
                       b"Host: localhost\r\nOrigin: http://localhost.evil.example"):
            answer = raw(self.server, b"GET /api/tags HTTP/1.1\r\n" + header + b"\r\n\r\n")
            self.assertTrue(answer.startswith(b"HTTP/1.1 403"), answer)
        answer = raw(self.server, b"GET /api/tags HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n\r\n")
        self.assertIn(b"Access-Control-Allow-Origin: http://localhost:3000", answer)

    def test_malformed_http(self):
        for data in (b"\x00" * 100 + b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     post("/api/generate", b"{}", b"Content-Length: 3\r\n"), b"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
                     b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
                     b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                     b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 200000 + b"\r\n\r\n"):
            answer = raw(self.server, data)
            self.assertRegex(answer[:13], rb"HTTP/1.1 4\d\d|^$", data[:60])

    def test_huge_bodies_are_refused(self):
        head = b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000000\r\n\r\n"
        self.assertTrue(raw(self.server, head).startswith(b"HTTP/1.1 413"))

    def test_half_closed_and_broken_connections(self):
        answer = raw(self.server, b"GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n", close_sending=True)
        self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)
        for cut in range(1, 120, 7):
            with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
                connection.sendall(post("/api/generate", b'{"model":"m","prompt":"hi"}')[:cut])

    def test_slow_senders_delay_no_other_client(self):
        slow = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(50)]
        for connection in slow:
            connection.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        self.assertEqual(self.server.request("GET", "/api/tags")[0], 200)  # while all slow senders wait
        for connection in slow:
            connection.close()

    def test_too_long_prompt_has_the_same_error_on_all_routes(self):
        if not HAS_MODEL:
            self.skipTest(NO_MODEL)
        text = "word " * 9000
        messages = [{"role": "user", "content": text}]
        for path, body in (("/api/generate", {"prompt": text}), ("/api/generate", {"prompt": text, "raw": True}),
                           ("/api/chat", {"messages": messages}), ("/v1/chat/completions", {"messages": messages}),
                           ("/v1/completions", {"prompt": text})):
            status, _, answer = self.server.request("POST", path, {"model": "m", **body})
            self.assertEqual(status, 400, path)
            error = json.loads(answer)["error"]
            message = error["message"] if isinstance(error, dict) else error
            self.assertRegex(message, r"longer than the context length .* it has \d+ tokens, the context 8192")

    def test_slow_reader_delays_only_itself(self):
        if not HAS_MODEL:
            self.skipTest(NO_MODEL)
        body = json.dumps({"model": "m", "prompt": "Count.", "options": {"num_predict": 500}}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as slow:
            slow.sendall(post("/api/generate", body))
            slow.recv(10)
            answer = self.server.json("POST", "/api/generate", {"model": "m", "prompt": "Hi", "stream": False,
                                                                "options": {"num_predict": 5}})
            self.assertTrue(answer["done"])

    def test_disconnected_clients_free_their_places(self):
        if not HAS_MODEL:
            self.skipTest(NO_MODEL)
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
                connection.sendall(post("/api/generate", b'{"model":"m","prompt":"Tell a long story."}'))
                connection.recv(100)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            load = self.server.request("GET", "/metrics/load")[2].decode()
            if "billow_requests_running 0" in load and "billow_requests_waiting 0" in load:
                return
            time.sleep(0.05)
        self.fail(load)


class EndOfServer(unittest.TestCase):
    def start(self, folder, *arguments, **variables):
        if not HAS_MODEL:
            self.skipTest(NO_MODEL)
        server = Server(folder, arguments, program=str(pathlib.Path(options.billow).resolve()), variables=variables)
        self.addCleanup(server.process.wait)
        self.addCleanup(server.process.kill)
        server.add_model("m")
        server.json("POST", "/api/generate", {"model": "m"})
        return server

    def test_killed_server_leaves_no_runner_and_a_valid_store(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.start(folder)
            runner, = server.runners()
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            deadline = time.monotonic() + 60
            while pathlib.Path(f"/proc/{runner}").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertFalse(pathlib.Path(f"/proc/{runner}").exists(), "the runner outlived the server")
            again = Server(folder, program=str(pathlib.Path(options.billow).resolve()))
            self.assertEqual(again.json("GET", "/api/tags")["models"][0]["name"], "m:latest")
            self.assertEqual(again.stop(), 0)

    def test_running_answers_finish_after_sigterm(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.start(folder, "--drain-timeout", "900")
            body = {"model": "m", "prompt": "Count to a hundred.", "options": {"num_predict": 150, "temperature": 0}}
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
            self.addCleanup(connection.close)
            connection.request("POST", "/api/generate", json.dumps(body))
            answer = connection.getresponse()
            answer.readline()  # the answer has started
            runner, = server.runners()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(900), 0)
            self.assertTrue(json.loads(answer.read().splitlines()[-1])["done"])
            self.assertFalse(pathlib.Path(f"/proc/{runner}").exists())

    def test_endless_answers_end_with_an_error_after_the_drain(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.start(folder, "--drain-timeout", "0.2", BILLOW_LOG="info")
            prompt = {"model": "m", "prompt": "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,", "stream": True}
            answers = []
            for path, more in (("/api/generate", {"raw": True, "options": {"temperature": 0}}), ("/v1/completions", {"temperature": 0})):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
                self.addCleanup(connection.close)
                connection.request("POST", path, json.dumps(prompt | more))
                answers.append(connection.getresponse())
                answers[-1].readline()  # the answer has started
            self.assertEqual(server.stop(), 0)
            native, openai = ([line for line in answer.read().splitlines() if line] for answer in answers)
            self.assertEqual(json.loads(native[-1]), {"error": "the server is shutting down"})
            self.assertEqual(json.loads(openai[-1].removeprefix(b"data: "))["error"]["message"], "the server is shutting down")
            self.assertEqual(server.log.read_text().count(" 503 POST "), 2, "the log has the status of each")

    def test_draining_server_reports_not_ready(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.start(folder, "--drain-delay", "120")
            self.assertEqual(server.request("GET", "/readyz")[0], 200)
            server.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 60
            while server.request("GET", "/readyz")[0] != 503 and time.monotonic() < deadline:
                time.sleep(0.01)
            status, headers, text = server.request("GET", "/readyz")
            self.assertEqual((status, headers["Retry-After"]), (503, "1"), text)
            self.assertEqual(server.request("POST", "/api/generate", {"model": "m"})[0], 200, "requests still work during the drain delay")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 0)  # a second signal ends the server immediately

    def test_full_queue_is_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.start(folder, "--max-queue", "1", "--parallel", "1")
            running = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
            self.addCleanup(running.close)
            endless = {"model": "m", "prompt": "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,", "raw": True, "options": {"num_predict": -1, "temperature": 0}}
            running.request("POST", "/api/generate", json.dumps(endless))
            running.getresponse().readline()  # the answer has started
            body = {"model": "m", "prompt": "Count.", "stream": False, "options": {"num_predict": 5}}
            statuses = []
            waiting = threading.Thread(target=lambda: statuses.append(server.request("POST", "/api/generate", body)[0]))
            waiting.start()
            deadline = time.monotonic() + 60
            while b"billow_requests_waiting 1" not in server.request("GET", "/metrics/load")[2]:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            status, headers, text = server.request("POST", "/api/generate", body)
            busy = b'{"error":"server busy, please try again.  maximum pending requests exceeded"}'
            self.assertEqual((status, headers["Retry-After"], text), (503, "1", busy))
            running.close()
            waiting.join()
            self.assertEqual(statuses, [200])
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    os.environ.setdefault("BILLOW_LOG", "warn")
    run_cases(rest)
