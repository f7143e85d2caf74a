"""Tests all routes in parallel on real models with too little memory: every answer equals the one given alone, and nothing leaks.

soak_test.py --billow PROGRAM [--seconds 30] [--clients 64] [--seed N] [--share 0.6] [--no-kill]

1. A server without a tight budget answers each case alone. These answers are the expected ones.
2. The clients run for a short time with enough memory. The memory that the models then hold is their demand.
3. A server with a share of that memory serves all clients. Runners are killed and requests are cancelled at random moments.

Each client draws its cases at random. The seed makes the draws repeatable, not the timing. Prints a summary as JSON and exits with 1 after a
wrong answer, a refusal, a leak or a slow /healthz. Exits with 77 if a model is missing.
"""

import argparse
import collections
import dataclasses
import http.client
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import prometheus_text
from load_test import open_files, resident
from reranker_model import MINILM, write_reranker
from server import MODELS, WEIGHTS, Server

WRITERS = {"smollm2": WEIGHTS, "qwen": MODELS / "qwen2.5-coder-0.5b-q4_k_m.gguf", "gemma": MODELS / "gemma3-270m-q4_k_m.gguf"}
WORDS = ("the river carries boats towards an old harbour where merchants trade silk pepper and glass while children watch from windows "
         "above narrow streets and the lamps are lit before the evening bell calls everybody home").split()
DEATH = re.compile(r"(runner|process).*(ended|died|crash|signal|killed|lost)", re.IGNORECASE | re.DOTALL)
WAIT_SECONDS = 3000  # for an answer: many clients share two cores


class Lost(Exception):
    """The answer broke off, or ended with an error, because a runner died."""


@dataclasses.dataclass
class Case:
    """A request whose answer does not depend on what else the server does."""

    name: str
    path: str
    body: dict
    weight: float
    expected: object = None


def prose(seed, n_words):
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) for _ in range(n_words))


def writing_cases():
    for model in WRITERS:
        for i, n_words in enumerate((4, 30, 300)):
            text = f"Continue this text: {prose(i, n_words)}"
            greedy = {"temperature": 0, "num_predict": (60, 24, 8)[i]}
            sampled = {"temperature": 0.9, "seed": 7 + i, "num_predict": 32}
            messages = [{"role": "user", "content": text}]
            yield Case("generate", "/api/generate", {"model": model, "prompt": text, "options": greedy}, 4)
            yield Case("generate whole", "/api/generate", {"model": model, "prompt": text, "options": sampled, "stream": False}, 2)
            yield Case("raw", "/api/generate", {"model": model, "prompt": text, "raw": True, "options": sampled}, 2)
            yield Case("chat", "/api/chat", {"model": model, "messages": messages, "options": sampled}, 4)
            yield Case("v1 chat", "/v1/chat/completions", {"model": model, "messages": messages, "temperature": 0, "max_tokens": 24, "stream": True}, 4)
            yield Case("v1 completion", "/v1/completions", {"model": model, "prompt": text, "temperature": 0, "max_tokens": 16, "stream": True}, 2)
        for n_words in (5000, 5001):
            messages = [{"role": "user", "content": f"Summarise: {prose(n_words, n_words)}"}]
            yield Case("paste", "/api/chat", {"model": model, "messages": messages, "options": {"temperature": 0, "num_predict": 12}}, 0.25)


def embedding_cases():
    for i, n_texts in enumerate((1, 1, 8, 40)):
        texts = [prose(100 * i + k, 3 + (k * k) % 150) for k in range(n_texts)]
        yield Case("embed", "/api/embed", {"model": "minilm", "input": texts}, 2)
        yield Case("v1 embeddings", "/v1/embeddings", {"model": "minilm", "input": texts}, 2)
        yield Case("rerank", "/v1/rerank", {"model": "reranker", "query": "boats in a harbour", "documents": texts}, 2)
    yield Case("embed by a writer", "/api/embed", {"model": "smollm2", "input": [prose(5, 40), "short"]}, 1)


def conversation(server, n_turns):
    """The requests of one chat that overflows the context of SmolLM2, each with the answers so far."""
    messages = [{"role": "system", "content": "You answer briefly."}]
    for turn in range(n_turns):
        messages.append({"role": "user", "content": f"Part {turn}. {prose(1000 + turn, 640)}"})
        body = {"model": "smollm2", "messages": list(messages), "options": {"temperature": 0, "num_predict": 24}}
        case = Case("long chat", "/api/chat", body, 0.15)
        case.expected = ask(server.port, case)
        messages.append({"role": "assistant", "content": case.expected})
        yield case


def text_of(path, part):
    """The text of one part of a stream, and whether it is the last."""
    if "error" in part:
        error = part["error"]
        message = error["message"] if isinstance(error, dict) else error
        raise Lost(message)
    if path.startswith("/v1"):
        choice = part["choices"][0] if part["choices"] else {}
        return choice.get("text") or choice.get("delta", {}).get("content") or "", False
    if "response" in part:
        return part["response"], part["done"]
    return part["message"]["content"], part["done"]


def read_stream(answer, path, cancel_after):
    text, done = "", False
    for n, line in enumerate(answer):
        if cancel_after is not None and n >= cancel_after:
            return None
        line = line.strip().removeprefix(b"data: ")
        if not line or line.startswith(b":"):
            continue
        if line == b"[DONE]":
            done = True
            continue
        part, ended = text_of(path, json.loads(line))
        text, done = text + part, done or ended
    if not done:
        raise Lost("the runner ended: the stream has no end")
    return text


def read_whole(path, answer):
    if path.endswith("embed"):
        return answer["embeddings"]
    if path.endswith("embeddings"):
        return [entry["embedding"] for entry in answer["data"]]
    if path.endswith("rerank"):
        return answer["results"]
    return text_of(path, answer)[0]


class Refused(Exception):
    """A status other than 200."""


def ask(port, case, cancel_after=None):
    """The answer of a case; None if it was cancelled. Throws Refused or Lost."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    try:
        connection.request("POST", case.path, json.dumps(case.body))
        answer = connection.getresponse()
        if answer.status != 200:
            raise Refused(f"{answer.status} {answer.read().decode()}")
        if "json" in answer.headers["Content-Type"] and "ndjson" not in answer.headers["Content-Type"]:
            return read_whole(case.path, json.loads(answer.read()))
        try:
            return read_stream(answer, case.path, cancel_after)
        except (http.client.HTTPException, ConnectionError) as error:
            raise Lost(f"the runner ended: {error!r}") from error
    finally:
        connection.close()


class Clients:
    """Threads that run random cases and other routes until the time is over."""

    def __init__(self, server, cases, seconds, seed):
        self.server, self.cases, self.seed = server, cases, seed
        self.until = time.monotonic() + seconds
        self.lock = threading.Lock()
        self.n = collections.Counter()
        self.faults = []
        self.seconds_of = collections.defaultdict(list)
        self.lost = collections.Counter()

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    def client(self, number):
        chance = random.Random(f"{self.seed} {number}")
        weights = [case.weight for case in self.cases]
        while time.monotonic() < self.until and len(self.faults) < 20:
            if chance.random() < 0.08:
                self.look_around(chance, number)
                continue
            case = chance.choices(self.cases, weights)[0]
            cancel_after = chance.randrange(6) if chance.random() < 0.1 else None
            started = time.monotonic()
            try:
                answer = ask(self.server.port, case, cancel_after)
            except Lost as error:
                with self.lock:
                    self.lost[str(error)[:120]] += 1
                continue
            except Refused as error:
                if DEATH.search(str(error)):
                    with self.lock:
                        self.lost[str(error)[:120]] += 1
                else:
                    self.fault(f"{case.name} ({case.body['model']}) was refused: {error}")
                continue
            except Exception as error:
                self.fault(f"{case.name} ({case.body['model']}): {error!r}")
                continue
            with self.lock:
                self.n["cancelled" if answer is None else case.name] += 1
                self.seconds_of[case.name].append(time.monotonic() - started)
            if answer is not None and answer != case.expected:
                self.fault(f"{case.name} ({case.body['model']}): {str(answer)[:300]!r} instead of {str(case.expected)[:300]!r}")

    def look_around(self, chance, number):
        """One of the routes that write nothing."""
        model = chance.choice([*WRITERS, "minilm", "reranker"])
        name = f"copy-{number}"
        steps = chance.choice([
            [("GET", "/api/tags", None)], [("GET", "/api/ps", None)], [("GET", "/metrics", None)], [("GET", "/v1/models", None)],
            [("POST", "/api/show", {"model": model})], [("GET", f"/readyz?model={model}&loadable=1", None)], [("GET", "/api/trace", None)],
            [("POST", "/tokenize", {"model": model, "content": prose(number, 50)})],
            [("POST", "/api/copy", {"source": model, "destination": name}), ("DELETE", "/api/delete", {"model": name})],
            [("POST", "/api/generate", {"model": chance.choice([*WRITERS])})],
            [("POST", "/api/generate", {"model": chance.choice([*WRITERS]), "keep_alive": 0})],
        ])
        for method, path, body in steps:
            try:
                status, _, text = self.server.request(method, path, body)
            except OSError as error:
                self.fault(f"{method} {path}: {error!r}")
                continue
            with self.lock:
                self.n[f"{method} {path.partition('?')[0]}"] += 1
            if status != 200 and not (path.startswith("/readyz") and status == 503) and not DEATH.search(text.decode()):
                self.fault(f"{method} {path}: {status} {text.decode()[:300]}")

    def run(self, n_clients, meanwhile):
        threads = [threading.Thread(target=self.client, args=(number,), daemon=True) for number in range(n_clients)]
        for thread in threads:
            thread.start()
        while time.monotonic() < self.until and len(self.faults) < 20:
            meanwhile()
        for thread in threads:
            thread.join()


def samples_of(server):
    return prometheus_text.parse(server.request("GET", "/metrics")[2].decode())[0]


def held_bytes(server):
    return prometheus_text.total(samples_of(server), "billow_model_held_bytes")


def start(folder, arguments):
    """A server on a store that later servers share."""
    return Server(folder, arguments, program=str(pathlib.Path(options.billow).resolve()))


def add_models(server, folder):
    for name, path in WRITERS.items():
        server.add_model(name, path)
    reranker = pathlib.Path(folder) / "reranker"
    reranker.mkdir()
    write_reranker(reranker)
    for name, where in (("minilm", MINILM), ("reranker", reranker)):
        done = subprocess.run([server.program, "create", name], cwd=where, env=server.environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()


def wait_until_idle(server):
    """Whether nothing runs or waits, within a minute: cancelled requests have to end, too."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        samples = samples_of(server)
        if not any(prometheus_text.total(samples, name) for name in ("billow_requests_running", "billow_requests_waiting")):
            return True
        time.sleep(0.1)
    return False


def probe(url):
    """Asks /healthz every 50 ms until standard input ends, then prints the times. A process of its own: no lock of Python's delays it."""
    host = url.removeprefix("http://")
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    times, failures = [], 0
    while not ended.wait(0.05):
        started = time.monotonic()
        connection = http.client.HTTPConnection(host, timeout=30)
        try:
            connection.request("GET", "/healthz")
            failures += connection.getresponse().status != 200
        except OSError:
            failures += 1
        connection.close()
        times.append(time.monotonic() - started)
    json.dump({"n": len(times), "failures": failures, "p50 ms": round(1e3 * statistics.median(times), 1),
               "p99 ms": round(1e3 * statistics.quantiles(times, n=100)[98], 1), "max ms": round(1e3 * max(times), 1)}, sys.stdout)


class Killer:
    """Kills a runner now and then. Spares a runner that did no work since the last kill, because the server would give up its model."""

    def __init__(self, server, clients, seed):
        self.server, self.clients, self.chance = server, clients, random.Random(f"{seed} kills")
        self.n_kills, self.n_before = 0, 0
        self.next = time.monotonic() + 5

    def perhaps(self):
        answered = sum(self.clients.n.values())
        runners = self.server.runners()
        if time.monotonic() < self.next or answered < self.n_before + 20 or not runners:
            return
        try:
            os.kill(self.chance.choice(runners), signal.SIGKILL)
        except ProcessLookupError:
            return
        self.n_kills, self.n_before = self.n_kills + 1, answered
        self.next = time.monotonic() + self.chance.uniform(5, 30)


def soak(server, cases, budget):
    prober = subprocess.Popen([sys.executable, __file__, "--probe", server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    clients = Clients(server, cases, options.seconds, options.seed)
    killer = Killer(server, clients, options.seed)
    memory, n_fds = [], []

    def meanwhile():
        time.sleep(0.5)
        memory.append((resident(server.process.pid), held_bytes(server)))
        n_fds.append(open_files(server.process.pid))
        if not options.no_kill:
            killer.perhaps()

    clients.run(options.clients, meanwhile)
    health = json.loads(prober.communicate(timeout=60)[0])
    faults = clients.faults
    if not wait_until_idle(server):
        faults.append("requests still run or wait after all clients have disconnected")
    slice_ = max(1, len(memory) // 10)
    early, late = ([round(statistics.median(row[i] for row in rows) / 2**20, 1) for i in (0, 1)] for rows in (memory[slice_:2 * slice_] or memory, memory[-slice_:]))
    samples = samples_of(server)
    summary = {
        "answers": dict(sorted(clients.n.items())), "lost by kills": dict(clients.lost), "kills": killer.n_kills, "healthz": health,
        "budget MiB": round(budget / 2**20, 1), "held MiB, max": round(max(row[1] for row in memory) / 2**20, 1),
        "server and held MiB, second tenth": early, "and last tenth": late, "open files": [n_fds[0], max(n_fds), open_files(server.process.pid)],
        "loads": prometheus_text.total(samples, "billow_model_loads_total"),
        "generated tokens": prometheus_text.total(samples, "billow_generated_tokens_total"),
        "seconds, median and max": {name: [round(statistics.median(times), 2), round(max(times), 2)] for name, times in sorted(clients.seconds_of.items())},
    }
    print(json.dumps(summary, indent=1))
    if max(row[1] for row in memory) > budget:
        faults.append("the models held more than the budget")
    if open_files(server.process.pid) > n_fds[0] + 40:
        faults.append("open files are left")
    if health["failures"]:
        faults.append(f"/healthz failed {health['failures']} times")
    if options.seconds >= 600 and late[0] > 1.1 * early[0] + 4:
        faults.append(f"the server grew from {early[0]} to {late[0]} MiB")
    if killer.n_kills == 0 and clients.lost:
        faults.append(f"answers were lost without a kill: {dict(clients.lost)}")
    for case in cases[:3]:
        try:
            if ask(server.port, case) != case.expected:
                faults.append(f"{case.name} is wrong afterwards")
        except Refused as error:  # two kills have hit it: the server refuses it for a minute
            if not DEATH.search(str(error)):
                faults.append(f"{case.name} is refused afterwards: {error}")
    return faults


def main():
    with tempfile.TemporaryDirectory() as folder:
        server = start(folder, ["--keep-alive", "-1"])  # the memory of all models together is measured
        try:
            add_models(server, folder)
            cases = [*writing_cases(), *embedding_cases()]
            for case in cases:
                case.expected = ask(server.port, case)
            cases += conversation(server, 14 if options.seconds >= 600 else 8)
            held = []
            free = Clients(server, cases, min(60, options.seconds / 2), options.seed + 1)
            free.run(options.clients, lambda: (time.sleep(0.2), held.append(held_bytes(server))))
            faults = [f"with enough memory: {fault}" for fault in free.faults]
        finally:
            server.stop()
        budget = int(options.share * max(held))
        print(f"{len(cases)} cases; models want {max(held) / 2**20:.0f} MiB and get {budget / 2**20:.0f}; seed {options.seed}", flush=True)
        server = start(folder, ["--memory", str(budget)])
        try:
            faults += soak(server, cases, budget)
        finally:
            code = server.stop()
            if options.log:
                pathlib.Path(options.log).write_bytes(server.log.read_bytes())
        if code != 0:
            faults.append(f"the server ended with {code}")
        for fault in faults:
            print("FAILED:", fault)
        return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--billow")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--share", type=float, default=0.6)
    parser.add_argument("--no-kill", action="store_true")
    parser.add_argument("--log", help="where to keep the server's log")
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        sys.exit(probe(options.probe))
    missing = [path for path in (*WRITERS.values(), MINILM) if not path.exists()]
    if missing:
        print(f"skipped: no model at {missing[0]}; tools/setup models fetches it")
        sys.exit(77)
    sys.exit(main())
