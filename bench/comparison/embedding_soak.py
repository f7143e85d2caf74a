"""Checks that memory stays flat under a long mixed load: one text, many texts, long texts, token ids and base64 in parallel."""

import http.client
import json
import random
import threading
import time

from comparison import embedding, programs

N_CLIENTS = 8
SAMPLE_SECONDS = 60
KINDS = ("one", "few", "many", "long", "ids", "base64")
FLAT = 0.02  # max growth from the settled state


def body_of(kind, chance, texts, long_texts, model):
    """Returns the fields of a request."""
    if kind == "one":
        return {"model": model, "input": chance.choice(texts)}
    if kind == "long":
        return {"model": model, "input": [chance.choice(long_texts)]}
    if kind == "ids":
        return {"model": model, "input": [[101, *(chance.randrange(1000, 20000) for _ in range(chance.randrange(1, 100))), 102]]}
    n = chance.randrange(2, 9) if kind == "few" else chance.randrange(32, 129)
    body = {"model": model, "input": chance.sample(texts, n)}
    return body | ({"encoding_format": "base64"} if kind == "base64" else {})


class Load(threading.Thread):
    """A client that sends random requests until `over` is set. `n_texts` counts the embedded texts."""

    def __init__(self, server, seed, texts, long_texts, over):
        super().__init__(daemon=True)
        self.server, self.chance, self.texts, self.long_texts, self.over = server, random.Random(seed), texts, long_texts, over
        self.n_texts, self.failure = 0, None

    def run(self):
        connection = self.server.connect()
        while not self.over.is_set():
            body = body_of(self.chance.choice(KINDS), self.chance, self.texts, self.long_texts, self.server.model)
            try:
                connection.request("POST", "/v1/embeddings", json.dumps(body), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.failure = str(error)
                return
            if answer.status != 200:
                self.failure = f"{answer.status}: {text[:200]!r}"
                return
            self.n_texts += 1 if isinstance(body["input"], str) else len(body["input"])


def run(server, vocabulary, seconds, sample_seconds=SAMPLE_SECONDS):
    """Yields one sample per minute: seconds, texts so far, resident bytes of the server and of its runner."""
    texts, over = embedding.corpus(vocabulary), threading.Event()
    long_texts = embedding.texts_of_tokens(vocabulary, 510, 16)
    clients = [Load(server, seed, texts, long_texts, over) for seed in range(N_CLIENTS)]
    for client in clients:
        client.start()
    began = time.monotonic()
    try:
        for number in range(1, max(2, round(seconds / sample_seconds)) + 1):
            time.sleep(max(0.0, began + number * sample_seconds - time.monotonic()))
            for client in clients:
                if client.failure:
                    raise programs.Skipped(client.failure)
            resident = server.residents()
            yield {"seconds": time.monotonic() - began, "texts": sum(client.n_texts for client in clients),
                   "server_bytes": resident[0], "runner_bytes": sum(resident[1:])}
    finally:
        over.set()
        for client in clients:
            client.join()


def line(sample):
    return (f"{sample['seconds'] / 60:8.1f}{sample['texts']:12,}{sample['server_bytes'] / 2**20:9.1f}"
            f"{sample['runner_bytes'] / 2**20:9.1f}")


def growth(samples, what):
    """Returns the growth from the mean of the second tenth to the mean of the last tenth. Memory settles in the first tenth."""
    n = max(1, len(samples) // 10)
    first, last = samples[n : 2 * n] or samples[:1], samples[-n:]
    mean = [sum(sample[what] for sample in part) / len(part) for part in (first, last)]
    return mean[1] / mean[0] - 1


def summary(samples):
    if len(samples) < 2:
        return "too short to tell"
    parts = [(name, growth(samples, f"{name}_bytes")) for name in ("server", "runner")]
    text = ", ".join(f"{name} {100 * grown:+.1f} %" for name, grown in parts)
    return f"growth from the second to the last tenth: {text}: {'flat' if all(grown <= FLAT for _, grown in parts) else 'NOT flat'} within 2 %"
