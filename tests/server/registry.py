"""Debian's docker-registry for tests, with TLS and tokens on request, and a proxy that makes mistakes.

The registry keeps its blobs in a folder. `TokenServer` gives tokens to those who sign with an ed25519 key that it knows,
as Ollama's registry does.
"""

import base64
import hashlib
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

PROGRAM = shutil.which("docker-registry") or "/usr/bin/docker-registry"


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def make_certificate(folder, name="127.0.0.1"):
    """A certificate for this host that signs itself, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    return certificate, key


class Registry:
    """A running docker-registry."""

    def __init__(self, folder, tls=None, token_server=None, has_password=False):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.data = folder / "data"
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        self.url = ("https://" if tls else "http://") + self.host
        config = {"version": 0.1, "log": {"level": "warn"}, "http": {"addr": self.host, "secret": "tests"},
                  "storage": {"filesystem": {"rootdirectory": str(self.data)}, "delete": {"enabled": True}}}
        if tls:
            config["http"]["tls"] = {"certificate": str(tls[0]), "key": str(tls[1])}
        if token_server:
            config["auth"] = {"token": {"realm": token_server.realm, "service": "tests", "issuer": "tests",
                                        "rootcertbundle": str(token_server.certificate)}}
        if has_password:  # user "me", password "secret"
            (folder / "users").write_text("me:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n")
            config["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "users")}}
        path = folder / "config.json"  # JSON is YAML
        path.write_text(json.dumps(config))
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen([PROGRAM, "serve", path], stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except OSError:
                assert self.process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, "the registry does not answer"
                time.sleep(0.01)

    def blobs(self):
        return sorted(path.parent.name for path in self.data.glob("docker/registry/v2/blobs/sha256/*/*/data"))

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def encoded(data):
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


class TokenServer:
    """Gives tokens for docker-registry, signed with the key of its certificate, to users whose key it knows."""

    def __init__(self, folder, life=60):
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate, self.key = make_certificate(folder)
        self.life = life
        self.known_keys = set()  # public keys in base64, as requests have them
        self.n_tokens = 0
        self.refusals = []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                owner.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.realm = f"http://127.0.0.1:{self.server.server_port}/token"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, handler):
        why = self.why_not(handler)
        body = json.dumps({"error": why} if why else {"token": self.token(handler.path)}).encode()
        if why:
            self.refusals.append(why)
        handler.send_response(401 if why else 200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def why_not(self, handler):
        public, _, signature = handler.headers.get("Authorization", "").partition(":")
        if public not in self.known_keys:
            return "unknown key"
        sum_of_nothing = base64.b64encode(hashlib.sha256(b"").hexdigest().encode()).decode()
        host = handler.headers["Host"]
        signed = f"GET,http://{host}{handler.path},{sum_of_nothing}"
        # The judge is OpenSSL: the last 32 bytes of an SSH key are those of the ed25519 key.
        raw = base64.b64decode(public)[-32:]
        der = bytes.fromhex("302a300506032b6570032100") + raw
        with TemporaryFiles(der, signed.encode(), base64.b64decode(signature)) as (key, text, sign):
            done = subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", key, "-rawin", "-in", text,
                                   "-sigfile", sign], capture_output=True)
        return "" if done.returncode == 0 else "wrong signature"

    def token(self, path):
        self.n_tokens += 1
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query)
        access = []
        for scope in query.get("scope", []):
            for one in scope.split():
                kind, name, actions = one.split(":")
                access.append({"type": kind, "name": name, "actions": actions.split(",")})
        der = ssl.PEM_cert_to_DER_cert(self.certificate.read_text())
        header = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(der).decode()]}
        now = int(time.time())
        claims = {"iss": "tests", "sub": "user", "aud": "tests", "exp": now + self.life, "nbf": now - 10, "iat": now,
                  "jti": str(self.n_tokens), "access": access}
        text = encoded(header) + "." + encoded(claims)
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=text.encode(), capture_output=True,
                                   check=True).stdout
        return text + "." + encoded(signature)

    def stop(self):
        self.server.shutdown()


class TemporaryFiles:
    def __init__(self, *contents):
        self.contents = contents

    def __enter__(self):
        self.descriptors = []
        for content in self.contents:
            descriptor = os.memfd_create("test")
            os.write(descriptor, content)
            self.descriptors.append(descriptor)
        return [f"/proc/{os.getpid()}/fd/{descriptor}" for descriptor in self.descriptors]

    def __exit__(self, *_):
        for descriptor in self.descriptors:
            os.close(descriptor)


class FaultyProxy:
    """Stands before a registry and cuts, stalls, damages, refuses and redirects answers at random."""

    def __init__(self, registry, seed=0):
        self.upstream = registry
        self.random = random.Random(seed)
        self.faults = ()  # of cut, stall, damage, refuse, redirect
        self.share = 0.5  # of blobs' answers that have one
        self.n_sent = 0  # bytes of blobs
        self.n_faults = {}
        self.lock = threading.Lock()
        self.is_over = threading.Event()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                try:
                    owner.forward(self)
                except (OSError, http.client.HTTPException):
                    self.close_connection = True

            do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = handle_any

            def log_message(self, *_):
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def fault(self, path):
        with self.lock:
            if not self.faults or not re.search(r"/blobs/sha256:", path) or self.random.random() >= self.share:
                return None
            kind = self.random.choice(self.faults)
            self.n_faults[kind] = self.n_faults.get(kind, 0) + 1
            return kind

    def forward(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        fault = self.fault(handler.path)
        if fault == "refuse":
            handler.send_response(self.random.choice((500, 502, 503, 403)))
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        if fault == "redirect" and "moved=" not in handler.path:
            handler.send_response(307)
            handler.send_header("Location", f"http://{self.host}{handler.path}?moved={self.random.random()}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        connection = http.client.HTTPConnection(self.upstream.host, timeout=60)
        path = handler.path.split("?moved=")[0]
        headers = {name: value for name, value in handler.headers.items() if name not in ("Host", "Content-Length", "Expect")}
        connection.request(handler.command, path, body, headers)
        answer = connection.getresponse()
        handler.send_response(answer.status)
        for name, value in answer.getheaders():
            if name not in ("Transfer-Encoding", "Date", "Connection"):
                handler.send_header(name, value.replace(self.upstream.host, self.host))
        handler.end_headers()
        if handler.command == "HEAD":
            connection.close()
            return
        self.send_body(handler, answer, fault)
        connection.close()

    def send_body(self, handler, answer, fault):
        left = int(answer.getheader("Content-Length") or 0)
        is_blob = "/blobs/sha256:" in handler.path
        stop_at = self.random.randrange(left) if fault in ("cut", "stall", "damage") and left > 1 else None
        while left > 0:
            piece = bytearray(answer.read(min(left, 1 << 16)))
            left -= len(piece)
            if stop_at is not None and left <= stop_at:
                if fault == "damage":
                    piece[-1] ^= 1
                    stop_at = None
                else:
                    if fault == "stall":
                        self.is_over.wait(20)
                    handler.close_connection = True
                    return
            handler.wfile.write(piece)
            if is_blob:
                with self.lock:
                    self.n_sent += len(piece)

    def stop(self):
        self.is_over.set()
        self.server.shutdown()
