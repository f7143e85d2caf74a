"""API keys with a real server: the commands, the roles, the limits, tenants that see nothing of each other, fair shares, clients.

keys_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
options, rest = parser.parse_known_args()

BLOCK = 64  # tokens
DEADLINE = 120  # seconds


def tokens(n, seed):
    source = random.Random(seed)
    return [source.randrange(10, 290) for _ in range(n)]


def run(*arguments, variables=None):
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    done = subprocess.run([options.billow, *arguments], env={**environment, **(variables or {})}, capture_output=True, text=True, timeout=DEADLINE)
    return done.returncode, done.stdout, done.stderr


def becomes_true(holds):
    end = time.monotonic() + DEADLINE
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Place(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.made.cleanup)
        subprocess.run([options.make_models, cls.made.name, "--to-serve"], check=True, capture_output=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "keys.toml"
        self.server = None

    def add(self, name, *arguments):
        """Makes a key. Returns it."""
        status, key, why = run("keys", "add", name, *arguments, "--file", str(self.file))
        self.assertEqual(status, 0, why)
        return key.strip()

    def start(self, *arguments, model=True):
        """Starts the server. `self.admin` is a key for everything."""
        self.admin = self.add("admin", "--roles", "use,manage,observe")
        self.server = Server(self.folder, ["--threads", "1", "--api-keys", str(self.file), *arguments], options.billow)
        self.addCleanup(lambda: self.server.process.poll() is None and self.server.stop())
        if not model:
            return
        path = pathlib.Path(self.made.name) / "writer.gguf"
        digest = "sha256:" + subprocess.run(["sha256sum", path], check=True, capture_output=True, text=True).stdout.split()[0]
        self.assertEqual(self.ask(self.admin, "POST", "/api/blobs/" + digest, path.read_bytes())[0], 201)
        status, _, text = self.ask(self.admin, "POST", "/api/create", {"model": "m", "files": {path.name: digest}, "stream": False})
        self.assertEqual(status, 200, text)

    def ask(self, key, method, path, body=None, **headers):
        return self.server.request(method, path, body, {**({"Authorization": "Bearer " + key} if key else {}), **headers})

    def complete(self, key, prompt, n=4, **fields):
        body = {"model": "m", "prompt": prompt, "n_predict": n, "temperature": 0, "ignore_eos": True, **fields}
        status, _, text = self.ask(key, "POST", "/completion", body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def cached(self, key, prompt, **fields):
        return self.complete(key, prompt, **fields)["timings"]["cache_n"]

    def metric(self, line):
        """Returns the value of a series, or None."""
        for found in self.ask(self.admin, "GET", "/metrics")[2].decode().splitlines():
            if found.startswith(line + " "):
                return float(found.rsplit(" ", 1)[1])
        return None


class Keys(Place):
    def test_a_key_is_made_listed_used_and_revoked(self):
        key = self.add("ann", "--max-requests", "4", "--tokens-per-minute", "5000")
        self.assertRegex(key, r"^billow-[A-Za-z0-9_-]{43}$")
        self.assertNotIn(key, self.file.read_text())
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)
        self.start(model=False)
        self.assertEqual(self.ask(key, "GET", "/api/tags")[0], 200)
        status, text, _ = run("keys", "list", "--file", str(self.file))
        self.assertEqual((status, text.splitlines()[1].split()), (0, ["ann", "use", "4", "5000", "1"]))
        self.assertEqual(run("keys", "revoke", "ann", "--file", str(self.file))[:2], (0, "revoked 'ann'\n"))
        self.assertTrue(becomes_true(lambda: self.ask(key, "GET", "/api/tags")[0] == 401))
        # The request before may have begun with the key, and has another error then.
        status, _, text = self.ask(key, "GET", "/api/tags")
        self.assertEqual(status, 401)
        self.assertIn(b"this server does not know the API key", text)
        self.assertEqual(self.ask(self.admin, "GET", "/api/tags")[0], 200)
        log = self.server.wait_for_log("this server does not know the API key")
        self.assertNotIn(key, log)
        self.assertIn("key=ann", log)

    def test_a_key_that_cannot_be_printed_is_not_stored(self):
        self.add("ann")
        before = self.file.read_text()
        with open("/dev/full", "wb") as full:
            done = subprocess.run([options.billow, "keys", "add", "bob", "--file", str(self.file)], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write standard output", done.stderr)
        self.assertEqual(self.file.read_text(), before)

    def test_wrong_words_have_one_line(self):
        self.add("ann")
        file = ["--file", str(self.file)]
        for words, message in ((["add", "ann", *file], f"{self.file} has a key 'ann' already; revoke it first, or choose another name"),
                               (["add", "a b", *file], "the name 'a b' must have 1 to 64 letters, digits or -_.@"),
                               (["add", "bob", "--roles", "admin", *file], "unknown role 'admin'; the roles are use, manage and observe"),
                               (["revoke", "bob", *file], f"{self.file} has no key 'bob'")):
            status, text, why = run("keys", *words)
            self.assertEqual((status, text, why), (1, "", f"billow: error: {message}\n"))
        for words, message in ((["add", *file], "write the name of the key: billow keys add NAME"),
                               (["list", "--roles", "use", *file], "'billow keys list' has no option --roles"),
                               (["remove", "ann", *file], "unknown action 'remove'; the actions are add, list and revoke"),
                               (["list"], "--file FILE is required (or BILLOW_API_KEYS)")):
            status, text, why = run("keys", *words)
            self.assertEqual((status, text, why), (2, "", f"billow: error: {message}. See 'billow keys --help'.\n"))

    def test_a_broken_file_stops_the_start_but_not_a_running_server(self):
        self.start(model=False)
        good = self.file.read_text()
        new = self.file.with_suffix(".new")
        new.write_text(good + "[[key]]\nnam = 'x'\n")
        new.replace(self.file)
        self.assertTrue(becomes_true(lambda: self.metric("billow_key_file_failures_total") == 1))
        self.server.wait_for_log("unknown key 'nam'")
        self.assertEqual(self.ask(self.admin, "GET", "/api/tags")[0], 200)
        other = subprocess.run([options.billow, "serve", "--api-keys", str(self.file), "--host", "127.0.0.1:0", "--models", str(self.folder / "m")],
                               capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(other.returncode, 1)
        self.assertIn(f"{self.file}:", other.stderr)

    def test_commands_send_the_key_of_the_environment(self):
        user = self.add("user")
        self.start()
        host = {"OLLAMA_HOST": f"127.0.0.1:{self.server.port}"}
        status, _, why = run("list", variables=host)
        self.assertEqual(status, 1)
        self.assertIn("BILLOW_API_KEY", why)
        for name in ("BILLOW_API_KEY", "OLLAMA_API_KEY"):
            status, text, why = run("list", variables={**host, name: self.admin})
            self.assertEqual((status, why), (0, ""))
            self.assertIn("m:latest", text)
        self.assertEqual(run("ps", variables={**host, "BILLOW_API_KEY": self.admin})[0], 0)
        self.assertEqual(run("trace", variables={**host, "BILLOW_API_KEY": self.admin})[0], 0)
        self.assertTrue(becomes_true(lambda: "it needs an API key" in run("doctor", variables=host)[1]))
        self.assertTrue(becomes_true(lambda: run("doctor", "--alive", variables=host)[0] == 0))
        modelfile = self.folder / "Modelfile"
        modelfile.write_text(f"FROM {pathlib.Path(self.made.name) / 'writer.gguf'}\n")
        status, _, why = run("create", "other", "-f", str(modelfile), variables={**host, "BILLOW_API_KEY": user})
        self.assertEqual(status, 1)
        self.assertIn("the API key 'user' lacks the role 'manage'", why)
        hosts = self.folder / "fleet.toml"
        hosts.write_text(f'[[host]]\nname = "a"\naddress = "127.0.0.1:{self.server.port}"\nkey-env = "FLEET_KEY"\n')
        status, text, _ = run("fleet", "status", "--json", "--timeout", "60", "--hosts", str(hosts), variables={"FLEET_KEY": self.admin})
        self.assertIn('"state": "ready"', text)
        self.assertIn("the variable FLEET_KEY is not set", "".join(run("fleet", "status", "--json", "--hosts", str(hosts))[1:]))

    def test_the_limit_of_tokens_refuses_with_the_time_to_wait(self):
        ann = self.add("ann", "--tokens-per-minute", "60")
        self.start()
        self.complete(ann, tokens(200, 1))
        self.assertTrue(becomes_true(lambda: self.metric('billow_key_tokens_total{key="ann",kind="evaluated"}') == 200))
        status, headers, text = self.ask(ann, "POST", "/completion", {"model": "m", "prompt": "x", "n_predict": 1})
        self.assertEqual(status, 429, text)
        self.assertGreater(int(headers["Retry-After"]), 60)
        self.assertEqual(self.ask(self.admin, "POST", "/completion", {"model": "m", "prompt": "x", "n_predict": 1})[0], 200)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class UnixSocket(Place):
    def serve(self, path, *arguments):
        command = [options.billow, "serve", "--host", f"unix:{path}", "--models", str(self.folder / "models"), *arguments]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        return process

    def status(self, path):
        connection = UnixConnection(path)
        try:
            connection.request("GET", "/api/tags")
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def test_the_server_listens_on_a_unix_socket_only(self):
        path = self.folder / "billow.sock"
        first = self.serve(path)
        self.assertTrue(becomes_true(lambda: self.status(path) == 200))
        self.assertEqual(path.stat().st_mode & 0o777, 0o660)
        second = self.serve(path)
        self.assertEqual(second.wait(DEADLINE), 1)
        self.assertIn("another process listens on it", second.stderr.read())
        first.kill()  # leaves the file
        first.wait()
        self.assertTrue(path.exists())
        third = self.serve(path, "--api-keys", str(self.folder / "keys.toml")) if self.add("ann") else None
        self.assertTrue(becomes_true(lambda: self.status(path) == 401), "keys are needed on a Unix socket, too")
        third.send_signal(signal.SIGTERM)
        self.assertEqual(third.wait(DEADLINE), 0)
        self.assertFalse(path.exists())
        self.assertIn(f"Listening on {path} (version", third.stderr.read())

    def test_two_sockets_are_refused(self):
        process = self.serve(self.folder / "a", "--socket", str(self.folder / "b"))
        self.assertEqual(process.wait(DEADLINE), 1)
        self.assertIn("name two Unix sockets", process.stderr.read())


class Tenants(Place):
    def test_tenants_share_no_prefixes(self):
        ann, bob = self.add("ann"), self.add("bob")
        self.start()
        prompt = tokens(6 * BLOCK + 10, 1)
        self.assertEqual(self.cached(ann, prompt), 0)
        self.assertEqual(self.cached(ann, prompt), 6 * BLOCK)
        self.assertEqual(self.cached(bob, prompt), 0)
        self.assertEqual(self.cached(bob, prompt), 6 * BLOCK)
        self.assertEqual(self.cached(ann, prompt, cache_salt="mine"), 0)
        self.assertEqual(self.cached(ann, prompt, cache_salt="mine"), 6 * BLOCK)
        self.assertEqual(self.cached(bob, prompt, cache_salt="mine"), 0)

    def test_salts_of_one_key_and_the_digests_of_prefixes(self):
        self.start()
        prompt = tokens(3 * BLOCK + 10, 2)
        self.complete(self.admin, prompt)
        self.complete(self.admin, prompt, cache_salt="x")
        listed = json.loads(self.ask(self.admin, "GET", "/api/ps?prefixes=20")[2])["models"][0]["prefixes"]
        digests = {prefix["digests"][0] for prefix in listed}
        self.assertEqual(len(digests), 2, listed)

    def test_conversations_on_disk_belong_to_their_tenant_after_a_restart(self):
        ann, bob = self.add("ann"), self.add("bob")
        self.start("--sessions-limit", "1G")
        prompt = tokens(6 * BLOCK + 10, 3)
        self.complete(ann, prompt)
        saved = {"filename": "s", "model": "m"}
        slot = self.complete(ann, prompt)["id_slot"]
        status, _, text = self.ask(ann, "POST", f"/slots/{slot}?action=save", saved)
        self.assertEqual(status, 200, text)
        self.assertEqual(json.loads(text)["n_saved_kv"] % BLOCK, 0)
        self.assertGreaterEqual(json.loads(text)["n_saved_kv"], 6 * BLOCK)
        self.assertEqual(self.ask(bob, "POST", "/slots/0?action=restore", saved)[0], 400)
        self.server.stop()
        self.server = Server(self.folder, ["--threads", "1", "--sessions-limit", "1G", "--api-keys", str(self.file)], options.billow)
        self.assertEqual(self.cached(bob, prompt), 0)
        self.assertEqual(self.cached(ann, prompt), 6 * BLOCK)

    def test_responses_belong_to_their_tenant(self):
        ann, bob = self.add("ann"), self.add("bob")
        self.start()
        status, _, text = self.ask(ann, "POST", "/v1/responses", {"model": "m", "input": "x", "max_output_tokens": 4})
        self.assertEqual(status, 200, text)
        path = "/v1/responses/" + json.loads(text)["id"]
        self.assertEqual([self.ask(key, "GET", path)[0] for key in (ann, bob)], [200, 404])

    def test_a_wrong_salt_is_refused(self):
        self.start()
        for path, body in (("/api/generate", {"prompt": "x"}), ("/api/chat", {"messages": [{"role": "user", "content": "x"}]}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}), ("/v1/completions", {"prompt": "x"})):
            status, _, text = self.ask(self.admin, "POST", path, {"model": "m", "cache_salt": 7, **body})
            self.assertEqual(status, 400, path)
            self.assertIn("cache_salt must be a text", text.decode())


class Fairness(Place):
    # Requests of two tenants at 2:1. The count begins when all have arrived, and ends long before a tenant has none that waits.
    N_TOKENS = 96
    N_ANN, N_BOB = 200, 100
    N_COUNTED = 60

    def shares(self, weights=(1, 1)):
        ann, bob = (self.add(name, "--weight", str(weight)) for name, weight in zip(("ann", "bob"), weights))
        self.start("--parallel", "2", "--max-queue", str(self.N_ANN + self.N_BOB))
        self.complete(self.admin, [5])  # loads the model
        order = []

        def ask_once(key, seed):
            self.complete(key, tokens(8, seed), n=self.N_TOKENS)
            order.append(key)

        def all_are_there():
            n_ended = len(order)
            load = self.ask(self.admin, "GET", "/metrics/load")[2].decode()
            n = [int(re.search(rf"^billow_requests_{state} (\d+)$", load, re.MULTILINE)[1]) for state in ("waiting", "running")]
            return n_ended + sum(n) >= self.N_ANN + self.N_BOB

        keys = [ann, bob, ann] * self.N_BOB
        with concurrent.futures.ThreadPoolExecutor(len(keys)) as threads:
            for seed, key in enumerate(keys):
                threads.submit(ask_once, key, seed)
            try:
                self.assertTrue(becomes_true(all_are_there))
                begin = len(order)
                for n in range(begin + 1, begin + self.N_COUNTED + 1):  # a slow machine needs the time limit for each request
                    self.assertTrue(becomes_true(lambda n=n: len(order) >= n), f"{len(order)} requests of {n} ended")
            finally:
                self.server.kill()  # the other requests end
        counted = order[begin:begin + self.N_COUNTED]
        share = counted.count(bob) / self.N_COUNTED
        print(f"share of the small tenant: {share:.3f}, after {begin} requests")
        return share

    def test_two_tenants_with_different_numbers_of_requests_get_equal_shares(self):
        share = self.shares()
        self.assertGreaterEqual(share, 0.4)
        self.assertLessEqual(share, 0.6)

    def test_weights_change_the_shares(self):
        share = self.shares(weights=(3, 1))
        self.assertGreaterEqual(share, 0.15)
        self.assertLessEqual(share, 0.35)


if __name__ == "__main__":
    run_cases(rest)
