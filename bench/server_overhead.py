#!/usr/bin/env python3
"""What the server itself takes: per request and per token, beside the work of the model.

server_overhead.py [--billow PROGRAM] [--json]

Per request: from its arrival at a client to its end, less what the runner says that it computed; medians of 200 requests for one
token, over one connection. Per token: processor time of the server's process while answers of 1,000 tokens are streamed. Cold:
the first token of a model that is not loaded, its file in the page cache; medians of 9.
"""

import argparse
import http.client
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "server"))

from server import WEIGHTS, Server  # noqa: E402


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
        many = {"model": "m", "prompt": "Tell a story.", "options": {"num_predict": 1000, "temperature": 1.5, "seed": 3}}
        before, n_tokens, wall = processor_seconds(server.process.pid), 0, 0.0
        while n_tokens < 5000:
            seconds, answer = ask(connection, many)
            n_tokens += answer["eval_count"]
            wall += seconds
        per_token = (processor_seconds(server.process.pid) - before) / n_tokens
        connection.close()
        server.stop()
    result = {"request_ms": round(statistics.median(rest) * 1e3, 3), "token_us": round(per_token * 1e6, 1),
              "tokens_per_second": round(n_tokens / wall, 1), "cold_first_token_ms": round(statistics.median(cold) * 1e3, 1)}
    if options.json:
        print(json.dumps(result))
        return
    print(f"per request      {result['request_ms']:8.3f} ms beside the model's work")
    print(f"per token        {result['token_us']:8.1f} us of the server's processor time")
    print(f"cold first token {result['cold_first_token_ms']:8.1f} ms")
    print(f"streaming        {result['tokens_per_second']:8.1f} tokens/s")


if __name__ == "__main__":
    main()
