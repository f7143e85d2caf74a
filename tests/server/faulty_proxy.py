"""A proxy with faults. It is a reverse proxy of a registry, or the proxy of the environment (http_proxy, https_proxy)."""

import http.client
import http.server
import random
import re
import select
import socket
import threading
import urllib.parse

REDIRECTS = (301, 302, 303, 307, 308)


class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass


class FaultyProxy:
    """Cuts, stalls, damages, refuses and redirects answers for blobs at random.

    A redirect leads to an URL that expires (403) after some answers. `upstream` is the host of the registry. As proxy of the
    environment, it forwards to the host of each request. `tunnels` maps "host:port" to the target of tunnels to it.
    """

    def __init__(self, upstream=None, seed=0, tunnels=None):
        self.upstream = upstream
        self.tunnels = tunnels or {}
        self.random = random.Random(seed)
        self.faults = ()  # of cut, stall, damage, refuse, redirect
        self.share = 0.5  # share of blobs' answers with a fault
        self.stall_seconds = 60
        self.without_login = ()  # the requests for blobs that lose their Authorization: 1 is the first one that has it
        self.n_logins = 0
        self.n_cut_uploads = 0  # number of uploads still to cut: only half of the part reaches the registry
        self.pause = 0  # seconds after each 64 KiB of a blob
        self.n_sent = 0  # sent bytes of blobs
        self.n_faults = {}
        self.n_expired = 0
        self.n_tunnels = 0
        self.lives = {}  # remaining answers of each URL
        self.lock = threading.Lock()
        self.is_over = threading.Event()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                # Buffered bytes count as sent when a connection ends, so the buffer is small.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
                try:
                    owner.forward(self)
                except (OSError, http.client.HTTPException):
                    self.close_connection = True

            do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = handle_any

            def do_CONNECT(self):
                owner.tunnel(self)

            def log_message(self, *_):
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

    def loses_login(self, handler):
        if handler.command != "GET" or "/blobs/sha256:" not in handler.path or "Authorization" not in handler.headers:
            return False
        with self.lock:
            self.n_logins += 1
            return self.n_logins in self.without_login

    def has_expired(self, path):
        address = path.partition("moved=")[2]
        with self.lock:
            if not address:
                return False
            self.lives[address] = self.lives.get(address, 0) - 1
            has_expired = self.lives[address] < 0
            self.n_expired += has_expired
            return has_expired

    @staticmethod
    def refuse(handler, status, **headers):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def forward(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        upstream = url.netloc or self.upstream
        own = url.netloc or self.host
        path = handler.path.removeprefix(f"{url.scheme}://{url.netloc}") if url.netloc else handler.path
        n_body = int(handler.headers.get("Content-Length") or 0)
        if is_cut := handler.command == "PATCH" and n_body > 1 and self.n_cut_uploads > 0:
            self.n_cut_uploads -= 1
            n_body //= 2
        body = handler.rfile.read(n_body)
        loses_login = self.loses_login(handler)
        fault = None if loses_login else self.fault(path)
        if fault == "refuse":
            return self.refuse(handler, self.random.choice((500, 502, 503, 403)))
        if self.has_expired(path):
            return self.refuse(handler, 403)
        if fault == "redirect" and "moved=" not in path:
            with self.lock:
                address = str(self.random.random())
                self.lives[address] = self.random.randrange(1, 4)
                status = self.random.choice(REDIRECTS)
            return self.refuse(handler, status, Location=f"http://{own}{path}?moved={address}")
        connection = http.client.HTTPConnection(upstream, timeout=60)
        dropped = ("Host", "Content-Length", "Expect", "Proxy-Connection", *(["Content-Range"] if is_cut else []))
        headers = {name: value for name, value in handler.headers.items() if name not in dropped}
        if loses_login:
            del headers["Authorization"]
        connection.request(handler.command, path.split("?moved=")[0], body, headers)
        answer = connection.getresponse()
        if is_cut:
            handler.close_connection = True
            return connection.close()
        handler.send_response(answer.status)
        for name, value in answer.getheaders():
            if name not in ("Transfer-Encoding", "Date", "Connection"):
                handler.send_header(name, value.replace(upstream, own))
        handler.end_headers()
        if handler.command != "HEAD":
            self.send_body(handler, answer, fault)
        connection.close()
        return None

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
                        self.is_over.wait(self.stall_seconds)
                    handler.close_connection = True
                    return
            handler.wfile.write(piece)
            if is_blob:
                with self.lock:
                    self.n_sent += len(piece)
                self.is_over.wait(self.pause)

    def tunnel(self, handler):
        self.n_tunnels += 1
        host, port = self.tunnels.get(handler.path, handler.path).rsplit(":", 1)
        try:
            other = socket.create_connection((host, int(port)), 10)
        except OSError:
            return self.refuse(handler, 502)
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        pair = {handler.connection: other, other: handler.connection}
        with other:
            while True:
                for one in select.select(list(pair), [], [])[0]:
                    try:
                        data = one.recv(1 << 16)
                        if not data:
                            return None
                        pair[one].sendall(data)
                    except OSError:
                        return None

    def stop(self):
        self.is_over.set()
        self.server.shutdown()
