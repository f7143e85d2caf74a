"""A registry whose answers a test scripts byte by byte, to be hostile or to imitate another registry. TLS is optional."""

import hashlib
import json
import socket
import ssl
import threading


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def reply(status=200, body=b"", fields=(), length=None):
    """Returns the bytes of an answer."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in dict(fields).items())]
    lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class Request:
    def __init__(self, head):
        first, *rest = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = first.split(" ", 2)
        self.fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}

    def host(self):
        return self.fields.get("host", "")

    def range(self, n_bytes):
        """Returns the first byte and the end of the requested range, or None."""
        text = self.fields.get("range", "")
        if not text.startswith("bytes="):
            return None
        first, _, last = text.removeprefix("bytes=").partition("-")
        return int(first), min(int(last) + 1 if last else n_bytes, n_bytes)


class ScriptedRegistry:
    """Sends the bytes that `answer(request)` returns, or an iterator of bytes. Handles one request per connection."""

    def __init__(self, answer=None, tls=None):
        self.answer = answer or self.answer_as_registry
        self.manifests = {}  # by "user/model:tag"
        self.blobs = {}
        self.requests = []
        self.context = None
        if tls:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*tls)
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.host = f"127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            connection.settimeout(30)
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            with connection:
                head = b""
                while b"\r\n\r\n" not in head:
                    data = connection.recv(1 << 16)
                    if not data:
                        return
                    head += data
                request = Request(head.split(b"\r\n\r\n")[0])
                self.requests.append(request)
                answer = self.answer(request)
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    connection.sendall(piece)
        except OSError:
            pass  # the client has disconnected

    def add(self, name, layers, config=b"{}"):
        """Adds a model. Layers are pairs (media type, bytes)."""
        made = []
        for kind, data in [*layers, (None, config)]:
            self.blobs[digest_of(data)] = data
            kind = f"application/vnd.ollama.image.{kind}" if kind else "application/vnd.docker.container.image.v1+json"
            made.append({"mediaType": kind, "digest": digest_of(data), "size": len(data)})
        self.manifests[name] = {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
                                "config": made[-1], "layers": made[:-1]}
        return self.manifests[name]

    def answer_as_registry(self, request):
        path = request.path.partition("?")[0].removeprefix("/v2/")
        name, _, tag = path.partition("/manifests/")
        if tag:
            manifest = self.manifests.get(f"{name}:{tag}")
            return reply(200, manifest) if manifest is not None else reply(404, {"errors": [{"code": "MANIFEST_UNKNOWN"}]})
        return self.blob(request, path.rpartition("/")[2])

    def blob(self, request, digest):
        data = self.blobs.get(digest)
        if data is None:
            return reply(404, {"errors": [{"code": "BLOB_UNKNOWN"}]})
        wanted = request.range(len(data))
        if not wanted:
            return reply(200, data)
        first, end = wanted
        return reply(206, data[first:end], {"Content-Range": f"bytes {first}-{end - 1}/{len(data)}"})

    def stop(self):
        self.socket.close()
