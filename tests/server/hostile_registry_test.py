"""Tests hostile registries: the server survives, reports one clear line, writes only to the store, and sends no token to other hosts.

  hostile_registry_test.py --billow PROGRAM [NAME...]
"""

import gzip
import itertools
import json
import socket
import time

import transfer_case
from scripted_registry import ScriptedRegistry, digest_of, reply
from transfer_case import MB, Case, random_gguf

WEIGHTS = random_gguf(300_000)
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
MODEL = "application/vnd.ollama.image.model"
SECONDS = 180  # max time of a case: far below that of endless work, far above that of a busy machine


def layer(digest=digest_of(WEIGHTS), size=len(WEIGHTS), kind=MODEL, **more):
    return {"mediaType": kind, "digest": digest, "size": size, **more}


def manifest(*layers, config=None, **more):
    return {"schemaVersion": 2, "mediaType": MANIFEST, "config": config or layer(digest_of(b"{}"), 2, "config"), "layers": list(layers), **more}


def endless(head, piece):
    return itertools.chain([head], itertools.repeat(piece))


class Hostile(Case):
    def setUp(self):
        super().setUp()
        self.fake = ScriptedRegistry()
        self.addCleanup(self.fake.stop)
        self.fake.blobs = {digest_of(WEIGHTS): WEIGHTS, digest_of(b"{}"): b"{}"}
        self.stranger = ScriptedRegistry(lambda request: reply(200, manifest(layer())))
        self.addCleanup(self.stranger.stop)
        self.here = self.place("here")
        self.name = self.fake.host + "/a/m"

    def tearDown(self):
        self.assertIsNone(self.here.server.process.poll(), "the server has ended")
        self.assertEqual(self.here.unsound(), [])

    def outside(self):
        """Returns the files outside the store, the user's keys and the log."""
        kept = (self.here.server.models, self.here.home / ".ollama", self.here.server.log)
        return sorted(str(path) for path in self.folder.rglob("*")
                      if path.is_file() and not any(path == keep or keep in path.parents for keep in kept))

    def refused(self, words, name=None, **fields):
        """Pulls, and expects a one-line error with these words and no model. Returns the error."""
        began = time.monotonic()
        status, _, text = self.here.server.request("POST", "/api/pull", {"model": name or self.name, "insecure": True, "stream": False, **fields})
        message = json.loads(text).get("error", text.decode())
        self.assertGreaterEqual(status, 400, message)
        self.assertRegex(message, words)
        self.assertNotRegex(message, "[\x00-\x1f\x7f]")
        self.assertLess(len(message), 1500)
        self.assertLess(time.monotonic() - began, SECONDS)
        self.assertEqual(self.outside(), [])
        self.assertEqual(self.here.models(), [])
        return message

    def serve(self, *answers, path="/manifests/"):
        """Answers requests for these paths with these bytes, one after another. The last answer repeats."""
        left = list(answers)

        def answer(request):
            if path not in request.path:
                return self.fake.answer_as_registry(request)
            one = left.pop(0) if len(left) > 1 else left[0]
            return one(request) if callable(one) else one

        self.fake.answer = answer

    def test_manifests(self):
        cases = [
            (b"", "malformed JSON"), (b"<html>", "malformed JSON"), (b"[]", "not a JSON object"), (b"null", "not a JSON object"),
            (b"[" * 200_000, "nested too deep|malformed"), (b'{"schemaVersion":2,"a":"\xff\xfe"}', "malformed JSON"),
            ({}, "schema version 2"), (manifest(schemaVersion=1), "schema version 2"), (manifest(schemaVersion="2"), "whole number"),
            ({**manifest(), "config": None}, "has no config"), ({**manifest(), "config": 7}, "has no config"),
            ({**manifest(), "layers": {}}, "must be an array"), (manifest(7), "not a JSON object"),
            ({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}, "has no config"),
            *((manifest(layer(digest)), "is not a digest") for digest in (
                "", "sha256:", "sha256:../../../../../etc/passwd", "sha256-" + "../" * 21 + "a", "sha256:" + "g" * 64, "sha512:" + "0" * 64,
                "/etc/passwd", digest_of(b"")[:-1], digest_of(b"") + "0", digest_of(b"") + "/../../x", "sha256:" + "\u0000" * 64)),
            (manifest(layer(7)), "must be a string"), (manifest(layer(kind=["x"])), "must be a string"),
            *((manifest(layer(size=size)), "whole number|too large") for size in (-1, 1.5, "10", 1 << 63, (1 << 64) - 1, 1e30, [])),
            (manifest(layer(size=(1 << 62)), layer(digest_of(b"x"), size=(1 << 62))), "too large"),
            (manifest(layer(size=1 << 61)), "the disk has .* left"),
            (manifest(*[layer()] * 20_000), "20000 layers"),
            (manifest(layer(kind="application/vnd.ollama.image.tensor")), "MLX"),
            (manifest(layer(kind="application/vnd.docker.image.rootfs.diff.tar.gzip")), "container image"),
            (b'{"schemaVersion":2,"layers":[' + b"{}," * 2_600_000 + b"{}]}", "has no config"),  # a slow parser would take hours
            (b"{" + b",".join(b'"%x":1' % i for i in range(800_000)) + b"}", "more than 4096 members"),
            (b" " * (9 * MB), "more than [0-9]+ bytes"),
        ]
        for body, words in cases:
            with self.subTest(str(body)[:100]):
                self.serve(reply(200, body))
                self.refused(words)
        self.assertFalse(any("/blobs/" in request.path for request in self.fake.requests))

    def test_malformed_http_answers(self):
        bomb = gzip.compress(bytes(200 * MB), 9)
        cases = [
            (b"", "[Ee]mpty reply"), (b"hello\r\n\r\n", "HTTP/0.9|[Uu]nsupported|[Rr]eceived"), (b"HTTP/1.1 \r\n\r\n", "."),
            (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}", "."), (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "."),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n{}", "."),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "."),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx", "."),
            (endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"), "more than [0-9]+ bytes"),
            (reply(200, bomb, {"Content-Encoding": "gzip"}), "malformed JSON"),
            (endless(b"HTTP/1.1 200 OK\r\n", b"X-Field: " + b"x" * 1000 + b"\r\n"), "head of the response|[Hh]eader"),
            (endless(b"HTTP/1.1 200 OK\r\nX-Field: ", b"x" * 65536), "head of the response|[Hh]eader|[Oo]ut of memory|too large"),
            (endless(b"", b"HTTP/1.1 100 Continue\r\nX-Field: y\r\n\r\n" * 1000), "head of the response|[Hh]eader"),
            (reply(500, {"errors": [{"message": "a\nb\x1b[2J" + "c" * 10_000}]}), "500: a b"),
            (reply(500, b"{" + b",".join(b'"%x":1' % i for i in range(800_000)) + b"}"), "500: "),
            (reply(429, {"error": "slow down"}), "429: slow down"), (reply(404, b"x"), "file does not exist"),
            (reply(403, {"errors": 7}), "403"), (reply(400, {"errors": [7, {"message": 5}, {"code": "X"}]}), "400: X"),
        ]
        for answer, words in cases:
            with self.subTest(str(answer)[:100]):
                self.serve(answer)
                self.refused(words)

    def test_redirects(self):
        def to(place):
            return reply(307, b"", {"Location": place})

        cases = [
            (to(f"http://{self.name.partition('/')[0]}/v2/a/m/manifests/latest"), "more than 10 times"), (to("file:///etc/passwd"), "no valid address"),
            (to("gopher://x/"), "no valid address"), (to("http://"), "no valid address"), (to(""), "no valid address"),
            (reply(302), "Location is missing"), (to("http://me:pw@127.0.0.1/x"), "no valid address"), (to("http://[::"), "no valid address"),
            (to("/v2/a/m/manifests/" + "x" * 100_000), "."), (to("http://127.0.0.1:1/x"), "127.0.0.1:1"),
        ]
        for answer, words in cases:
            with self.subTest(str(answer)[:100]):
                self.serve(answer)
                self.refused(words)

    def test_token_is_sent_only_to_the_registry(self):
        for moved in ("/manifests/", "/blobs/"):
            with self.subTest(moved):
                self.stranger.requests.clear()
                self.fake.manifests["a/m:latest"] = manifest(layer())
                self.stranger.answer = lambda request: self.fake.answer_as_registry(request)

                def answer(request, moved=moved):
                    if request.path.startswith("/token"):
                        return reply(200, {"token": "secret"})
                    if request.fields.get("authorization") != "Bearer secret":
                        return reply(401, b"", {"WWW-Authenticate": f'Bearer realm="http://{self.fake.host}/token",service="s",scope="x"'})
                    if moved in request.path:
                        return reply(307, b"", {"Location": f"http://{self.stranger.host}{request.path}"})
                    return self.fake.answer_as_registry(request)

                self.fake.answer = answer
                self.assertEqual(self.here.last("pull", self.name, insecure=True), "success")
                self.assertTrue(self.stranger.requests)
                self.assertFalse([request.path for request in self.stranger.requests if "authorization" in request.fields])
                self.here.delete(self.name)
        # Another host that asks for a token gets none.
        self.stranger.answer = lambda request: reply(401, b"no", {"WWW-Authenticate": f'Bearer realm="http://{self.fake.host}/token"'})
        self.refused("401")

    def test_challenges_and_tokens(self):
        realm = f"http://{self.fake.host}/token"
        signs = [("Bearer realm=\"http://evil.example/token\"", "evil.example"), ("Bearer realm=\"file:///etc/passwd\"", "does not match"),
                 (f"Bearer realm=\"http://{self.fake.host}@evil.example/\"", "does not match"), ("Bearer", "does not match"), ("Negotiate", "wants negotiate"),
                 ("Bearer realm=\"", "does not match|gives no tokens"), ("", "gives no tokens"), ("Basic realm=\"x\"", "wants a password"),
                 ("x" * 50_000, "gives no tokens")]
        for sign, words in signs:
            with self.subTest(sign[:60]):
                self.serve(reply(401, b"", {"WWW-Authenticate": sign} if sign else {}))
                self.refused("unauthorized|realm host")
                self.assertRegex(self.refused(words), words)
        tokens = [{"token": 5}, {"token": None}, {"token": {}}, {"token": ""}, {"token": "a\r\nX: y"}, {"token": "a b"}, {"token": "\u00e9"}, [], 7, b"", b"<html>",
                  b"[" * 50_000]
        for body in tokens:
            with self.subTest(str(body)[:60]):
                self.fake.answer = lambda request, body=body: (reply(200, body) if request.path.startswith("/token") else reply(
                    401, b"", {"WWW-Authenticate": f'Bearer realm="{realm}",service="s",scope="a\r\n b"'.replace("\r\n", "")}))
                self.refused("response has no token")
        self.fake.answer = lambda request: (endless(b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536) if request.path.startswith("/token") else reply(
            401, b"", {"WWW-Authenticate": f'Bearer realm="{realm}"'}))
        self.refused("more than [0-9]+ bytes")
        self.fake.answer = lambda request: (reply(200, {"token": "x" * 200_000}) if request.path.startswith("/token") else reply(
            401, b"", {"WWW-Authenticate": f'Bearer realm="{realm}"'}))
        self.refused("more than [0-9]+ bytes")

    def test_blobs(self):
        self.fake.manifests["a/m:latest"] = manifest(layer())
        n = len(WEIGHTS)
        whole = f"bytes 0-{n - 1}/{n}"
        probe = reply(206, WEIGHTS[:2], {"Content-Range": f"bytes 0-1/{n}"})
        wrong = bytes([WEIGHTS[0] ^ 1]) + WEIGHTS[1:]
        cases = [
            (reply(200, wrong), "digest mismatch"), (reply(206, wrong, {"Content-Range": whole}), "digest mismatch"),
            (reply(404), "404"), (reply(403), "403"), (reply(500), "500"),
        ]
        for answer, words in cases:
            with self.subTest(str(answer)[:60]):
                self.serve(answer, path=digest_of(WEIGHTS))
                self.refused(words)
        self.assertEqual([name for name in self.here.files() if "partial" in name], [])
        # The server retries these with growing delays, but not forever.
        slow = [(probe, reply(200, WEIGHTS + b"x")), (probe, reply(206, WEIGHTS, {"Content-Range": f"bytes 1-{n}/{n}"})),
                (probe, reply(206, WEIGHTS, {"Content-Range": f"bytes 0-{n - 1}/{n + 1}"})), (probe, reply(206, WEIGHTS, {"Content-Range": "bytes -5--1/-1"})),
                (probe, reply(416)), (probe, reply(206, WEIGHTS[:10], {"Content-Range": whole}))]
        for answers in slow:
            with self.subTest(str(answers[1])[:80]):
                self.serve(*answers, path=digest_of(WEIGHTS))
                self.disconnect_early()

    def disconnect_early(self):
        """Disconnects soon. Checks that only resumable parts of the pull remain."""
        body = json.dumps({"model": self.name, "insecure": True}).encode()
        with socket.create_connection(("127.0.0.1", self.here.server.port), 30) as client:
            client.sendall(b"POST /api/pull HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            end = time.monotonic() + 0.5
            while time.monotonic() < end and client.recv(65536):
                pass
        self.assertEqual(self.here.unsound(), [])
        self.assertEqual(self.here.models(), [])

    def test_names(self):
        for name in ("../../etc/x", "a/../b", f"{self.fake.host}/../m", f"{self.fake.host}/a/..", f"{self.fake.host}/a/m:..", f"{self.fake.host}/a/m:.",
                     f"{self.fake.host}/a/../../m:x", "http://", "", "a b", "x\n", f"{self.fake.host}/a/m:x/y", f"{self.fake.host}/a/m@sha256:x", "/etc/passwd",
                     f"{self.fake.host}/%2e%2e/m", "x" * 1000, ".", "..", f"{self.fake.host}/a/m?x=y"):
            with self.subTest(name):
                self.refused("invalid model name", name or " ")
        self.assertEqual(self.fake.requests, [])

    def test_layers_with_wrong_content(self):
        contents = [("params", b"[]"), ("params", b"{"), ("params", b'{"temperature":"hot"}'), ("params", b'{"stop":{"a":1}}'), ("params", b'{"num_ctx":1e99}'),
                    ("messages", b'{"role":1}'), ("messages", b"x"), ("adapter", b'{"a":1}'), ("adapter", b""), ("template", b"{{ if"), ("template", b"\xff\xfe"),
                    ("system", b"\xff"), ("license", b"\xff\x00"), ("projector", b"x")]
        configs = [b"", b"[]", b"{", b'{"model_family":7}', b'{"rootfs":[]}', b'{"remote_host":"http://x","remote_model":"y"}']
        for kind, content, config in [*((kind, content, b"{}") for kind, content in contents), *((None, b"", config) for config in configs)]:
            with self.subTest(kind=kind, content=content, config=config):
                layers = [("model", WEIGHTS), *([(kind, content)] if kind else [])]
                self.fake.add("a/m:latest", layers, config)
                message = self.here.last("pull", self.name, insecure=True)
                if message != "success":
                    self.assertNotIn("\n", message)
                    continue
                for path, body in (("show", {}), ("generate", {"prompt": "x", "stream": False}), ("chat", {"messages": [{"role": "user", "content": "x"}], "stream": False})):
                    status, _, text = self.here.server.request("POST", "/api/" + path, {"model": self.name, **body})
                    if path != "show":
                        self.assertGreaterEqual(status, 400)
                    if status != 200:
                        self.assertNotIn("\n", json.loads(text)["error"])
                self.assertEqual(self.here.server.request("GET", "/api/tags")[0], 200)
                self.here.server.request("DELETE", "/api/delete", {"model": self.name})
                self.assertEqual(self.outside(), [])


if __name__ == "__main__":
    transfer_case.main(needs_registry=False)
