"""Tests many parallel clients on a real model: answers equal those given alone, and nothing leaks.

load_test.py --billow PROGRAM [--seconds 20] [--clients 64] [--kill]

Each client asks one of a set of prompts with greedy sampling, by a route of either API, streamed or not. A tenth of the requests
is cancelled midway. With --kill, the runner is killed at random moments. Prints measurements.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import signal
import statistics
import sys
import tempfile
import threading
import time

from server import WEIGHTS, Server

QUESTIONS = [
    "What is the capital of France?", "Count to ten.", "Why is the sky blue?", "Name three colours.",
    "Write a sentence about the sea. " * 12, "Tell me a story about a fox.", "What is 2 + 2?",
    "Summarise: " + "The quick brown fox jumps over the lazy dog. " * 40,
]
TOKENS = [8, 24, 48]
# Asked only before and after the load, because a request that two kills have hit is refused for a minute.
LAST = ("/api/generate", {"model": "m", "prompt": "Name a river.", "options": {"temperature": 0, "num_predict": 24}, "stream": True})


class Lost(Exception):
    """The answer failed or was cut off after it had started."""


def bodies():
    """Returns every kind of request: path, body, whether it streams."""
    for question in QUESTIONS:
        for n_tokens in TOKENS:
            options = {"temperature": 0, "num_predict": n_tokens}
            messages = [{"role": "user", "content": question}]
            for stream in (False, True):
                yield "/api/chat", {"model": "m", "messages": messages, "options": options, "stream": stream}
            yield "/api/generate", {"model": "m", "prompt": question, "options": options, "stream": True}
            yield "/v1/chat/completions", {"model": "m", "messages": messages, "temperature": 0, "max_tokens": n_tokens,
                                           "stream": True}


def text_of(path, line):
    if path.startswith("/v1"):
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            return "", line.startswith(b"data: [DONE]")
        chunk = json.loads(line[6:])
        if "error" in chunk:
            raise Lost(chunk["error"]["message"])
        return (chunk["choices"][0]["delta"].get("content") or "" if chunk["choices"] else ""), False
    part = json.loads(line)
    if "error" in part:
        raise Lost(part["error"])
    text = part["response"] if "response" in part else part["message"]["content"]
    return text, part["done"]


def ask(port, path, body, cancel_after=None):
    """Returns the status and the text of an answer; (0, None) if it was cancelled."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        if answer.status != 200:
            return answer.status, answer.read().decode()
        text, done, n_lines = "", False, 0
        try:
            for line in answer:
                if not line.strip():
                    continue
                n_lines += 1
                if cancel_after is not None and n_lines > cancel_after:
                    return 0, None
                part, ended = text_of(path, line)
                text += part
                done = done or ended
        except (OSError, http.client.HTTPException) as error:
            raise Lost(f"broken off: {error!r}") from error
        if not done:
            raise Lost("no end")
        return 200, text
    finally:
        connection.close()


def resident(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Load:
    def __init__(self, server, expected, seconds, kills):
        self.server = server
        self.kills = kills
        self.requests = list(bodies())
        self.expected = expected
        self.until = time.monotonic() + seconds
        self.lock = threading.Lock()
        self.n = {"answered": 0, "cancelled": 0, "refused": 0, "lost": 0}
        self.wrong, self.lost, self.others = [], [], []

    def client(self, seed):
        random_ = random.Random(seed)
        while time.monotonic() < self.until:
            index = random_.randrange(len(self.requests))
            path, body = self.requests[index]
            cancel_after = random_.randrange(4) if body["stream"] and random_.random() < 0.1 else None
            try:
                status, text = ask(self.server.port, path, body, cancel_after)
            except Lost as error:
                self.count("lost")
                self.lost.append(str(error))
                continue
            except OSError as error:
                self.others.append(repr(error))
                continue
            if status == 0:
                self.count("cancelled")
            elif status == 200:
                self.count("answered")
                if text != self.expected[index]:
                    self.wrong.append((path, body, text, self.expected[index]))
            elif status == 503:
                self.count("refused")
            elif self.kills and "ended twice" in text:
                self.count("lost")  # two kills hit this request, or an equal one
            else:
                self.others.append(f"{status} {text}")

    def count(self, what):
        with self.lock:
            self.n[what] += 1

    def run(self, n_clients, meanwhile):
        threads = [threading.Thread(target=self.client, args=(seed,)) for seed in range(n_clients)]
        for thread in threads:
            thread.start()
        while time.monotonic() < self.until:
            meanwhile()
        for thread in threads:
            thread.join()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--billow", required=True)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--show-log", action="store_true")
    options = parser.parse_args()
    if not WEIGHTS.exists():
        print(f"skipped: no model at {WEIGHTS}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, program=str(pathlib.Path(options.billow).resolve()))
        try:
            return run(server, options)
        finally:
            code = server.stop()
            if options.show_log:
                print(server.log.read_text()[-4000:])
            print(f"the server ended with {code}")


def run(server, options):
    server.add_model("m")
    expected = []
    for path, body in bodies():
        status, text = ask(server.port, path, body)
        assert status == 200, text
        expected.append(text)
    status, last = ask(server.port, *LAST)
    assert status == 200, last
    warm = {"server": resident(server.process.pid), "files": open_files(server.process.pid)}
    samples = []
    n_kills = 0

    n_then = 0

    def meanwhile():
        nonlocal n_kills, n_then
        if options.kill and not (n_kills and load.n["answered"]) and time.monotonic() < started + 300:
            load.until = max(load.until, time.monotonic() + 10)  # a busy machine needs longer
        # The first kills come soon, for short runs.
        time.sleep(random.uniform(0.5, 2.5 if n_kills < 3 else 7) if options.kill else 0.5)
        runners = server.runners()
        if runners:
            try:
                samples.append((resident(server.process.pid), resident(runners[0])))
                # Kill only runners that have answered: the server gives up a model whose runners always die while loading.
                if options.kill and load.n["answered"] > n_then:
                    os.kill(runners[0], signal.SIGKILL)
                    n_kills += 1
                    n_then = load.n["answered"]
            except (OSError, ValueError):
                pass  # the runner has just ended

    load = Load(server, expected, options.seconds, options.kill)
    before = server.json("GET", "/api/ps")
    started = time.monotonic()
    load.run(options.clients, meanwhile)
    elapsed = time.monotonic() - started
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:  # cancelled requests must end, too
        text = server.request("GET", "/metrics/load")[2].decode()
        running = [line for line in text.splitlines() if line.startswith(("billow_requests_running ", "billow_requests_waiting "))]
        if all(line.endswith(" 0") for line in running):
            break
        time.sleep(0.1)
    metrics = server.request("GET", "/metrics")[2].decode()
    generated = sum(float(line.split()[-1]) for line in metrics.splitlines()
                    if line.startswith("billow_generated_tokens_total{"))
    result = {**load.n, "seconds": round(elapsed, 1), "kills": n_kills, "generated tokens/s": round(generated / elapsed, 1),
              "server MiB": [round(warm["server"] / 2**20, 1), round(resident(server.process.pid) / 2**20, 1)],
              "open files": [warm["files"], open_files(server.process.pid)], "children": len(server.runners()),
              "running": running}
    if samples and not options.kill:
        third = max(1, len(samples) // 3)
        result["runner MiB, first and last third"] = [
            round(statistics.median(sample[1] for sample in part) / 2**20, 1) for part in (samples[:third], samples[-third:])]
    print(json.dumps(result, indent=1))
    faults = []
    if load.wrong:
        faults.append(f"{len(load.wrong)} wrong answers, such as {load.wrong[0]}")
    if load.others:
        faults.append(f"{len(load.others)} other errors, such as {load.others[0]}")
    if load.lost and not options.kill:
        faults.append(f"{len(load.lost)} lost answers, such as {load.lost[0]}")
    if options.kill and (n_kills == 0 or load.n["answered"] == 0):
        faults.append("there was no kill, or no answer")
    if not all(line.endswith(" 0") for line in running):
        faults.append(f"cancelled requests still run: {running}")
    if len(server.runners()) > 1:
        faults.append(f"{len(server.runners())} children")
    if open_files(server.process.pid) > warm["files"] + 40:
        faults.append("open files are left")
    if not options.kill and before["models"][0]["digest"] != server.json("GET", "/api/ps")["models"][0]["digest"]:
        faults.append("another model is loaded")
    loads = sum(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith("billow_model_loads_total{"))
    if not options.kill and loads > 1:
        faults.append(f"{loads} loads")
    status, text = ask(server.port, *LAST)
    if status != 200 or text != last:
        faults.append(f"the server is unhealthy afterwards: {status} {text}")
    for fault in faults:
        print("FAILED:", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
