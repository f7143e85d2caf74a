"""Tests sequences of requests and events as in real use: each step finds the server as the steps before it have left it.

sequences_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "cli"))

import program
import terminal
from adapter_file import write_adapter
from run_cases import run_cases
from scripted_registry import ScriptedRegistry, reply
from server import WEIGHTS, Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
options, rest = parser.parse_known_args()
program.ARGS.billow = str(pathlib.Path(options.billow).resolve())


class Sequence(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.server = None

    def serve(self, *arguments, **more):
        self.server = Server(self.folder, arguments, program=program.ARGS.billow, **more)
        self.addCleanup(self.end, self.server)

    def end(self, server):
        if server.process.poll() is None:
            self.assertEqual(server.stop(), 0)

    def loaded(self):
        return [(model["name"], model["context_length"]) for model in self.server.json("GET", "/api/ps")["models"]]

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)


@unittest.skipUnless(WEIGHTS.exists(), f"no model at {WEIGHTS}; tools/setup models fetches it")
class OneModel(Sequence):
    """Sequences with the small real model."""

    CONTEXT = 512

    def chat(self, messages, n=8):
        body = {"model": "m", "messages": messages, "stream": False, "options": {"temperature": 0, "num_predict": n}}
        status, headers, text = self.server.request("POST", "/api/chat", body)
        self.assertEqual(status, 200, text)
        return json.loads(text), headers

    def test_load_plan_long_chat_vector_unload_and_chat_again(self):
        self.serve("--max-context-size", str(self.CONTEXT))
        self.server.add_model("m")
        short = [{"role": "user", "content": "Name three trees."}]
        long = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"{i}: what grows beside the oak tree?"} for i in range(101)]
        plans = [{"model": "m", "messages": messages, "options": {"num_predict": 8}} for messages in (short, long)]
        self.server.json("POST", "/api/generate", {"model": "m"})
        runners = self.server.runners()
        # A plan changes nothing, before and after requests.
        planned = [self.server.json("POST", "/api/plan", plan) for plan in plans]
        self.assertEqual(self.loaded(), [("m:latest", 0)])
        first, _ = self.chat(short)
        answer, headers = self.chat(long)
        n_full, n_short = map(int, headers["X-Billow-Shortened"].split("->"))
        self.assertEqual((planned[1]["prompt_tokens_full"], planned[1]["prompt_tokens"]), (n_full, n_short))
        self.assertEqual(planned[0]["prompt_tokens"], first["prompt_eval_count"])
        text = "word " * 200
        vector = self.server.json("POST", "/api/embed", {"model": "m", "input": text})["embeddings"]
        self.assertEqual(self.chat(short)[0]["message"], first["message"])
        self.assertEqual(self.server.runners(), runners, "one process serves all")
        for plan, before in zip(plans, planned):
            now = self.server.json("POST", "/api/plan", plan)
            self.assertEqual((now["context"], now["prompt_tokens"], now["memory"]["total_bytes"]),
                             (before["context"], before["prompt_tokens"], before["memory"]["total_bytes"]))
        self.server.json("POST", "/api/generate", {"model": "m", "keep_alive": 0})
        self.wait_for(lambda: not self.loaded() and not self.server.runners(), "the model is not unloaded")
        self.assertEqual(self.server.json("POST", "/api/embed", {"model": "m", "input": text})["embeddings"], vector)
        self.assertEqual(self.chat(long)[0]["message"], answer["message"])
        self.assertEqual(self.chat(short)[0]["message"], first["message"])

    def test_run_session_continues_after_a_restart_of_the_server(self):
        self.serve()
        self.server.add_model("m", parameters={"temperature": 0, "num_predict": 6})
        environment = {"OLLAMA_HOST": f"127.0.0.1:{self.server.port}", "HOME": str(self.folder), "OLLAMA_NOHISTORY": "1"}
        job = terminal.Job(environment, "run", "m")
        self.addCleanup(job.close)
        job.wait_for("Send a message")
        job.send("Name a tree.\r")
        self.wait_for_chats(job, 1)
        job.wait_for(">>> ")
        self.assertEqual(self.server.stop(), 0)
        job.send("Name another tree.\r")
        job.wait_for("error: ")
        self.serve(port=self.server.port)
        job.ask("Name a bird.", "")
        self.wait_for_chats(job, 2)
        self.assertEqual(job.leave("/bye\r"), 0)
        # The prompt of the last message has the first message and its answer, but not the message that failed.
        sizes = [int(n) for n in re.findall("context [0-9]+: ([0-9]+) tokens of the prompt", self.server.log.read_text())]
        messages = [{"role": "user", "content": "Name a tree."}]
        for n_tokens in sizes:
            answer, _ = self.chat(messages, 6)
            self.assertEqual(answer["prompt_eval_count"], n_tokens)
            messages += [answer["message"], {"role": "user", "content": "Name a bird."}]
        self.assertEqual(len(sizes), 2)

    def wait_for_chats(self, job, n):
        """Waits until the server has answered n chats."""
        job.until(lambda: self.server.log.read_text().count(" 200 POST /api/chat ") >= n, f"answer to message {n}")

    def test_stop_string_ends_an_endless_answer_beyond_its_context_while_another_client_embeds(self):
        self.serve("--max-context-size", "256", "--parallel", "4")
        self.server.add_model("m")
        # The texts depend on the processor's kernels. Some end early.
        for seed in range(3, 13):
            body = {"model": "m", "prompt": "Once upon a time", "raw": True,
                    "options": {"num_predict": -1, "temperature": 1.2, "seed": seed, "repeat_penalty": 1.3}}
            text = self.beginning(body, 330)
            if text:
                break
        self.assertTrue(text, "every answer is too short")
        # The stop string is the first text beyond the context that has not occurred before.
        end = next(i for i in range(len(text) - 40, len(text) - 6) if text.find(text[i:i + 6]) == i)
        texts = [f"word {i} " * 40 for i in range(4)]
        alone = self.vectors(texts)
        stopped = threading.Event()

        def embed():
            n = 0
            while not stopped.is_set():
                self.assertEqual(self.vectors(texts), alone)
                n += 1
            return n

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            embedding = pool.submit(embed)
            try:
                done = self.server.json("POST", "/api/generate", {**body, "stream": False, "options": {**body["options"], "stop": [text[end:end + 6]]}})
            finally:
                stopped.set()
            self.assertGreater(embedding.result(), 0)
        self.assertEqual(done["response"], text[:end])
        self.assertEqual(done["done_reason"], "stop")
        self.assertGreater(done["prompt_eval_count"] + done["eval_count"], 256)

    def vectors(self, texts):
        return self.server.json("POST", "/api/embed", {"model": "m", "input": texts})["embeddings"]

    def beginning(self, body, n_pieces):
        """Returns the text of the first pieces of an answer, and cancels it. Returns "" if the answer has fewer pieces."""
        client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        client.request("POST", "/api/generate", json.dumps(body))
        answer, text = client.getresponse(), ""
        for _ in range(n_pieces):
            line = json.loads(answer.readline())
            if line.get("done"):
                text = ""
                break
            text += line["response"]
        client.close()
        return text


class Batch(Sequence):
    def test_clients_with_different_adapters_and_schemas_share_a_batch(self):
        subprocess.run([options.make_models, str(self.folder), "--to-serve"], check=True, capture_output=True)
        base = self.folder / "writer.gguf"
        self.serve("--threads", "1", "--parallel", "8")
        self.server.add_model("base", base)
        for seed in (1, 2):
            path = write_adapter(program.ARGS.billow, base, self.folder / f"{seed}.gguf", seed)
            self.server.json("POST", "/api/create", {"model": f"with{seed}", "from": "base", "stream": False,
                                                     "adapters": {"a": self.server.upload(path)}})
        schemas = [{"type": "object", "properties": {"n": {"type": "integer", "minimum": 100, "maximum": 999}}, "required": ["n"],
                    "additionalProperties": False},
                   {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 4, "maxItems": 4}, "", "json"]
        cases = [(model, i) for model in ("base", "with1", "with2") for i in range(len(schemas))]

        def ask(case):
            model, i = case
            body = {"model": model, "prompt": "7 8 9 " * 30, "raw": True, "stream": False, "keep_alive": -1, "format": schemas[i],
                    "options": {"temperature": 0.9, "seed": 4, "num_predict": 40}}
            return self.server.json("POST", "/api/generate", body)["response"]

        alone = {case: ask(case) for case in cases}
        for model in ("base", "with1", "with2"):
            self.assertTrue(100 <= json.loads(alone[model, 0])["n"] <= 999, alone[model, 0])
            self.assertEqual(len(json.loads(alone[model, 1])), 4)
        self.assertEqual(len({alone[model, 2] for model in ("base", "with1", "with2")}), 3, "adapters change the text")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for case, answer in [(case, pool.submit(ask, case)) for case in cases * 4]:
                self.assertEqual(answer.result(), alone[case], case)
        self.assertEqual(len(self.server.runners()), 1)


class SlowRegistry(ScriptedRegistry):
    """Sends blobs slowly, and none after `is_cut` was set. Counts the bytes that it sends. After `hold_at` bytes, it waits for `goes_on`."""

    def __init__(self):
        super().__init__()
        self.pause, self.is_cut, self.n_sent = 0.0, False, 0
        self.hold_at, self.goes_on = float("inf"), threading.Event()

    def blob(self, request, digest):
        data = self.blobs[digest]
        first, end = request.range(len(data)) or (0, len(data))
        whole = reply(206 if "range" in request.fields else 200, data[first:end],
                      {"Content-Range": f"bytes {first}-{end - 1}/{len(data)}"} if "range" in request.fields else ())
        for at in range(0, len(whole), 1 << 16):
            if self.is_cut:
                return
            self.n_sent += len(whole[at:at + (1 << 16)])
            yield whole[at:at + (1 << 16)]
            time.sleep(self.pause)
            if self.n_sent > self.hold_at:
                self.goes_on.wait(120)


class Pulls(Sequence):
    def test_create_from_the_name_of_a_cancelled_pull_resumes_it(self):
        subprocess.run([options.make_models, str(self.folder), "--to-serve"], check=True, capture_output=True)
        weights = (self.folder / "writer.gguf").read_bytes()
        registry = SlowRegistry()
        self.addCleanup(registry.stop)
        config = json.dumps({"model_format": "gguf", "model_family": "llama"}).encode()
        registry.add("library/part:latest", [("model", weights)], config)
        self.serve(variables={"BILLOW_REGISTRY_MIRROR": "http://" + registry.host, "HOME": str(self.folder), "no_proxy": "*"})
        registry.pause, registry.hold_at = 0.01, 0.7 * len(weights)
        self.cancelled_pull(len(weights))
        # The rest is not sent, however late the server notices the disconnect.
        registry.is_cut = True
        registry.goes_on.set()
        self.assertEqual(self.server.json("GET", "/api/tags")["models"], [])
        create = {"model": "made", "from": "part", "system": "mine"}
        # Without the registry there is one error, and no model.
        lines = self.server.lines("/api/create", {**create, "from": "missing"})
        self.assertEqual([line for line in lines if "error" in line], lines[-1:])
        self.assertEqual(self.server.json("GET", "/api/tags")["models"], [])
        registry.is_cut, registry.pause = False, 0.0
        self.assertEqual(self.server.lines("/api/create", create)[-1], {"status": "success"})
        self.assertLess(registry.n_sent, 1.4 * len(weights), "the download begins again")
        self.assertEqual(self.server.blob("made").read_bytes(), weights)
        self.assertEqual(sorted(model["name"] for model in self.server.json("GET", "/api/tags")["models"]), ["made:latest", "part:latest"])
        body = {"model": "made", "prompt": "7 8 9", "raw": True, "stream": False, "options": {"num_predict": 3}}
        self.assertTrue(self.server.json("POST", "/api/generate", body)["done"])
        self.assertEqual([path.name for path in (self.server.models / "blobs").iterdir() if "partial" in path.name], [])

    def cancelled_pull(self, n_bytes):
        """Pulls the model until two thirds of its weights are there, and disconnects."""
        client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        client.request("POST", "/api/pull", json.dumps({"model": "part"}))
        answer = client.getresponse()
        for line in answer:
            step = json.loads(line)
            self.assertNotIn("error", step)
            if step.get("total") == n_bytes and step.get("completed", 0) > 2 * n_bytes // 3:
                break
        else:
            self.fail("the pull ended before it was cancelled")
        answer.close()
        client.close()


if __name__ == "__main__":
    os.environ.setdefault("BILLOW_LOG", "info")
    run_cases(rest)
