"""Tests that clients of long sampled answers read exactly the text of the tokens, for any reader and any parallel requests.

long_text_test.py --billow PROGRAM [--seconds S] [--seed N] [--keep FOLDER]

Runs rounds of requests to /api/generate on all models in parallel. In each round, some clients read immediately. Others read slowly
until all others have their whole answer, so that pieces are merged. The answer's `context` has the tokens. The test decodes them with
vocabulary.py, and also with the Python package `tokenizers` if it is installed, and compares the text with the stream. Each request
is repeated alone without a stream, and must give the same tokens and text. Requests have stop strings, several temperatures, and
contexts so small that they are compacted. Without --seconds there is one short round. Prints a summary as JSON; exits with 77 if
there is no model.
"""

import argparse
import collections
import http.client
import importlib.util
import json
import pathlib
import random
import re
import socket
import sys
import tempfile
import threading
import time

from server import MODELS, WEIGHTS, Server
from vocabulary import Vocabulary

PATHS = {"smollm2": WEIGHTS, "qwen": MODELS / "qwen2.5-coder-0.5b-q4_k_m.gguf", "gemma": MODELS / "gemma3-270m-q4_k_m.gguf"}
PROMPTS = ["Name two colours.", "Write a long story about a lighthouse and its keeper, with many chapters.", "Explain how a sailing ship is built.",
           "Write a C program that sorts numbers, and explain each line.", "Tell me about 東京 and Москва, and use emoji 😀.", "List a hundred animals."]
STOPS = [["\n\n", "lighthouse"], [" the sea"], ["10.", "```"]]
SAMPLINGS = [{}, {"temperature": 1.2}, {"temperature": 1.2, "top_k": 0, "top_p": 1.0}, {"temperature": 2.0, "top_k": 0, "top_p": 1.0}]
SHORT = {"smollm2": 250, "qwen": 50, "gemma": 250}  # max tokens of an answer in a short run
READ_BUFFER = 4096  # receive buffer of slow readers
SLOW_SECONDS, SLOW_BYTES = 5, 1000  # a slow reader takes SLOW_BYTES per SLOW_SECONDS; the server closes a connection after 60 s without a byte


def answer_of(parts):
    """Returns text, tokens of prompt and answer, the done reason, and the number of pieces."""
    for part in parts:
        assert "error" not in part, part
    assert parts and parts[-1]["done"], "the stream has no end"
    return "".join(part["response"] for part in parts), parts[-1]["context"], parts[-1]["done_reason"], len(parts)


def stream(port, body, may_read):
    """Returns the answer. Reads slowly until `may_read` is set; None: reads immediately."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3600)
    connection.connect()
    if may_read is not None:
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_BUFFER)
    connection.request("POST", "/api/generate", json.dumps(body))
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    beginning = b""
    while may_read is not None and not may_read.wait(SLOW_SECONDS):
        beginning += answer.read1(SLOW_BYTES)
    text = beginning + answer.read()
    connection.close()
    return answer_of([json.loads(line) for line in text.splitlines()])


def other_decoder(vocabulary):
    """Returns a function from tokens to text of the package `tokenizers`; None if it is not installed."""
    if importlib.util.find_spec("tokenizers") is None:
        return None
    from tokenizers import decoders
    if vocabulary.kind == "gpt2":
        decoder = decoders.ByteLevel()
    else:
        decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    return lambda tokens: decoder.decode([vocabulary.tokens[token] for token in tokens if vocabulary.types[token] not in (2, 3, 5)])


def cut(text, stops):
    places = [place for place in (text.find(stop) for stop in stops) if place >= 0]
    return text[:min(places)] if places else text


class Round:
    """Requests that run in parallel, then one after another."""

    def __init__(self, server, bodies, fault, counts):
        self.server, self.bodies, self.fault, self.counts = server, bodies, fault, counts
        self.answers = [None] * len(bodies)

    def ask(self, i, may_read):
        try:
            self.answers[i] = stream(self.server.port, self.bodies[i], may_read)
        except Exception as error:
            self.fault(f"{self.bodies[i]}: {error!r}")

    def run_together(self):
        all_read = threading.Event()
        is_slow = [i % 3 == 2 for i in range(len(self.bodies))]
        threads = [threading.Thread(target=self.ask, args=(i, all_read if slow else None)) for i, slow in enumerate(is_slow)]
        for thread in threads:
            thread.start()
        for thread, slow in zip(threads, is_slow):
            if not slow:
                thread.join()
        all_read.set()
        for thread in threads:
            thread.join()

    def check(self, i, vocabulary, decode):
        if self.answers[i] is None:
            return
        text, tokens, reason, n_pieces = self.answers[i]
        body = self.bodies[i]
        whole_text, whole_tokens, whole_reason, _ = answer_of([self.server.json("POST", "/api/generate", {**body, "stream": False})])
        if (text, tokens, reason) != (whole_text, whole_tokens, whole_reason):
            self.fault(f"{body}: alone {whole_text!r}, in parallel {text!r}")
        empty = self.server.json("POST", "/api/generate", {**body, "stream": False, "options": {**body["options"], "num_predict": 0}})
        prompt = empty["context"]
        written = tokens[len(prompt):]
        if tokens[:len(prompt)] != prompt:
            self.fault(f"{body}: the context begins with {tokens[:len(prompt)]} instead of {prompt}")
        stops = body["options"].get("stop", [])
        decoded = vocabulary.text_of(written)
        if text != cut(decoded, stops):
            self.fault(f"{body}: {text!r}, but its tokens are {decoded!r}")
        if decode is not None:
            # `tokenizers` writes one U+FFFD for several invalid bytes.
            other, own = (re.sub("\ufffd+", "\ufffd", cut(one, stops)) for one in (decode(written), text))
            if other != own:
                self.fault(f"{body}: {own!r}, but by `tokenizers` its tokens are {other!r}")
            self.counts["texts compared with `tokenizers`"] += 1
        self.counts["texts"] += 1
        self.counts["tokens"] += len(written)
        self.counts["pieces"] += n_pieces - 1
        self.counts["longest text in tokens"] = max(self.counts["longest text in tokens"], len(written))
        self.counts["texts with stop strings that were cut"] += text != decoded
        self.counts["texts with U+FFFD"] += "\ufffd" in text
        self.counts["texts longer than their context"] += len(tokens) > body["options"].get("num_ctx", 10**9)
        if options.keep:
            folder = pathlib.Path(options.keep)
            folder.mkdir(exist_ok=True)
            (folder / f"{self.counts['texts']:05}.json").write_text(json.dumps({"body": body, "text": text, "tokens": tokens, "prompt": len(prompt)}))


def bodies_of(chance, names):
    """Returns a round's requests. Every third one has a slow reader."""
    n_long = chance.choice([500, 1500, 3000])
    for name in names:
        n_tokens = n_long if options.seconds else SHORT[name]
        for i in range(3):
            sampling = {"seed": chance.randrange(10**6), "num_predict": n_tokens, **chance.choice(SAMPLINGS)}
            if chance.random() < 0.3:
                sampling["stop"] = chance.choice(STOPS)
            if i == 0 or chance.random() < 0.3:
                sampling["num_ctx"] = chance.choice([192, 256, 512]) if options.seconds else 192
            yield {"model": name, "prompt": chance.choice(PROMPTS), "options": sampling}


def main():
    paths = {name: path for name, path in PATHS.items() if path.exists()}
    if not paths:
        print(f"skipped: no model at {WEIGHTS}; tools/setup models fetches it")
        return 77
    for name in PATHS.keys() - paths.keys():
        print(f"without {name}: no model at {PATHS[name]}")
    chance = random.Random(options.seed)
    vocabularies = {name: Vocabulary(path) for name, path in paths.items()}
    if importlib.util.find_spec("tokenizers") is None:
        print("without a comparison with the Python package `tokenizers`: it is not installed")
    decoders = {name: other_decoder(vocabulary) for name, vocabulary in vocabularies.items()}
    faults, counts = [], collections.Counter()
    until = time.monotonic() + (options.seconds or 0)
    n_rounds = 0
    while True:
        policy = ["refill", "shift"][n_rounds % 2]
        n_rounds += 1
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder, ["--num-ctx-policy", "cap", "--overflow-policy", policy], program=options.billow)
            try:
                for name, path in paths.items():
                    server.add_model(name, path)
                round_ = Round(server, list(bodies_of(chance, paths)), faults.append, counts)
                round_.run_together()
                for i, body in enumerate(round_.bodies):
                    if not faults:
                        round_.check(i, vocabularies[body["model"]], decoders[body["model"]])
            finally:
                code = server.stop()
            if code != 0:
                faults.append(f"the server ended with {code}")
        if faults or time.monotonic() >= until:
            break
    print(json.dumps({"seed": options.seed, "rounds": n_rounds, **counts}, indent=1))
    for fault in faults:
        print("FAILED:", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--billow", required=True)
    parser.add_argument("--seconds", type=float, help="run rounds of longer answers for this long")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--keep", help="save all texts with their tokens in this folder")
    options = parser.parse_args()
    sys.exit(main())
