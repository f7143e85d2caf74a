#!/usr/bin/python3
"""A fake llama-server with the routes that Billow uses, on a Unix socket, and with faults on demand.

Each token of an answer depends only on the token before it. A test therefore knows the right answer even if the answer was
interrupted and continued. BILLOW_FAKE_LLAMA is the path of a file with one JSON object:

  first, n_tokens       answers use the tokens first to first + n_tokens - 1
  load_seconds          duration of the load, with a log line each tenth of a second
  load_fails            an error line that it logs before it exits with status 1
  silent_load           the load never ends and logs nothing
  token_seconds         the time of each token
  dies_after            number of tokens after which the process kills itself
  hangs_after           number of tokens after which the server hangs
  end_after             number of tokens after which the answer ends
  refuses               the message of a refusal of each completion
  image_rows            tokens that each image takes, 20 if absent
  omits_marker          /props has no marker of images, as in old versions
  scratch_mib           the buffer size in its log, 2 if absent
  log                   a path to which it appends each command line and each request as JSON lines
"""

import base64
import json
import os
import pathlib
import signal
import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler

PLAN = pathlib.Path(os.environ["BILLOW_FAKE_LLAMA"])
STEP = 7
hung = threading.Event()
ready = threading.Event()


def plan():
    return json.loads(PLAN.read_text())


def next_token(token, settings):
    return settings["first"] + (token * 31 + STEP) % settings["n_tokens"]


def note(**entry):
    if path := plan().get("log"):
        with open(path, "a", encoding="utf-8") as log:
            log.write(json.dumps(entry) + "\n")


def argument(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def marker():
    return "<__media__>" if plan().get("omits_marker") else os.environ.get("LLAMA_MEDIA_MARKER", "<__media_0__>")


def sizes_of(prompt):
    """Returns the number of tokens and the last token of a prompt with text and images."""
    images, places = [base64.b64decode(data) for data in prompt["multimodal_data"]], prompt["prompt_string"].count(marker())
    if not argument("--mmproj"):
        raise ValueError("Multimodal data provided, but model does not support multimodal requests.")
    if places != len(images):
        raise ValueError(f"number of media markers in text ({places}) does not match number of bitmaps ({len(images)})")
    if not all(image.startswith(b"\x89PNG\r\n\x1a\n") for image in images):
        raise ValueError("Failed to load image or audio file")
    text = prompt["prompt_string"].replace(marker(), "").encode()
    settings = plan()
    return len(text) + settings.get("image_rows", 20) * len(images), settings["first"] + sum(text) % settings["n_tokens"]


def say(level, text):
    print(f"0.00.000.001 {level} {text}", file=sys.stderr, flush=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if hung.is_set():
            time.sleep(3600)
        if not ready.is_set():
            return self.answer(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})
        if self.path == "/props":
            marker_field = {} if plan().get("omits_marker") else {"media_marker": marker()}
            return self.answer(200, {"modalities": {"vision": bool(argument("--mmproj"))}, **marker_field})
        self.answer(200, {"status": "ok"})

    def do_POST(self):
        if hung.is_set():
            time.sleep(3600)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        note(path=self.path, body=body)
        settings = plan()
        if "refuses" in settings:
            return self.answer(400, {"error": {"code": 400, "message": settings["refuses"], "type": "invalid_request_error"}})
        if self.path == "/embedding":
            rows = [[float(len(text)), 1.0, 2.0] for text in body["content"]]
            return self.answer(200, [{"index": i, "embedding": [row]} for i, row in enumerate(rows)])
        prompt = body["prompt"]
        try:
            n_prompt, last = sizes_of(prompt) if isinstance(prompt, dict) else (len(prompt), prompt[-1])
        except ValueError as error:
            return self.answer(400, {"error": {"code": 400, "message": str(error), "type": "invalid_request_error"}})
        n_cells = int(argument("--ctx-size"))
        if n_prompt >= n_cells:
            return self.answer(400, {"error": {"code": 400, "message": "request exceeds the available context size",
                                               "type": "exceed_context_size_error", "n_prompt_tokens": n_prompt, "n_ctx": n_cells}})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.event({"content": "", "tokens": [], "stop": False,
                    "prompt_progress": {"total": n_prompt, "cache": 0, "processed": n_prompt, "time_ms": 1}})
        try:
            self.write(body, settings, n_prompt, last)
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            note(gone=True)
            self.close_connection = True

    def event(self, fields):
        data = f"data: {json.dumps(fields)}\n\n".encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def write(self, body, settings, n_prompt, token):
        n_written, is_end = 0, False
        while n_written < body["n_predict"]:
            if "end_after" in settings and not body["ignore_eos"] and n_written >= settings["end_after"]:
                is_end = True
                break
            if n_written == settings.get("dies_after"):
                os.kill(os.getpid(), signal.SIGKILL)
            if n_written == settings.get("hangs_after"):
                hung.set()
                time.sleep(3600)
            time.sleep(settings.get("token_seconds", 0))
            token = next_token(token, settings)
            n_written += 1
            self.event({"content": "x", "tokens": [token], "stop": False, "tokens_predicted": n_written})
        self.event({"content": "", "tokens": [], "stop": True, "stop_type": "eos" if is_end else "limit",
                    "tokens_predicted": n_written, "tokens_evaluated": n_prompt, "timings": {"cache_n": 0}})


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def get_request(self):
        request, _ = super().get_request()
        return request, ("unix", 0)


def load():
    settings = plan()
    note(command=sys.argv[1:], pid=os.getpid(), variables=sorted(name for name in os.environ if name.startswith("LLAMA_")))
    end = time.monotonic() + settings.get("load_seconds", 0)
    while time.monotonic() < end:
        say("I", "load_tensors: loading model tensors, this can take a while...")
        time.sleep(0.1)
    if "load_fails" in settings:
        say("E", settings["load_fails"])
        os._exit(1)
    if settings.get("silent_load"):
        time.sleep(3600)
    say("I", "load_tensors:   CPU_Mapped model buffer size =    11.50 MiB")
    say("I", "load_tensors:        CUDA0 model buffer size =     3.00 MiB")
    say("I", "llama_kv_cache:        CPU KV buffer size =    45.00 MiB")
    say("I", f"sched_reserve:        CPU compute buffer size =     {settings.get('scratch_mib', 2):.2f} MiB")
    ready.set()


path = argument("--host")
assert path.endswith(".sock"), path
socket.setdefaulttimeout(None)
with Server(path, Handler) as server:
    threading.Thread(target=load, daemon=True).start()
    server.serve_forever()
