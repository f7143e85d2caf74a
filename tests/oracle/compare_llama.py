#!/usr/bin/env python3
"""Compares Billow with llama.cpp on real models and prints markdown tables.

Compares, for each *.gguf of --models, the perplexity of a text in contexts of 512 tokens and the
greedy continuations of ten prompts by 32 tokens. llama.cpp runs inside the chroot --root. Keeps its
results under --expected, one JSON file per model, and reuses them. Without --billow, computes only
llama.cpp's results. Needs only the standard library.
"""

import argparse
import hashlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

N_PREDICT = 32
CONTEXT = 512
NEAR_TIE = 0.1  # if the two best logits are closer than this, their order may differ
GOAL_PERCENT = 0.5  # max difference of perplexity

PROMPTS = {
    "English": "The old lighthouse keeper climbed the stairs every evening because",
    "facts": "The capital of France is Paris. The capital of Japan is Tokyo. "
             "The capital of Italy is",
    "Python": "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "C++": "#include <vector>\n\n// Returns the sum of all elements.\n"
           "int sum(const std::vector<int>& values) {\n",
    "list": "Three things to pack for a week in the mountains:\n1.",
    "JSON": '{"name": "Alice", "age": 31, "city": "Lisbon"}\n{"name": "Bob", "age":',
    "German": "Der Zug nach Berlin fährt heute leider nicht, weil",
    "Chinese": "今天天气很好，我们一起去",
    "one word": "Once",
    "long": None,  # the start of the text
}
LONG_PROMPT_BYTES = 4000


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def prompts(text):
    start = text.read_bytes()[:LONG_PROMPT_BYTES].decode("utf-8", "ignore")
    return {name: prompt if prompt is not None else start for name, prompt in PROMPTS.items()}


class Llama:
    """Runs llama.cpp's programs inside the chroot."""

    def __init__(self, root, threads):
        self.root = pathlib.Path(root)
        self.threads = str(threads)

    def place(self, path, name):
        """Copies a file into the chroot. Returns its path inside the chroot."""
        target = self.root / "m" / name
        target.parent.mkdir(exist_ok=True)
        if not target.exists() or target.stat().st_size != path.stat().st_size:
            shutil.copy(path, target)
        return f"/m/{name}"

    def perplexity(self, model, text):
        command = ["chroot", str(self.root), "llama-perplexity", "-m", model, "-f", text,
                   "-c", str(CONTEXT), "-t", self.threads]
        for _ in range(5):  # the program may end before it has written the last line of its log
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = re.search(r"PPL = ([0-9.]+) \+/- ([0-9.]+)", done.stdout + done.stderr)
            if found:
                return float(found[1]), float(found[2])
        return sys.exit(f"no perplexity in the output of {' '.join(command)}")

    def continuations(self, model, prompts_by_name):
        port = free_port()
        server = subprocess.Popen(
            ["chroot", str(self.root), "llama-server", "-m", model, "--host", "127.0.0.1",
             "--port", str(port), "-c", "4096", "-np", "1", "-t", self.threads, "--no-ui"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until_ready(server, port)
            return {name: continuation(port, prompt) for name, prompt in prompts_by_name.items()}
        finally:
            server.terminate()
            server.wait()


def wait_until_ready(server, port, seconds=120):
    for _ in range(seconds * 4):
        if server.poll() is not None:
            sys.exit("llama-server ended before it was ready")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.25)
    sys.exit("llama-server was not ready in time")


def continuation(port, prompt):
    body = {"prompt": prompt, "temperature": 0, "n_predict": N_PREDICT, "cache_prompt": False,
            "n_probs": 2, "return_tokens": True, "stream": False, "samplers": ["temperature"]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/completion", json.dumps(body).encode(),
        {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        answer = json.load(reply)
    return {"tokens": answer["tokens"],
            "top": aligned(answer["tokens"], answer["completion_probabilities"]),
            "text": answer["content"], "n_prompt": answer["tokens_evaluated"]}


def aligned(tokens, probabilities):
    """Returns the best tokens at each position; [] if the server omitted a token within a character."""
    rest = list(probabilities)
    top = []
    for token in tokens:
        entry = rest.pop(0) if rest and rest[0]["id"] == token else {"top_logprobs": []}
        top.append([[t["id"], t["logprob"]] for t in entry["top_logprobs"]])
    return top


def expected(llama, model, text, folder):
    """Returns llama.cpp's results for a model, from `folder` if they exist."""
    question = json.dumps([prompts(text), N_PREDICT, CONTEXT])
    key = hashlib.sha256(question.encode() + text.read_bytes()).hexdigest()
    path = folder / f"{model.stem}.json"
    if path.exists():
        kept = json.loads(path.read_text())
        if kept["key"] == key and kept["n_bytes"] == model.stat().st_size:
            return kept
    if llama is None:
        sys.exit(f"{path} does not hold this model and text: give --root")
    inside = llama.place(model, model.name)
    value, error = llama.perplexity(inside, llama.place(text, "oracle-text"))
    made = {"key": key, "n_bytes": model.stat().st_size, "perplexity": value, "error": error,
            "continuations": llama.continuations(inside, prompts(text))}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made, indent=1, ensure_ascii=False))
    return made


def last_json(output):
    """Returns the last JSON object in a command's output: its last JSON line, or the whole output."""
    for line in reversed(output.strip().splitlines()):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    return json.loads(output)


def billow(binary, *arguments):
    done = subprocess.run([binary, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or "no message").splitlines()[-1])
    return last_json(done.stdout)


def billow_continuation(binary, model, prompt):
    answer = billow(binary, "generate", "--model", str(model), "--prompt", prompt, "--raw",
                    "--temperature", "0", "--num-predict", str(N_PREDICT), "--json", "--tokens",
                    "--logprobs", "2")
    top = [[[t["token"], t["logprob"]] for t in p["top"]] for p in answer.get("logprobs", [])]
    return {"tokens": answer["tokens"], "top": top}


def gap(side, position):
    """Returns how much the best token was ahead of the second; None if unknown."""
    if position >= len(side["top"]) or len(side["top"][position]) < 2:
        return None
    (_, first), (_, second) = side["top"][position][:2]
    return first - second


def verdict(theirs, ours):
    """Returns (whether the goal is met, a description) for two continuations."""
    both = min(len(theirs["tokens"]), len(ours["tokens"]))
    first = next((i for i in range(both) if theirs["tokens"][i] != ours["tokens"][i]), None)
    if first is None:
        if len(theirs["tokens"]) == len(ours["tokens"]):
            return True, f"equal ({both})"
        # One side counts the end token, the other does not.
        words = (f"equal for {both}, then llama.cpp has {len(theirs['tokens'])}, "
                 f"Billow {len(ours['tokens'])}")
        return abs(len(theirs["tokens"]) - len(ours["tokens"])) <= 1, words
    gaps = [gap(theirs, first), gap(ours, first)]
    shown = " and ".join("?" if g is None else f"{g:.3f}" for g in gaps)
    near = all(g is not None and g < NEAR_TIE for g in gaps)
    return near, f"differs at {first}: gaps {shown}" + (" (near tie)" if near else "")


def compare_perplexity(binary, model, text, theirs):
    try:
        ours = billow(binary, "perplexity", "--model", str(model), "--file", str(text),
                      "--ctx", str(CONTEXT), "--json")["perplexity"]
    except (RuntimeError, ValueError, KeyError) as error:
        return False, f"| {model.stem} | {theirs['perplexity']} | failed: {error} | | |"
    percent = 100 * (ours / theirs["perplexity"] - 1)
    met = abs(percent) <= GOAL_PERCENT
    return met, (f"| {model.stem} | {theirs['perplexity']:.4f} ± {theirs['error']:.4f} | "
                 f"{ours:.4f} | {percent:+.3f} % | {'yes' if met else 'NO'} |")


def compare_prompt(binary, model, name, prompt, theirs):
    try:
        met, words = verdict(theirs, billow_continuation(binary, model, prompt))
    except (RuntimeError, ValueError, KeyError) as error:
        met, words = False, f"failed: {error}"
    goal = "yes" if met else "NO"
    return met, f"| {model.stem} | {name} | {theirs['n_prompt']} | {words} | {goal} |"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--root", help="the chroot with llama.cpp; not needed when --expected has every model")
    parser.add_argument(
        "--billow", help="Billow's binary; without it, only llama.cpp's results are computed")
    parser.add_argument(
        "--models", required=True, type=pathlib.Path, help="a folder of GGUF files, or one file")
    parser.add_argument(
        "--text", type=pathlib.Path, default=pathlib.Path("/usr/share/common-licenses/GPL-3"))
    parser.add_argument("--expected", type=pathlib.Path, default=pathlib.Path("/tmp/oracle"))
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def main():
    options = arguments()
    models = sorted(options.models.glob("*.gguf")) if options.models.is_dir() else [options.models]
    if not models:
        sys.exit(f"no models in {options.models}")
    llama = Llama(options.root, options.threads) if options.root else None
    theirs = {model: expected(llama, model, options.text, options.expected) for model in models}
    if not options.billow:
        for model in models:
            print(f"{model.stem}: perplexity {theirs[model]['perplexity']}")
        return 0
    all_met = True
    print("| model | llama.cpp perplexity | Billow | difference | goal met |")
    print("|---|---|---|---|---|")
    for model in models:
        met, row = compare_perplexity(options.billow, model, options.text, theirs[model])
        all_met &= met
        print(row, flush=True)
    print("\n| model | prompt | its tokens | greedy continuation | goal met |")
    print("|---|---|---|---|---|")
    for model in models:
        for name, prompt in prompts(options.text).items():
            continued = theirs[model]["continuations"][name]
            met, row = compare_prompt(options.billow, model, name, prompt, continued)
            all_met &= met
            print(row, flush=True)
    return 0 if all_met else 1


if __name__ == "__main__":
    sys.exit(main())
