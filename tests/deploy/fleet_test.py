"""Real servers with generated models: what `billow fleet check` and `billow fleet status` say about them, and requests through HAProxy while
servers are drained and killed.

fleet_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import collections
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from fleet_place import HAPROXY, Balancer, free_port, hosts_text, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))
from run_cases import run_cases  # noqa: E402
from server import Server  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
options, rest = parser.parse_known_args()

MODELS = '[[model]]\nname = "writer"\nmemory = "64M"\n'


class Host(Server):
    """A `billow serve` as the comment of the configuration starts it. `name` is its node name."""

    def __init__(self, name, folder, store, *arguments, port=0):
        self.name = name
        folder.mkdir(exist_ok=True)
        if not (folder / "models").exists():
            (folder / "models").symlink_to(store)
        delay = [] if "--drain-delay" in arguments else ["--drain-delay", "4"]
        super().__init__(folder, ["--threads", "1", "--node-name", name, *delay, *arguments], options.billow, port=port)


class Fleet(unittest.TestCase):
    ARGUMENTS = ("--read-only", "--preload", "writer")

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.made = pathlib.Path(folder.name)
        subprocess.run([options.make_models, cls.made, "--to-serve"], check=True, capture_output=True)
        cls.store = cls.make_store("store", "writer")
        cls.other_store = cls.make_store("other", "large")

    @classmethod
    def make_store(cls, name, weights):
        """A store in which `writer` has these weights."""
        store = cls.made / name
        store.mkdir()
        maker = Host("maker", cls.made / ("maker-" + name), store)
        maker.add_model("writer", cls.made / (weights + ".gguf"))
        assert maker.stop() == 0
        return store

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.hosts = []
        self.addCleanup(lambda: [self.end(host) for host in self.hosts])

    def end(self, host):
        if host.process.poll() is None:
            host.process.kill()
            host.process.wait()

    def start(self, name, *arguments, store=None, port=0):
        host = Host(name, self.folder / name, store or self.store, *(arguments or self.ARGUMENTS), port=port)
        self.hosts = [other for other in self.hosts if other.name != name] + [host]
        return host

    def ready(self, host):
        wait_for(f"{host.name} is ready", lambda: host.request("GET", "/readyz")[0] == 200)

    def hosts_file(self, more="", models=MODELS):
        path = self.folder / "fleet.toml"
        path.write_text(hosts_text(self.hosts, free_port(), free_port(), models=models, keys='memory = "1G"') + more)
        return path

    def fleet(self, action, path, *arguments, status=0):
        if "--timeout" not in arguments:
            arguments += ("--timeout", "60")
        done = subprocess.run([options.billow, "fleet", action, "--hosts", path, *arguments], capture_output=True, text=True, timeout=600)
        self.assertEqual((done.returncode, done.stderr), (status, ""), done.stdout)
        return done.stdout


class Check(Fleet):
    def lines(self, text):
        return [re.sub(" +", " ", line) for line in text.splitlines()]

    def test_hosts_that_agree_also_in_their_prefixes(self):
        for name in ("a", "b"):
            self.start(name)
        for host in self.hosts:
            self.ready(host)
        path = self.hosts_file()
        lines = self.lines(self.fleet("check", path, "--probe"))
        self.assertEqual([line.split(" ")[:2] for line in lines],
                         [["ok", "ready"], ["ok", "ready"], ["ok", "version"], ["ok", "model"], ["ok", "fingerprint"], ["ok", "prefixes"]], lines)
        self.assertIn("ok prefixes writer: the same digests on 2 hosts", lines)
        shown = subprocess.run([options.billow, "fingerprint", "-m", "writer"], capture_output=True, text=True, check=True,
                               env={"OLLAMA_HOST": f"127.0.0.1:{self.hosts[0].port}"}).stdout
        self.assertIn(f"ok fingerprint writer: {shown[:7 + 12]} on 2 hosts", lines)
        report = json.loads(self.fleet("check", path, "--json"))
        self.assertTrue(report["ok"])
        self.assertEqual(len(report["findings"]), 5)

    def test_hosts_that_disagree(self):
        self.start("a")
        self.start("b", "--preload", "writer", store=self.other_store)
        for host in self.hosts:
            self.ready(host)
        dead = f'[[host]]\nname = "c"\naddress = "127.0.0.1:{free_port()}"\nmemory = "1G"\n'
        lines = self.lines(self.fleet("check", self.hosts_file(dead), "--probe", status=1))
        kinds = collections.Counter(tuple(line.split(" ")[:2]) for line in lines)
        for expected in (("failure", "reachable"), ("failure", "model"), ("failure", "fingerprint"), ("failure", "prefixes"),
                         ("warning", "read-only"), ("ok", "version")):
            self.assertEqual(kinds[expected], 1, lines)

    def test_a_missing_model_and_a_host_that_is_not_ready(self):
        self.start("a")
        self.ready(self.hosts[0])
        self.start("b", "--read-only", "--preload", "missing")
        models = MODELS + '[[model]]\nname = "absent"\nmemory = "1M"\nreplicas = 1\n'
        lines = self.lines(self.fleet("check", self.hosts_file(models=models), status=1))
        self.assertTrue(any(line.startswith("failure ready b is not ready: model 'missing'") for line in lines), lines)
        self.assertTrue(any(re.match("failure model absent is missing on [ab]$", line) for line in lines), lines)
        self.assertIn("warning model writer is not loaded on b; start them with --preload writer", lines)

    def test_something_else_at_the_address(self):
        self.start("a")
        self.ready(self.hosts[0])
        text = self.hosts_file().read_text().replace(f":{self.hosts[0].port}", ":9")
        (self.folder / "fleet.toml").write_text(text)
        lines = self.lines(self.fleet("check", self.folder / "fleet.toml", status=1))
        self.assertTrue(lines[0].startswith("failure reachable a (http://127.0.0.1:9): "), lines)

    def watch_drain(self, host):
        process = subprocess.Popen([options.billow, "fleet", "check", "--hosts", self.hosts_file(), "--drain", host.name],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.assertIn(f"Stop Billow on {host.name} now", process.stderr.readline())
        time.sleep(0.5)
        host.process.send_signal(signal.SIGTERM)
        text, _ = process.communicate(timeout=60)
        return process.returncode, re.sub(" +", " ", text)

    def test_a_drain_that_is_long_enough(self):
        host = self.start("a", *self.ARGUMENTS, "--drain-delay", "10")
        self.ready(host)
        status, text = self.watch_drain(host)
        self.assertEqual(status, 0, text)
        found = re.search(r"^ok drain a was not ready for (\d+\.\d) s before it closed its port, and served all \d+ requests meanwhile\n$", text)
        self.assertTrue(found, text)
        self.assertTrue(2 <= float(found[1]) <= 60, text)

    def test_a_drain_that_is_too_short(self):
        host = self.start("a", "--read-only", "--drain-delay", "0")
        self.ready(host)
        status, text = self.watch_drain(host)
        self.assertEqual(status, 1, text)
        self.assertRegex(text, "^failure drain a ")


class Status(Fleet):
    def test_a_row_for_each_host_also_for_a_dead_one(self):
        host = self.start("a")
        self.ready(host)
        host.json("POST", "/api/generate", {"model": "writer", "prompt": "words " * 100, "raw": True, "stream": False, "options": {"num_predict": 1}})
        host.json("POST", "/api/generate", {"model": "writer", "prompt": "words " * 100, "raw": True, "stream": False, "options": {"num_predict": 1}})
        dead = f'[[host]]\nname = "b"\naddress = "127.0.0.1:{free_port()}"\nmemory = "1G"\n'
        path = self.hosts_file(dead)
        # The server counts a request as running until shortly after its client has the answer.
        for _ in range(100):
            lines = self.fleet("status", path).splitlines()
            if lines[1].split()[5] == "0":
                break
            time.sleep(0.1)
        self.assertEqual(lines[0].split(), ["HOST", "STATE", "VERSION", "LOADED", "WAITING", "RUNNING", "BUSY", "KV", "CACHED"])
        self.assertRegex(lines[1], r"^a +ready +\d+\.\d+\.\d+ +writer +0 +0 +\d+% +\d+% +[1-9]\d?% *$")
        self.assertRegex(lines[2], r"^b +unreachable ")
        self.assertRegex(lines[3], r"^2 hosts +1 ready ")
        self.assertRegex(lines[5], r"^b: .*127\.0\.0\.1")
        report = json.loads(self.fleet("status", path, "--json"))
        self.assertEqual([one["state"] for one in report["hosts"]], ["ready", "unreachable"])
        self.assertGreater(report["hosts"][0]["prompt_cached_tokens"], 0)

    def test_watch_refreshes_until_it_is_interrupted(self):
        host = self.start("a")
        self.ready(host)
        process = subprocess.Popen([options.billow, "fleet", "status", "--hosts", self.hosts_file(), "--watch"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        n_tables = 0
        while n_tables < 2:
            n_tables += process.stdout.readline().startswith("HOST ")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)

    def test_a_host_that_says_nothing_does_not_delay_the_others(self):
        import socket
        host = self.start("a")
        self.ready(host)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            more = f'[[host]]\nname = "b"\naddress = "127.0.0.1:{silent.getsockname()[1]}"\nmemory = "1G"\n'
            begin = time.monotonic()
            text = self.fleet("status", self.hosts_file(more), "--timeout", "10")
            self.assertLess(time.monotonic() - begin, 60)
        self.assertRegex(text, "(?m)^a +ready ")
        self.assertRegex(text, "(?m)^b +unreachable ")


class Usage(unittest.TestCase):
    def wrong(self, message, *arguments, status):
        message += ". See 'billow fleet --help'." if status == 2 else ""
        done = subprocess.run([options.billow, "fleet", *arguments], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (status, "", f"billow: error: {message}\n"))

    def test_wrong_words(self):
        self.wrong("unknown action 'chek'; the actions are config, check and status", "chek", "--hosts", "x", status=2)
        self.wrong("--hosts FILE is required", "check", status=2)
        self.wrong("'billow fleet config' has no option --json", "config", "--hosts", "x", "--json", status=2)
        self.wrong("--timeout must be above 0 and at most 3600 seconds", "check", "--hosts", "x", "--timeout", "0", status=2)
        with tempfile.TemporaryDirectory() as folder:
            self.wrong(f"{folder}: is a folder; name a TOML file", "config", "--hosts", folder, status=1)
            self.wrong(f"cannot read the hosts file {folder}/none: No such file or directory", "config", "--hosts", folder + "/none", status=1)
            path = pathlib.Path(folder) / "f.toml"
            path.write_text('[[host]]\nname = "a"\naddress = "x"\n')
            self.wrong("--drain: there is no host 'b'", "check", "--hosts", path, "--drain", "b", status=1)


@unittest.skipIf(HAPROXY is None, "there is no haproxy on this machine; tools/setup installs it")
class ThroughHaproxy(Fleet):
    def setUp(self):
        super().setUp()
        for name in ("a", "b", "c"):
            self.start(name)
        for host in self.hosts:
            self.ready(host)
        self.balancer = Balancer(options.billow, self.folder, self.hosts, models=MODELS, keys='memory = "1G"')
        self.addCleanup(self.balancer.end)

    def chat(self, first, turns=(), **more):
        messages = [{"role": "user", "content": first}]
        for turn in turns:
            messages += [{"role": "assistant", "content": "words"}, {"role": "user", "content": turn}]
        return {"model": "writer", "messages": messages, "stream": False, "options": {"num_predict": 4}, **more}

    def test_the_second_turn_finds_the_first_in_the_cache(self):
        for i in range(6):
            first = f"question {i}: " + "many words " * 60
            begun = self.balancer.node("/api/chat", self.chat(first))
            status, fields, text = self.balancer.ask("/api/chat", self.chat(first, ["more"]))
            self.assertEqual((status, fields["X-Billow-Node"]), (200, begun), text)
            self.assertGreater(json.loads(text)["prompt_cached_count"], 64)
        openai = self.chat("question 0: " + "many words " * 60, ["more", "and more"]) | {"max_tokens": 4}
        del openai["options"]
        answer = json.loads(self.balancer.ask("/v1/chat/completions", openai)[2])
        self.assertGreater(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 64, "the other API finds the same host")

    def test_drains_and_kills_lose_no_request(self):
        statuses, end = collections.Counter(), time.monotonic() + 14

        def run(i):
            n = 0
            while time.monotonic() < end:
                n += 1
                try:
                    status, _, text = self.balancer.send("POST", "/api/chat", self.chat(f"talk {i}", ["more"] * (n % 3)))
                    statuses[status if status == 200 else text] += 1
                except OSError as error:
                    statuses[repr(error)] += 1

        threads = [threading.Thread(target=run, args=[i]) for i in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        drained = self.hosts[0]
        self.assertEqual(drained.stop(), 0)
        self.ready(self.start("a", port=drained.port))
        wait_for("HAProxy finds it again", lambda: self.balancer.n_ready() == 3)
        self.end(self.hosts[0])
        for thread in threads:
            thread.join()
        self.assertEqual(set(statuses), {200}, statuses)
        self.assertGreater(sum(statuses.values()), 8)


if __name__ == "__main__":
    run_cases(rest)
