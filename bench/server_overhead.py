#!/usr/bin/env python3
"""What the server itself takes: per request and per token, beside the work of the model.

server_overhead.py [--billow PROGRAM] [--json]

Per request: from its arrival at a client to its end, less what the runner says that it computed; medians of 200 requests for one
token, over one connection. Per token: processor time of the server's threads, and of the runner's threads that make no pass, while
answers of at least 3,000 tokens are written, streamed and not, and to 8 clients at once. Cold: the first token of a model that is not loaded, its file in
the page cache; medians of 9.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "server"))

from server import WEIGHTS, Server  # noqa: E402


def child_of(pid):
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "stat").read_text().rpartition(")")[2].split()[1] == str(pid):
                return int(entry.name)
    raise RuntimeError("the server has no runner")


def thread_seconds(pid):
    """Processor time of each thread of a process, by its id."""
    seconds = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            seconds[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return seconds


def spent(before, after):
    """What each thread has spent, the most first."""
    return sorted((after[task] - before.get(task, 0.0) for task in after), reverse=True)


def write_tokens(server, body, n_clients=1, n_tokens=3000):
    """Seconds of the server and of the runner beside its passes per token, and tokens a second."""
    runner = child_of(server.process.pid)
    before = thread_seconds(server.process.pid), thread_seconds(runner)
    counts = [0] * n_clients

    def write(client):
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        seed = client * 1000
        while counts[client] < n_tokens / n_clients:
            seed += 1
            counts[client] += ask(connection, {**body, "options": {**body["options"], "seed": seed}})[1]["eval_count"]
        connection.close()

    started = time.perf_counter()
    clients = [threading.Thread(target=write, args=[i]) for i in range(n_clients)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    n, wall = sum(counts), time.perf_counter() - started
    of_server = sum(spent(before[0], thread_seconds(server.process.pid)))
    # A pass is made by as many threads as there are cores.
    of_runner = sum(spent(before[1], thread_seconds(runner))[os.cpu_count():])
    return {"server_us": round(of_server / n * 1e6, 1), "runner_us": round(of_runner / n * 1e6, 1),
            "tokens_per_second": round(n / wall, 1)}


def ask(connection, body):
    started = time.perf_counter()
    connection.request("POST", "/api/generate", json.dumps(body))
    answer = json.loads(connection.getresponse().read().splitlines()[-1])
    return time.perf_counter() - started, answer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--billow", default="build/release/bin/billow")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, program=str(pathlib.Path(options.billow).resolve()))
        server.add_model("m", WEIGHTS)
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        one = {"model": "m", "prompt": "Hi", "raw": True, "stream": False, "options": {"num_predict": 1, "temperature": 0}}
        cold = []
        for _ in range(9):
            ask(connection, {"model": "m", "keep_alive": 0})
            while server.json("GET", "/api/ps")["models"]:
                time.sleep(0.01)
            cold.append(ask(connection, one)[0])
        rest = []
        for _ in range(200):
            wall, answer = ask(connection, one)
            rest.append(wall - (answer["prompt_eval_duration"] + answer.get("eval_duration", 0)) / 1e9)
        many = {"model": "m", "prompt": "Tell a story.", "options": {"num_predict": 1000, "temperature": 1.5}}
        tokens = {name: write_tokens(server, {**many, "stream": name != "whole"}, n_clients)
                  for name, n_clients in (("streamed", 1), ("whole", 1), ("8 streams", 8))}
        connection.close()
        server.stop()
    result = {"request_ms": round(statistics.median(rest) * 1e3, 3), "tokens": tokens,
              "cold_first_token_ms": round(statistics.median(cold) * 1e3, 1)}
    if options.json:
        print(json.dumps(result))
        return
    print(f"per request      {result['request_ms']:8.3f} ms beside the model's work")
    print(f"cold first token {result['cold_first_token_ms']:8.1f} ms")
    for name, row in tokens.items():
        print(f"per token, {name + ':':<11} {row['server_us']:6.1f} us of the server, {row['runner_us']:6.1f} us of the runner beside its passes, "
              f"{row['tokens_per_second']:.1f} tokens/s")


if __name__ == "__main__":
    main()
