"""A stand-in for `billow serve` that computes nothing: it sleeps as long as a model would take. It has a cache of prefixes, drains on SIGTERM as
Billow does, and counts what it gets. Tests and benchmarks of fleets run many of them on one machine.

stand_in.py --port 11434 --node a [--slots 8] [--prefill 4000] [--decode 40] [--cache 60000] ...

A token is 4 bytes of text. A prompt's tokens are read at --prefill tokens/s, one prompt at a time, without those that are in the cache. Then
the answer comes at --decode tokens/s, for --slots requests at the same time. `options.num_predict` or `max_tokens` is the length of an answer.
GET /control has what the host got; POST /control changes how it behaves: {"refuse": true} answers 503 to everything but checks,
{"not_ready": true} answers 503 to checks.
"""

import argparse
import asyncio
import collections
import hashlib
import json
import signal
import sys
import time

BLOCK = 64
BYTES_PER_TOKEN = 4


class PrefixCache:
    """The blocks of 64 tokens whose prefixes were evaluated, the least recently used ones evicted first."""

    def __init__(self, n_tokens):
        self.room = n_tokens // BLOCK
        self.blocks = collections.OrderedDict()

    def take(self, text):
        """Returns the tokens of a text, and how many of them were cached. All of its whole blocks are cached afterwards."""
        data = text.encode()
        n_tokens = max(1, len(data) // BYTES_PER_TOKEN)
        n_cached = 0
        digest = b""
        is_prefix = True
        for block in range(n_tokens // BLOCK):
            size = BLOCK * BYTES_PER_TOKEN
            digest = hashlib.blake2b(digest + data[block * size:(block + 1) * size], digest_size=16).digest()
            is_prefix = is_prefix and digest in self.blocks
            n_cached += BLOCK if is_prefix else 0
            self.blocks[digest] = None
            self.blocks.move_to_end(digest)
        while len(self.blocks) > self.room:
            self.blocks.popitem(last=False)
        return n_tokens, min(n_cached, n_tokens - 1)


def prompt_of(body):
    """All text of a request, in the order of the prompt."""
    def text(content):
        if isinstance(content, str):
            return content
        if isinstance(content, list):
            return "".join(text(part.get("text", part.get("content", ""))) if isinstance(part, dict) else str(part) for part in content)
        return ""

    parts = [text(body.get("system", "")), text(body.get("instructions", ""))]
    for message in body.get("messages", []):
        parts.append(message.get("role", "") + ": " + text(message.get("content", "")))
    parts += [text(body.get("prompt", "")), text(body.get("input", ""))]
    return "\n".join([body.get("model", ""), *filter(None, parts)])


class Host:
    def __init__(self, options):
        self.options = options
        self.caches = {}
        self.slots = asyncio.Semaphore(options.slots)
        self.prefill = asyncio.Lock()
        self.draining = False
        self.behaviour = {"refuse": False, "not_ready": False}
        self.got = []  # {"path", "model", "first", "body_bytes", "id"} of each request
        self.n_refused = self.n_waiting = self.n_running = self.n_prompt = self.n_cached = self.n_loads = 0
        self.loaded = collections.OrderedDict()
        self.tasks = set()

    # What Billow answers to questions.

    def load_text(self):
        rows = {"billow_requests_waiting": self.n_waiting, "billow_requests_running": self.n_running,
                "billow_busy_ratio": min(1, self.n_running / self.options.slots), "billow_kv_used_ratio": 0.25,
                "billow_prompt_tokens_total": self.n_prompt, "billow_prompt_cached_tokens_total": self.n_cached,
                "billow_draining": int(self.draining), "billow_ready": int(not self.draining)}
        return "".join(f"{name} {value}\n" for name, value in rows.items())

    def question(self, path):
        """Returns the status and the body of a GET."""
        if path in ("/readyz", "/health"):
            if self.draining or self.behaviour["not_ready"]:
                return 503, {"ready": False, "reasons": ["the server is shutting down" if self.draining else "asked not to be"]}
            return 200, {"ready": True}
        if path == "/metrics/load":
            return 200, self.load_text()
        if path == "/api/server":
            return 200, {"version": self.options.version, "node": self.options.node, "read_only": True, "on_network": False}
        if path == "/api/ps" or path.startswith("/api/ps?"):
            return 200, {"models": [{"name": name, "digest": "0" * 64} for name in self.loaded]}
        if path == "/control":
            return 200, {"got": self.got, "refused": self.n_refused, "prompt_tokens": self.n_prompt, "cached_tokens": self.n_cached,
                         "loads": self.n_loads}
        if path in ("/api/tags", "/v1/models"):
            self.got.append({"path": path})
            return 200, {"models": [{"name": name, "digest": self.options.digest} for name in self.options.models]}
        self.got.append({"path": path})
        return 200, {"path": path}

    # What takes time.

    async def run(self, body, write):
        """Evaluates a request. `write` sends a piece of the answer."""
        model = body.get("model", "")
        n_tokens = int(body.get("options", {}).get("num_predict") or body.get("max_tokens") or 16)
        self.n_waiting += 1
        async with self.slots:
            self.n_waiting -= 1
            self.n_running += 1
            try:
                await self.load(model)
                async with self.prefill:
                    n_prompt, n_cached = self.caches.setdefault(model, PrefixCache(self.options.cache)).take(prompt_of(body))
                    self.n_prompt += n_prompt
                    self.n_cached += n_cached
                    await asyncio.sleep((n_prompt - n_cached) / self.options.prefill)
                begin = time.monotonic()
                for i in range(n_tokens):
                    pause = begin + (i + 1) / self.options.decode - time.monotonic()
                    if pause > 0:
                        await asyncio.sleep(pause)
                    if i % self.options.piece == 0 or i == n_tokens - 1:
                        await write(i, i == n_tokens - 1, n_prompt, n_cached)
            finally:
                self.n_running -= 1

    async def load(self, model):
        if model in self.loaded:
            return self.loaded.move_to_end(model)
        self.n_loads += 1
        self.loaded[model] = None
        while len(self.loaded) > self.options.room:
            self.loaded.popitem(last=False)
        await asyncio.sleep(self.options.load_seconds)

    # HTTP.

    async def serve(self, reader, writer):
        task = asyncio.current_task()
        self.tasks.add(task)
        try:
            while True:
                request = await self.read(reader)
                if request is None or not await self.answer(*request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            writer.close()

    async def read(self, reader):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        line, *fields = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields if field)}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = b""
            while size := int(await reader.readline(), 16):
                body += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
        else:
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = line.split(" ")
        return method, path, headers, body

    def respond(self, writer, status, body, more=""):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nX-Billow-Node: {self.options.node}\r\n{more}"
                     f"Content-Length: {len(data)}\r\n\r\n".encode() + data)

    async def answer(self, method, path, headers, data, writer):
        """Returns whether the connection stays open."""
        if path == "/control" and method == "POST":
            self.behaviour.update(json.loads(data))
            self.respond(writer, 200, {})
        elif method in ("GET", "HEAD"):
            self.respond(writer, *self.question(path))
        elif self.behaviour["refuse"]:
            self.n_refused += 1
            self.respond(writer, 503, {"error": "this host is full"}, "Retry-After: 1\r\n")
        else:
            body = json.loads(data or b"{}")
            messages = body.get("messages") or [{}]
            self.got.append({"path": path, "model": body.get("model"), "first": str(messages[0].get("content", body.get("prompt", "")))[:80],
                             "body_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "id": headers.get("x-request-id")})
            if body.get("stream", path.startswith("/api/")):
                return await self.stream(body, path, writer)
            end = {}
            await self.run(body, lambda i, is_last, n_prompt, n_cached: self.note(end, n_prompt, n_cached))
            self.respond(writer, 200, {"model": body.get("model"), "node": self.options.node, "done": True, **end})
        await writer.drain()
        return not self.draining

    async def note(self, end, n_prompt, n_cached):
        end.update(prompt_eval_count=n_prompt, prompt_cached_count=n_cached)

    async def stream(self, body, path, writer):
        """Sends the head with the first piece, as Billow does, so that a balancer can still send the request to another host."""
        is_sse = path.startswith("/v1/")
        has_begun = False

        async def write(i, is_last, n_prompt, n_cached):
            nonlocal has_begun
            if not has_begun:
                kind = "text/event-stream" if is_sse else "application/x-ndjson"
                writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nX-Billow-Node: {self.options.node}\r\n"
                             "Transfer-Encoding: chunked\r\n\r\n".encode())
                has_begun = True
            line = {"message": {"content": f"w{i} "}, "done": is_last}
            if is_last:
                line |= {"prompt_eval_count": n_prompt, "prompt_cached_count": n_cached, "node": self.options.node}
            text = json.dumps(line)
            piece = (f"data: {text}\n\n" + ("data: [DONE]\n\n" if is_last else "") if is_sse else text + "\n").encode()
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" + (b"0\r\n\r\n" if is_last else b""))
            await writer.drain()

        await self.run(body, write)
        return not self.draining

    async def drain(self, server):
        """As Billow ends: not ready for a while, then no new connections, then the rest of the running requests."""
        self.draining = True
        await asyncio.sleep(self.options.drain_delay)
        server.close()
        deadline = time.monotonic() + 30
        while (self.n_waiting or self.n_running) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)


async def main(options):
    host = Host(options)
    server = await asyncio.start_server(host.serve, options.address, options.port, limit=64 << 20, backlog=1024)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # A client that resets its connection is no news.
    loop.set_exception_handler(lambda loop, context: None if isinstance(context.get("exception"), ConnectionError) else
                               loop.default_exception_handler(context))
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    print("ready", flush=True)
    await stop.wait()
    await host.drain(server)
    for task in list(host.tasks):
        task.cancel()


def parse(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--version", default="0.1.0")
    parser.add_argument("--models", nargs="*", default=["m:latest"], help="the models of the store")
    parser.add_argument("--digest", default="1" * 64, help="of all models")
    parser.add_argument("--slots", type=int, default=8, help="requests that run at the same time")
    parser.add_argument("--prefill", type=float, default=1e6, help="tokens/s")
    parser.add_argument("--decode", type=float, default=1e5, help="tokens/s of a request")
    parser.add_argument("--piece", type=int, default=4, help="tokens of a piece of a stream")
    parser.add_argument("--cache", type=int, default=60000, help="tokens of the prefix cache of each model")
    parser.add_argument("--room", type=int, default=8, help="models that are loaded at the same time")
    parser.add_argument("--load-seconds", type=float, default=0)
    parser.add_argument("--drain-delay", type=float, default=4)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asyncio.run(main(parse(sys.argv[1:])))
