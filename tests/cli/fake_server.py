"""A fake server for tests of the client commands: returns configured responses and records requests."""
import http.server
import json
import threading
import time


class FakeServer:
    """`answers` maps "METHOD /path" to the response: a (status, body) pair, a list of objects for a stream, a
    function of the request's body that returns one of these, or any other object as JSON. Floats in a stream are
    seconds to wait, it waits for a threading.Event in a stream, and "cut" closes the connection."""

    def __init__(self):
        self.answers = {"HEAD /": (200, b"")}
        self.asked = []  # (method, path, body) of every request except HEAD /
        self.heads = []  # the headers of these requests
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                self.close_connection = False
                raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                is_json = raw and self.headers.get("Content-Type") == "application/json"
                body = json.loads(raw) if is_json else raw
                if (self.command, self.path) != ("HEAD", "/"):
                    server.asked.append((self.command, self.path, body))
                    server.heads.append(self.headers)
                answer = server.answers.get(f"{self.command} {self.path}", (404, {"error": "no such route"}))
                if callable(answer):
                    answer = answer(body)
                if isinstance(answer, list):
                    return self.stream(answer)
                status, out = answer if isinstance(answer, tuple) else (200, answer)
                out = out if isinstance(out, bytes) else json.dumps(out).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(out)))
                    self.end_headers()
                    if self.command != "HEAD":
                        self.wfile.write(out)
                except OSError:
                    self.close_connection = True  # the client has disconnected

            def stream(self, objects):
                self.send_response(200)
                self.send_header("Content-Type", "application/x-ndjson")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    for entry in objects:
                        if isinstance(entry, float):
                            time.sleep(entry)
                            continue
                        if isinstance(entry, threading.Event):
                            entry.wait(300)
                            continue
                        if entry == "cut":
                            self.close_connection = True
                            return
                        line = json.dumps(entry).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                        self.wfile.flush()
                    self.wfile.write(b"0\r\n\r\n")
                except OSError:
                    server.asked.append(("GONE", self.path, None))  # the client has disconnected

            do_GET = do_HEAD = do_POST = do_DELETE = answer

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.host = f"127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
