#!/usr/bin/env python3
"""Compares Billow with llama.cpp's llama-server on tiny vision models: the probabilities of the next token after text and a picture.

    compare_llama_pictures.py --billow PROGRAM --llama-server PROGRAM [--models FOLDER]

Both servers get the same request to /completion. Pictures have sizes that need no resizing, because the two programs resize
differently. The table has the largest difference of the logarithms of probabilities, among the 20 likeliest tokens of both programs,
and for comparison that to the probabilities after another picture. Some families differ in llama.cpp itself from transformers, which Billow follows; the column
says how (see ../shared/tools/families/README.md). Needs only the standard library.
"""

import argparse
import base64
import json
import math
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))

from pictures import png_of_rows  # noqa: E402
from server import Server  # noqa: E402

# Width and height of a picture that neither program resizes.
SIZES = {"gemma3": (128, 128), "smolvlm": (128, 128), "qwen2_vl": (112, 112), "qwen2_5_vl": (112, 112), "qwen3_vl": (256, 256),
         "qwen3_5": (256, 256), "mistral3": (112, 112), "lfm2_vl": (128, 128), "internvl": (128, 128)}
# Text that the family's processor puts around a picture. Billow adds it, llama.cpp does not.
AROUND = {"gemma3": "\n\n{}\n\n"}
DIFFERS = {"internvl": "llama.cpp shifts the positions by one"}
N_PROBS = 20


def picture(width, height, seed):
    pixels = random.Random(seed)
    rows = b"".join(b"\0" + bytes(min(255, max(0, int(pixels.gauss(128 + 100 * math.sin(x / 17 + y / 23 + seed), 20))))
                                  for x in range(3 * width)) for y in range(height))
    return png_of_rows(width, height, rows)


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{url}: {error.read().decode(errors='replace')[:300]}") from None


def probabilities(url, text, data, model=None):
    """Returns {token id: logarithm of its probability} of the next token, and the number of tokens of the prompt."""
    body = {"prompt": {"prompt_string": text, "multimodal_data": [base64.b64encode(data).decode()]}, "n_predict": 1,
            "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "n_probs": N_PROBS, "cache_prompt": False,
            "ignore_eos": True, **(model or {})}
    for seed in range(20):  # if the sampled token is a part of a letter, llama.cpp returns no probabilities
        answer = post(url + "/completion", {**body, "seed": seed})
        if answer.get("completion_probabilities"):
            break
    else:
        raise RuntimeError(f"{url} returns no probabilities")
    return ({one["id"]: one["logprob"] for one in answer["completion_probabilities"][0]["top_logprobs"]},
            answer["tokens_evaluated"])


def difference(expected, found):
    common = expected.keys() & found.keys()
    return max(abs(expected[token] - found[token]) for token in common) if common else math.inf


class Llama:
    def __init__(self, program, text, projector):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [program, "-m", text, "--mmproj", projector, "--port", str(port), "-t", "1", "-c", "1024", "--no-warmup", "-fa", "off",
                   "--cache-type-k", "f32", "--cache-type-v", "f32", "--chat-template", "chatml"]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(word) for word in command], stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(self.url + "/health", timeout=5).read()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.log.seek(0)
                    sys.exit(f"llama-server: {self.log.read()[-2000:].decode(errors='replace')}")
                time.sleep(0.05)
        with urllib.request.urlopen(self.url + "/props") as answer:
            self.marker = json.loads(answer.read()).get("media_marker", "<__media__>")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--billow", required=True)
    parser.add_argument("--llama-server", required=True)
    parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[3] / "shared/data/vision")
    options = parser.parse_args()
    print("| model | tokens | difference | to another picture | |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, ["--threads", "1", "--kv-type", "f32"], program=options.billow)
        try:
            for name, (width, height) in SIZES.items():
                text, projector = options.models / f"{name}.gguf", options.models / f"{name}.mmproj.gguf"
                server.add_files(name, {"m.gguf": text, "mmproj.gguf": projector}, template="{{ .Prompt }}")
                llama = Llama(options.llama_server, text, projector)
                try:
                    one, other = picture(width, height, 1), picture(width, height, 2)
                    around = AROUND.get(name, "{}").format(llama.marker)
                    expected, n_llama = probabilities(llama.url, f"a{around}b", one)
                    found, n_tokens = probabilities(server.url, "a<__media__>b", one, {"model": name})
                    different, _ = probabilities(server.url, "a<__media__>b", other, {"model": name})
                except RuntimeError as error:
                    print(f"| {name} | - | - | - | {error} |")
                    continue
                finally:
                    llama.stop()
                counts = str(n_tokens) if n_tokens == n_llama else f"{n_tokens}, llama.cpp {n_llama}"
                print(f"| {name} | {counts} | {difference(expected, found):.1e} | {difference(expected, different):.1e} | "
                      f"{DIFFERS.get(name, '')} |")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
