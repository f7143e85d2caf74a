"""billow runner as its server uses it: HTTP over a Unix socket, signals, and the death of its parent."""
import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from program import ARGS, ProgramTest, billow, main


def text_of(lines):
    """The text of an answer. A line is an object or a string; a string is only text."""
    return "".join(line if isinstance(line, str) else line.get("text", "") for line in lines)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("runner", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(happened, seconds=60):
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Runner(ProgramTest):
    def start(self, *args, model=None):
        self.socket = str(self.dir / f"{len(os.listdir(self.dir))}.sock")
        command = [ARGS.billow, "runner", "--model", model or self.model, "--socket", self.socket, *args]
        process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: process.poll() is not None or self.is_ready()), "not ready")
        return process

    def is_ready(self):
        try:
            return self.ask("GET", "/health")[0] == 200
        except OSError:
            return False

    def ask(self, method, path, body=None):
        with contextlib.closing(UnixConnection(self.socket)) as connection:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def json(self, method, path, body=None):
        status, text = self.ask(method, path, body if body is None else json.dumps(body))
        return status, json.loads(text)

    def completion(self, tokens, **head):
        head["n_prompt"] = len(tokens)
        return json.dumps(head).encode() + b"\n" + struct.pack(f"<{len(tokens)}i", *tokens)

    def test_answers_like_generate(self):
        self.start()
        status, tokens = self.json("POST", "/tokenize", {"content": "hello there"})
        self.assertEqual(status, 200)
        status, text = self.ask("POST", "/completion", self.completion(
            tokens["tokens"], options={"temperature": 0}, num_predict=40, ignore_eos=True))
        self.assertEqual(status, 200)
        lines = [json.loads(line) for line in text.splitlines()]
        whole = json.loads(self.ok("generate", "--model", self.model, "--raw", "--prompt", "hello there", "--max-tokens", 40,
                                   "--ignore-eos", "--temperature", 0, "--json", "--tokens"))
        self.assertEqual(text_of(lines), whole["response"])
        self.assertEqual(lines[-1]["tokens"], whole["tokens"])
        self.assertEqual((lines[-1]["done_reason"], lines[-1]["eval_count"]), ("length", 40))
        status, back = self.json("POST", "/detokenize", {"tokens": tokens["tokens"]})
        self.assertEqual(back["content"].strip(), "hello there")

    def test_many_answers_at_the_same_time(self):
        self.start("--parallel", 3)
        body = self.completion(list(range(5, 25)), options={"temperature": 0}, num_predict=30, ignore_eos=True)
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.ask("POST", "/completion", body))) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tokens = [json.loads(text.splitlines()[-1])["tokens"] for status, text in answers]
        self.assertEqual(len(tokens), 12)
        self.assertEqual(len(set(map(tuple, tokens))), 1)

    def test_closing_the_connection_cancels(self):
        self.start()
        connection = UnixConnection(self.socket)
        connection.request("POST", "/completion", self.completion([1, 2, 3], num_predict=-1, ignore_eos=True,
                                                                  overflow_policy="shift"))
        connection.getresponse().read(10)
        self.assertEqual(self.json("GET", "/health")[1]["running"], 1)
        connection.close()
        self.assertTrue(wait_until(lambda: self.json("GET", "/health")[1]["running"] == 0))
        self.assertEqual(self.json("GET", "/health")[1]["memory"]["kv_in_use_bytes"],
                         self.json("GET", "/health")[1]["memory"]["kv_cached_bytes"])

    def test_errors_have_a_status_and_a_message(self):
        self.start()
        for body, status, named in ((b"{}", 400, "line"), (self.completion([99999]), 400, "99999"),
                                    (self.completion([1] * 5000), 400, "5000"), (self.completion([1], stop=3), 400, "stop")):
            found, text = self.ask("POST", "/completion", body)
            self.assertEqual(found, status, text)
            self.assertIn(named, json.loads(text)["error"])
        self.assertEqual(self.json("POST", "/tokenize", {})[0], 400)
        self.assertEqual(self.json("POST", "/tokenize", {"content": "x", "add_special": 3})[0], 400)
        self.assertEqual(self.json("POST", "/detokenize", {"tokens": [99999]})[0], 400)
        self.assertEqual(self.json("POST", "/detokenize", {"tokens": [4294967296 + 5]})[0], 400)
        self.assertEqual(self.json("POST", "/budget", {"bytes": -1})[0], 400)
        self.assertEqual(self.ask("GET", "/nothing")[0], 404)
        self.assertEqual(self.ask("GET", "/completion")[0], 405)

    def test_ends_with_an_error_if_the_file_is_not_a_model(self):
        junk = self.dir / "junk.gguf"
        junk.write_bytes(b"no model at all")
        process = self.start(model=junk)
        self.assertEqual(process.wait(60), 1)
        self.assertIn(b"junk.gguf", process.stderr.read())
        self.assertFalse(os.path.exists(self.socket))

    def test_ends_with_a_status_of_its_own_if_memory_is_too_small(self):
        process = self.start("--memory", 1000)
        self.assertEqual(process.wait(60), 4)
        self.assertIn(b"memory budget is 1000 B", process.stderr.read())

    def test_sigterm_lets_running_answers_finish(self):
        process = self.start("--drain-timeout", 600)
        connection = UnixConnection(self.socket)
        connection.request("POST", "/completion", self.completion([1, 2, 3], num_predict=900, ignore_eos=True))
        answer = connection.getresponse()
        answer.read(10)
        process.send_signal(signal.SIGTERM)
        last = answer.read().splitlines()[-1]
        self.assertEqual(json.loads(last)["eval_count"], 900)
        connection.close()
        self.assertEqual(process.wait(60), 0)
        self.assertFalse(os.path.exists(self.socket))

    def test_ends_with_its_parent(self):
        path = str(self.dir / "orphan.sock")
        code = ("import subprocess, sys, time\n"
                "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
                "print(child.pid, flush=True)\ntime.sleep(60)\n")
        parent = subprocess.Popen([sys.executable, "-c", code, ARGS.billow, "runner", "--model", str(self.model), "--socket",
                                   path, "--with-parent"], stdout=subprocess.PIPE)
        pid = int(parent.stdout.readline())
        parent.stdout.close()
        self.assertTrue(wait_until(lambda: os.path.exists(path)))
        parent.kill()
        parent.wait()
        self.assertTrue(wait_until(lambda: not alive(pid)))

    def test_health_reports_its_state(self):
        self.start()
        status, health = self.json("GET", "/health")
        self.assertEqual((status, health["status"]), (200, "ready"))
        memory = health["memory"]
        self.assertEqual(health["held"], sum(memory[f"{name}_bytes"] for name in (
            "weights", "kv_granted", "kv_cached", "scratch_granted")))
        self.assertEqual((health["budget_version"], health["wanted"], health["cached"]), (0, 0, 0))
        self.assertGreater(health["resident"], 1 << 20)
        self.assertTrue(health["isa"])
        self.ask("POST", "/completion", self.completion(list(range(5, 205)), num_predict=20, ignore_eos=True))
        self.assertEqual(self.json("POST", "/budget", {"bytes": memory["budget_bytes"] // 2, "version": 3}), (200, {}))
        self.assertTrue(wait_until(lambda: self.json("GET", "/health")[1]["budget_version"] == 3))
        health = self.json("GET", "/health")[1]
        self.assertEqual(health["memory"]["budget_bytes"], memory["budget_bytes"] // 2)
        self.assertGreater(health["cached"], 0)

        def has_speeds():  # of the last seconds
            self.ask("POST", "/completion", self.completion(list(range(5, 205)), num_predict=20, ignore_eos=True))
            health = self.json("GET", "/health")[1]
            return 0 < health["busy_ratio"] <= 1 and health["prompt_tokens_per_second"] > 0 and health["decode_tokens_per_second"] > 0
        self.assertTrue(wait_until(has_speeds))
        self.assertEqual(self.json("POST", "/budget", {"bytes": 1 << 30, "version": -1})[0], 400)

    def test_reports_the_progress_of_a_prompt(self):
        self.start()
        status, text = self.ask("POST", "/completion", self.completion([5 + i % 90 for i in range(700)], num_predict=3))
        lines = [json.loads(line) for line in text.splitlines()]
        parts = [part for line in lines if isinstance(line, dict) for part in line.get("prefill", [])]
        self.assertEqual([part["n"] for part in parts], [512, 700])
        self.assertTrue(all(part["duration"] > 0 for part in parts))
        self.assertIn("prefill", lines[0])

    def embed(self, texts):
        head = json.dumps({"n": list(map(len, texts))}).encode()
        ids = [token for text in texts for token in text]
        return self.ask("POST", "/embed", head + b"\n" + struct.pack(f"<{len(ids)}i", *ids))

    def test_embeds_texts(self):
        self.start()
        texts = [[1, 2, 3], [7] * 40, [1, 2, 3], [9]]
        status, answer = self.embed(texts)
        self.assertEqual(status, 200, answer)
        head, values = answer.split(b"\n", 1)
        head = json.loads(head)
        self.assertEqual((head["n_vectors"], head["size"]), (4, 256))
        self.assertGreater(head["duration"], 0)
        vectors = list(struct.iter_unpack("<256f", values))
        self.assertEqual(len(vectors), 4)
        self.assertEqual(vectors[0], vectors[2])
        self.assertNotEqual(vectors[0], vectors[1])
        for body, named in (([[]], "empty"), ([[1] * 5000], "5000"), ([[99999]], "99999")):
            status, answer = self.embed(body)
            self.assertEqual(status, 400)
            self.assertIn(named, json.loads(answer)["error"])
        self.assertEqual(self.ask("POST", "/embed", b"{}")[0], 400)
        self.assertTrue(wait_until(lambda: self.json("GET", "/health")[1]["memory"]["kv_in_use_bytes"] == 0))

    def test_describes_a_file(self):
        done = billow("runner", "--describe", self.model, "--parallel", 4, "--threads", 2)
        self.assertEqual((done.returncode, done.stdout.count(b"\n")), (0, 1), done.stderr)
        described = json.loads(done.stdout)
        self.start("--parallel", 4, "--threads", 2)
        memory = self.json("GET", "/health")[1]["memory"]
        self.assertEqual(described["memory"]["weight_bytes"], memory["weights_bytes"])
        self.assertEqual((described["architecture"], described["is_embedding"], described["embedding_length"]), ("llama", False, 256))
        self.assertEqual([group["window"] for group in described["memory"]["kv_groups"]], [0])
        smaller = json.loads(self.ok("runner", "--describe", self.model, "--kv-type", "q8_0"))
        self.assertLess(smaller["memory"]["kv_groups"][0]["block_bytes"], described["memory"]["kv_groups"][0]["block_bytes"])
        junk = self.dir / "described.gguf"
        junk.write_bytes(b"no model at all")
        for path, code in ((junk, "invalid_input"), (self.dir / "nowhere.gguf", "not_found")):
            done = billow("runner", "--describe", path)
            self.assertEqual((done.returncode, done.stderr, done.stdout.count(b"\n")), (1, b"", 1))
            error = json.loads(done.stdout)
            self.assertEqual(error["code"], code)
            self.assertIn(path.name, error["error"])

    def test_a_failed_pass_ends_it_with_an_error(self):
        with open(ARGS.billow, "rb") as program:
            if b"__asan_init" in (code := program.read()) or b"__tsan_init" in code:
                self.skipTest("a sanitizer ends the process itself if address space is missing")
        process = self.start()
        # The first pass reserves more address space than this limit allows.
        resource.prlimit(process.pid, resource.RLIMIT_AS, (8 << 30, 8 << 30))
        status, text = self.ask("POST", "/completion", self.completion([1, 2, 3], num_predict=5))
        self.assertEqual(status, 500, text)
        self.assertEqual(process.wait(60), 3)
        last = process.stderr.read().decode().splitlines()[-1]
        self.assertIn("address space", last)
        self.assertIn(json.loads(text)["error"], last)

    def test_an_idle_runner_uses_no_processor_time(self):
        process = self.start()
        self.ask("POST", "/completion", self.completion([1, 2, 3], num_predict=5))

        def ticks():
            with open(f"/proc/{process.pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])

        def ticks_of_two_seconds():
            before = ticks()
            time.sleep(2)
            return ticks() - before
        # Its threads fall asleep soon. How soon depends on the load of the machine.
        self.assertTrue(any(ticks_of_two_seconds() <= 1 for _ in range(10)))


if __name__ == "__main__":
    main()
