#!/usr/bin/env python3
"""Measures the server's overhead per request and per token, without the work of the model.

server_overhead.py [--billow PROGRAM] [--json]

Per request: the time from the send to the end of the response, minus the computing time that the runner reports. Medians of 200 requests
for one token over one connection.

Per token: processor time of the server's threads and of the runner's threads that compute no pass. The answers have at least 3,000
tokens in total: streamed, not streamed, and to 8 parallel clients.

Cold: the time to the first token of a model that is not loaded. Its file is in the page cache. Medians of 9.
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
    """Returns the processor time of each thread of a process, by thread id."""
    seconds = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            seconds[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return seconds


def spent(before, after):
    """Returns the time of each thread, largest first."""
    return sorted((after[task] - before.get(task, 0.0) for task in after), reverse=True)


def write_tokens(server, body, n_clients=1, n_tokens=3000):
    """Returns the time of the server and of the runner per token, without passes, and the tokens per second."""
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
    # A pass uses as many threads as there are cores. They have the largest times.
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
    print(f"per request      {result['request_ms']:8.3f} ms in addition to the model's work")
    print(f"cold first token {result['cold_first_token_ms']:8.1f} ms")
    for name, row in tokens.items():
        print(f"per token, {name + ':':<11} {row['server_us']:6.1f} us of the server, {row['runner_us']:6.1f} us of the runner without passes, "
              f"{row['tokens_per_second']:.1f} tokens/s")


if __name__ == "__main__":
    main()
