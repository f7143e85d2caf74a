"""Debian's docker-registry for tests, with TLS, passwords and tokens on request.

The registry keeps its blobs in a folder. `TokenServer` gives a token to a client that signs with a known ed25519 key, as
Ollama's registry does, or that sends a known password, as other registries do.
"""

import base64
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

from ports import free_port

PROGRAM = shutil.which("docker-registry") or "/usr/bin/docker-registry"


def make_certificate(folder, *names):
    """Makes a self-signed certificate for this host and other names. Returns certificate and key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tests",
                    "-addext", ",".join(["subjectAltName=IP:127.0.0.1", *(f"DNS:{name}" for name in names)]), "-keyout", key, "-out", certificate],
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
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([PROGRAM, "serve", path], stdout=log, stderr=log)
        deadline = time.monotonic() + 300
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < deadline, "the registry does not answer"
                time.sleep(0.01)

    def blobs(self):
        return sorted(path.parent.name for path in self.data.glob("docker/registry/v2/blobs/sha256/*/*/data"))

    def requests(self, method, repository):
        """Returns path and status of each request for a repository, from the access log."""
        return re.findall(rf'"{method} (/v2/{repository}/\S*) HTTP/[\d.]+" (\d+)', self.log.read_text())

    def stop(self):
        self.process.terminate()
        self.process.wait(120)


def encoded(data):
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


class TokenServer:
    """Gives tokens for docker-registry, signed with the key of its certificate, to users whose key it knows."""

    def __init__(self, folder, life=60, passwords=(), has_tls=False):
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate, self.key = make_certificate(folder)
        self.life = life
        self.passwords = {base64.b64encode(one.encode()).decode() for one in passwords}  # "user:password"
        self.known_keys = set()  # public keys in base64, as in requests
        self.n_tokens = 0
        self.refusals = []
        self.scopes = []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                owner.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if has_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate, self.key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.realm = f"http{'s' if has_tls else ''}://127.0.0.1:{self.server.server_port}/token"
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
        authorization = handler.headers.get("Authorization", "")
        if self.passwords:
            kind, _, login = authorization.partition(" ")
            return "" if kind == "Basic" and login in self.passwords else "wrong password"
        public, _, signature = authorization.partition(":")
        if public not in self.known_keys:
            return "unknown key"
        sum_of_nothing = base64.b64encode(hashlib.sha256(b"").hexdigest().encode()).decode()
        host = handler.headers["Host"]
        signed = f"GET,{self.realm.partition(':')[0]}://{host}{handler.path},{sum_of_nothing}"
        # OpenSSL verifies the signature. The last 32 bytes of an SSH key are the ed25519 key.
        raw = base64.b64decode(public)[-32:]
        der = bytes.fromhex("302a300506032b6570032100") + raw
        with TemporaryFiles(der, signed.encode(), base64.b64decode(signature)) as (key, text, sign):
            done = subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", key, "-rawin", "-in", text,
                                   "-sigfile", sign], capture_output=True)
        return "" if done.returncode == 0 else "wrong signature"

    def token(self, path):
        self.n_tokens += 1
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query)
        self.scopes += query.get("scope", [])
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
