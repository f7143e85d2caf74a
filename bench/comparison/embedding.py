"""The texts to embed, and the servers that embed them. Each server handles POST /v1/embeddings."""

import http.client
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import threading
import time

from comparison import programs

N_TEXTS = 1024


def whole_words(vocabulary):
    return [word for word in vocabulary if word.isalpha() and word.isascii() and 2 < len(word) < 11]


def texts_of_tokens(vocabulary, n_tokens, n, seed=1):
    """Returns n texts of n_tokens tokens each, including the two tokens around the text."""
    chance, words = random.Random(seed), whole_words(vocabulary)
    return [" ".join(chance.choice(words) for _ in range(n_tokens - 2)) for _ in range(n)]


def corpus(vocabulary, n=N_TEXTS, seed=1):
    """Returns texts of 4 to 220 words of a WordPiece vocabulary; the median is 30. Uses only whole words."""
    words = whole_words(vocabulary)
    chance = random.Random(seed)
    out = []
    for _ in range(n):
        n_words = max(4, min(220, round(chance.lognormvariate(3.4, 0.75))))
        text = " ".join(chance.choice(words[: len(words) // 4] if chance.random() < 0.9 else words) for _ in range(n_words))
        out.append(text.capitalize() + ".")
    return out


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class EmbeddingServer:
    """A server that runs for one turn: its command, and the name of the model in requests."""

    def __init__(self, name, model):
        self.name, self.model, self.port, self.process = name, model, free_port(), None

    def start(self, command, environment=None):
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            try:
                if self.ask(["warm"])[0] == 200:
                    return self
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise programs.Skipped(f"{command[0]}: does not respond")
            time.sleep(0.05)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def residents(self):
        """Returns the resident bytes of the server and of each process that it has started."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children")
        pids = [self.process.pid] + [int(pid) for file in children for pid in file.read_text().split()]
        pages = [int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids]
        return [n * os.sysconf("SC_PAGESIZE") for n in pages]

    def resident(self):
        return sum(self.residents())

    def ask(self, texts, connection=None, client=None):
        """Returns the status and the unparsed body. Requests with the same client name count as one client."""
        connection = connection or self.connect()
        body = json.dumps({"model": self.model, "input": texts})
        headers = {"Content-Type": "application/json"} | ({"X-Billow-Client": client} if client else {})
        connection.request("POST", "/v1/embeddings", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


class BillowServer(EmbeddingServer):
    """`billow serve` with a separate store. Converts the safetensors once for each weight format."""

    def __init__(self, program, safetensors, folder, threads, name="billow", arguments=()):
        super().__init__(name, "")
        self.arguments = list(arguments)
        self.program, self.safetensors, self.threads = str(program), safetensors, threads
        self.store = pathlib.Path(folder) / "store"

    def environment(self):
        return {**os.environ, "OLLAMA_HOST": f"127.0.0.1:{self.port}", "OLLAMA_MODELS": str(self.store),
                "OLLAMA_KEEP_ALIVE": "-1"}

    def create(self, weights):
        """Returns the path of the GGUF file."""
        server = subprocess.Popen([self.program, "serve"], env=self.environment(), stderr=subprocess.DEVNULL)
        try:
            for _ in range(100):
                done = subprocess.run([self.program, "create", weights, "-q", weights], env=self.environment(),
                                      cwd=self.safetensors, capture_output=True, check=False)
                if b"could not connect" not in done.stderr:
                    break
                time.sleep(0.1)
            if done.returncode != 0:
                raise programs.Skipped(programs.last_line(done.stderr))
        finally:
            server.terminate()
            server.wait()
        manifest = self.store / "manifests/registry.ollama.ai/library" / weights / "latest"
        layers = json.loads(manifest.read_text())["layers"]
        digest = next(layer["digest"] for layer in layers if layer["mediaType"].endswith("image.model"))
        return self.store / "blobs" / digest.replace(":", "-")

    def passes(self):
        """Returns the tokens and seconds of all passes. Waits until the server, which polls the runner, has counted all passes."""
        last = None
        while True:
            connection = self.connect()
            connection.request("GET", "/metrics")
            now = passes_of(connection.getresponse().read().decode())
            connection.close()
            if now == last:
                return now
            last = now
            time.sleep(1)

    def open(self, weights, _):
        self.model = weights
        command = [self.program, "serve", *self.arguments] + (["--threads", str(self.threads)] if self.threads else [])
        return self.start(command, self.environment())


class LlamaServer(EmbeddingServer):
    """llama.cpp's llama-server, with the options that embed fastest."""

    def __init__(self, llama, threads):
        super().__init__(llama.name, "m")
        self.llama, self.threads = llama, str(threads)

    def open(self, _, path):
        return self.start(self.llama.needed("llama-server") + [
            "-m", self.llama.visible(path), "--embeddings", "--pooling", "mean", "-t", self.threads, "-tb", self.threads,
            "-b", "2048", "-ub", "2048", "-np", "8", "-c", "4096", "--port", str(self.port)])


class Client(threading.Thread):
    """Sends one request after the other until there are no more texts, or until it is stopped."""

    def __init__(self, server, take, name=None):
        super().__init__()
        self.server, self.take, self.client, self.times, self.failure = server, take, name, [], None

    def run(self):
        connection = self.server.connect()
        while texts := self.take():
            began = time.perf_counter()
            try:
                status, body = self.server.ask(texts, connection, self.client)
            except (OSError, http.client.HTTPException) as error:
                self.failure = str(error)
                return
            if status != 200:
                self.failure = f"{status}: {body[:200]!r}"
                return
            self.times.append(time.perf_counter() - began)


def slices(texts, n):
    """Returns a thread-safe function that returns the next n texts, or None at the end."""
    lock, parts = threading.Lock(), iter([texts[i : i + n] for i in range(0, len(texts), n)])

    def take():
        with lock:
            return next(parts, None)

    return take


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def passes_of(metrics):
    """Returns the tokens and the seconds of all passes of all models."""
    values = {"billow_embed_batch_tokens_sum": 0.0, "billow_embed_inference_seconds_sum": 0.0}
    for line in metrics.splitlines():
        name, _, value = line.rpartition(" ")
        for what in values:
            if name.startswith(what):
                values[what] += float(value)
    return tuple(values.values())


def figures(times, texts_per_second=0.0):
    """Returns statistics of the requests' seconds, in ms."""
    times = [1000 * time for time in times]
    return {"texts_per_second": texts_per_second, "p50_ms": statistics.median(times), "p95_ms": percentile(times, 0.95),
            "p99_ms": percentile(times, 0.99)}


def run_all(clients):
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    check(clients)


def check(clients):
    for client in clients:
        if client.failure:
            raise programs.Skipped(client.failure)


def load(server, texts, n_clients, n_a_request):
    """Returns texts per second, request times, and the memory of the server at the end."""
    take = slices(texts, n_a_request)
    clients = [Client(server, take) for _ in range(n_clients)]
    began = time.perf_counter()
    run_all(clients)
    seconds = time.perf_counter() - began
    return figures([time for client in clients for time in client.times], len(texts) / seconds) | {"resident_bytes": server.resident()}


def with_bulk(server, texts, n_single=200, n_bulk=32, n_in_flight=1):
    """Returns the request times of a client with one text at a time, in parallel with a client whose requests have n_bulk texts each."""
    over = threading.Event()
    bulk = [Client(server, lambda: None if over.is_set() else texts[:n_bulk], "bulk") for _ in range(n_in_flight)]
    single = Client(server, slices(texts[n_bulk : n_bulk + n_single], 1), "single")
    for client in bulk:
        client.start()
    time.sleep(0.5)
    single.start()
    single.join()
    over.set()
    for client in bulk:
        client.join()
    check([single, *bulk])
    return figures(single.times) | {"resident_bytes": server.resident()}


PASS_TOKENS = 2048  # default of --n-batch


def fairness(server, texts, n_single=200):
    """Measures a client with one text at a time: alone, and in parallel with a client with 64 texts per request and one waiting
    request. Also measures the time of a full pass meanwhile, from the mean over all tokens. The bound is two full passes plus
    the time of the text alone."""
    single = Client(server, slices(texts[64 : 64 + n_single], 1), "single")
    run_all([single])
    alone = figures(single.times)
    tokens_before, seconds_before = server.passes()
    loaded = with_bulk(server, texts, n_single, n_bulk=64, n_in_flight=2)
    tokens, seconds = server.passes()
    pass_ms = 1000 * PASS_TOKENS * (seconds - seconds_before) / max(1, tokens - tokens_before)
    return {"alone": alone, "beside": loaded, "pass_ms": pass_ms, "bound_ms": 2 * pass_ms + alone["p50_ms"]}


def packing(server, texts):
    """Returns texts per second of one client, in requests of 32 texts and of one text."""
    load(server, texts[:64], 1, 32)  # warm
    return {"packed": load(server, texts, 1, 32)["texts_per_second"], "single": load(server, texts, 1, 1)["texts_per_second"]}
