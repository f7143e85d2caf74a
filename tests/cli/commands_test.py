"""Tests the program as a whole: help, suggestions, exit statuses, doctor, configuration file, completion, manual."""
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

from fake_server import FakeServer
from program import ARGS, billow, free_port, main


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.port = free_port()
        self.env = {"HOME": str(self.dir), "OLLAMA_HOST": f"127.0.0.1:{self.port}", "OLLAMA_MODELS": ""}
        for name in ("BILLOW_HOST", "BILLOW_CONFIG", "BILLOW_ISA", "BILLOW_MODELS", "XDG_CONFIG_HOME"):
            os.environ.pop(name, None)

    def run_ok(self, *args):
        done = billow(*args, env=self.env)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        return done.stdout.decode()

    def wrong(self, message, *args, status=2):
        done = billow(*args, env=self.env)
        self.assertEqual(done.stderr.decode(), f"billow: error: {message}\n")
        self.assertEqual((done.returncode, done.stdout), (status, b""))

    def commands(self):
        """Returns the names of all commands in the help, without aliases."""
        return re.findall(r"^  ([a-z]+)(?:, [a-z]+)?  +\S", self.run_ok("--help"), re.M)


class Help(Case):
    def test_help_without_arguments_and_by_three_names(self):
        text = self.run_ok()
        for args in (["--help"], ["-h"], ["help"]):
            self.assertEqual(self.run_ok(*args), text)
        for words in ("Start here:", "serve, start", "Help and diagnosis:", "Examples:", "Exit status:"):
            self.assertIn(words, text)
        self.assertNotIn("__", text)
        self.assertNotIn("runner ", text)

    def test_a_full_disk_is_an_error(self):
        for args in ([], ["--help"], ["--version"], ["version"], ["help", "serve"], ["plan", "--help"]):
            with self.subTest(args=args), open("/dev/full", "wb") as full:
                done = subprocess.run([ARGS.billow, *args], stdout=full, stderr=subprocess.PIPE, timeout=60)
                self.assertIn(b"billow: error: cannot write standard output", done.stderr)
                self.assertEqual(done.returncode, 1)

    def test_help_of_each_command(self):
        commands = self.commands()
        self.assertGreater(len(commands), 25)
        for command in commands:
            text = self.run_ok("help", command)
            self.assertEqual(text, self.run_ok(command, "--help"))
            self.assertIn(f"Usage: billow {command}", text)
        self.assertEqual(self.run_ok("help", "ls"), self.run_ok("help", "list"))

    def test_the_options_of_all_examples_exist(self):
        n_examples = 0
        for command in self.commands():
            text = self.run_ok("help", command)
            for example in re.findall(r"^  (billow .*)$", text.partition("Examples:")[2], re.M):
                words = shlex.split(example.partition(" < ")[0])
                self.assertEqual(words[1], command)
                for word in words[2:]:
                    if word.startswith("-"):
                        self.assertRegex(text, rf"[ ,]{re.escape(word)}[ ,]", example)
                n_examples += 1
        self.assertGreater(n_examples, 20)

    def test_all_examples_get_as_far_as_they_can(self):
        """Runs each example in an empty folder and without a server. Only missing files and the missing server stop it."""
        missing = "could not connect to billow server|No such file|there is no |cannot be read"
        n_examples = 0
        for command in self.commands():
            examples = re.findall(r"^  (billow .*)$", self.run_ok("help", command).partition("Examples:")[2], re.M)
            for example in examples:
                words = shlex.split(re.split(" [<>] ", example)[0])[1:]
                # The server would run for ever. It does not start without its file of keys.
                keys = {"BILLOW_API_KEYS": str(self.dir / "none")} if command == "serve" else {}
                with self.subTest(example):
                    done = subprocess.run([os.path.abspath(ARGS.billow), *words], env={**os.environ, **self.env, **keys}, cwd=self.dir,
                                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
                    if command == "serve" or done.returncode != 0:
                        self.assertIn(done.returncode, (1, 65), done.stderr)
                        self.assertRegex(done.stderr, missing)
                n_examples += 1
        self.assertGreater(n_examples, 20)

    def test_version_by_three_names(self):
        text = self.run_ok("--version")
        self.assertRegex(text, r"^billow \d+\.\d+\.\d+ \(commit .*\), .*, kernels \w+\n$")
        self.assertEqual(self.run_ok("-v"), text)
        self.assertEqual(self.run_ok("version"), text)


class Suggestions(Case):
    def test_unknown_commands(self):
        self.wrong("unknown command 'serv'; did you mean 'serve'? See 'billow --help'.", "serv")
        self.wrong("unknown command 'lst'; did you mean 'ls' or 'list'? See 'billow --help'.", "lst")
        self.wrong("unknown command 'banana'. See 'billow --help'.", "banana", "--model", "x")
        self.wrong("unknown command 'srve'; did you mean 'serve'?", "help", "srve")
        self.wrong("unknown option '--versoin'; did you mean '--version'? See 'billow --help'.", "--versoin")

    def test_unknown_options(self):
        self.wrong("unknown option '--temperture'; did you mean '--temperature'? See 'billow generate --help'.",
                   "generate", "--temperture", "2")
        self.wrong("unknown option '--keepalive'; did you mean '--keep-alive'? See 'billow serve --help'.",
                   "serve", "--keepalive=5m")
        self.wrong("--model is required. See 'billow generate --help'.", "generate")
        self.wrong("unexpected argument 'extra'. See 'billow version --help'.", "version", "extra")

    def test_wrong_values_name_their_option(self):
        see = ". See 'billow serve --help'."
        self.wrong('--keep-alive: time: invalid duration "abc"' + see, "serve", "--keep-alive", "abc")
        self.wrong("--host: '99999' is not a port from 0 to 65535" + see, "serve", "--host", "1.2.3.4:99999")
        self.wrong("--max-queue: '0' is not a whole number of at least 1" + see, "serve", "--max-queue", "0")
        self.wrong("--max-connections: '-1' is not a whole number of at least 1" + see, "serve", "--max-connections", "-1")
        self.wrong("--max-context-size: '-1' is not a whole number of at least 0" + see, "serve", "--max-context-size", "-1")
        self.wrong("--drain-delay: 'nan' is not a number from 0 to 86400" + see, "serve", "--drain-delay", "nan")

    def test_a_server_without_memory_does_not_start(self):
        for size in ("0", "0K", "0%"):
            for command in (["serve"], ["generate", "--model", "x"]):
                self.wrong(f"--memory: {size} leaves no memory; give a size like 2G or leave it out. See 'billow {command[0]} --help'.",
                           *command, "--memory", size)

    def test_wrong_words_of_keys(self):
        see = ". See 'billow keys --help'."
        self.wrong("unknown action 'foo'; the actions are add, list and revoke" + see, "keys", "foo")
        self.wrong("'billow keys list' takes no name" + see, "keys", "list", "x")
        self.wrong("write the name of the key: billow keys add NAME" + see, "keys", "add", "--file", "x")
        self.wrong("--file FILE is required (or BILLOW_API_KEYS)" + see, "keys", "list")


class Doctor(Case):
    def checks(self, status=0):
        done = billow("doctor", "--json", env=self.env)
        self.assertEqual((done.returncode, done.stderr.decode()), (status, ""))
        report = json.loads(done.stdout)
        self.assertIn("billow ", report["version"])
        return {check["check"]: check for check in report["checks"]}

    def test_a_machine_without_a_server(self):
        checks = self.checks()
        self.assertEqual(set(checks), {"processor", "load", "memory", "huge pages", "open files", "settings", "models",
                                       "disk", "server", "llama-server"})
        self.assertIn(f"no server at http://127.0.0.1:{self.port}", checks["server"]["text"])
        self.assertIn("does not exist yet", checks["models"]["text"])
        self.assertIn("no configuration file", checks["settings"]["text"])
        text = self.run_ok("doctor")
        for check in checks:
            self.assertRegex(text, rf"(?m)^(ok|warning|failure) +{check} ")

    def test_forced_kernels_are_a_warning_and_unknown_ones_a_failure(self):
        self.env["BILLOW_ISA"] = "scalar"
        self.assertEqual(self.checks()["processor"]["level"], "warning")
        self.env["BILLOW_ISA"] = "z80"
        done = billow("doctor", env=self.env)
        self.assertEqual(done.returncode, 1)

    def test_another_server_at_the_port(self):
        other = FakeServer()
        self.addCleanup(other.close)
        other.answers |= {"GET /api/version": {"version": "0.9.9"}, "GET /api/server": (404, b"")}
        self.env["OLLAMA_HOST"] = other.host
        server = self.checks()["server"]
        self.assertEqual(server["level"], "warning")
        self.assertIn("Ollama 0.9.9 answers at", server["text"])
        self.assertIn(f"process {os.getpid()}", server["text"])

    def test_alive_asks_the_server_at_its_address(self):
        other = FakeServer()
        self.addCleanup(other.close)
        other.answers["GET /healthz"] = {"status": "ok"}
        port = other.host.rpartition(":")[2]
        for host in (other.host, f"http://{other.host}/", f"0.0.0.0:{port}", f":{port}"):
            self.env["BILLOW_HOST"] = host
            self.assertRegex(self.run_ok("doctor", "--alive"), f"^the server at http://(127.0.0.1|localhost):{port} runs\n$")
        other.answers["GET /healthz"] = (503, b"")
        for host, why in ((other.host, "answers 503 to GET /healthz"), (f"127.0.0.1:{self.port}", "cannot connect")):
            self.env["BILLOW_HOST"] = host
            done = billow("doctor", "--alive", env=self.env)
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            self.assertIn(why, done.stderr.decode())

    def test_a_port_that_accepts_but_never_answers_is_a_failure(self):
        silent = socket.create_server(("127.0.0.1", self.port))
        self.addCleanup(silent.close)
        server = self.checks(status=1)["server"]
        self.assertEqual(server["level"], "failure")
        self.assertIn(f"port {self.port} is in use (process {os.getpid()}", server["text"])

    def test_a_broken_configuration_is_a_failure(self):
        path = self.dir / "wrong.toml"
        path.write_text("keep_alive = 1\n")
        self.env["BILLOW_CONFIG"] = str(path)
        settings = self.checks(status=1)["settings"]
        self.assertIn(f"{path}:1: unknown setting 'keep_alive'; did you mean 'keep-alive'?", settings["text"])
        path.write_text("keep-alive = 60\nread-only = true\n")
        self.assertEqual(self.checks()["settings"]["text"], f"2 settings of {path}")
        for line, fault in (('kv-type = "q5"', "--kv-type: q5 not in {f16,q8_0,q4_0,f32}"),
                            ("parallel = 0", "--parallel: Value 0 not in range 1 to 1024"),
                            ('keep-alive = "xx"', '--keep-alive: time: invalid duration "xx"'),
                            ('memory = "0"', "--memory: 0 leaves no memory; give a size like 2G or leave it out")):
            path.write_text("# a comment\n" + line)
            settings = self.checks(status=1)["settings"]
            self.assertEqual((settings["level"], settings["text"]), ("failure", f"{path}:2: {fault}"))
        path.write_text("n-batch = 10\nn-ubatch = 20\n")
        settings = self.checks(status=1)["settings"]
        self.assertIn("n_ubatch must not be more than n_batch", settings["text"])
        self.assertIn(f"(with the settings of {path})", settings["text"])

    def test_the_folder_of_the_models_is_that_of_the_server(self):
        path = self.dir / "own.toml"
        path.write_text(f'models = "{self.dir}/elsewhere"\n')
        self.env["BILLOW_CONFIG"] = str(path)
        checks = self.checks()
        self.assertIn(f"{self.dir}/elsewhere does not exist yet", checks["models"]["text"])
        self.assertIn(f"{self.dir}/elsewhere", checks["disk"]["text"])
        file = self.dir / "file"
        file.write_text("")
        path.write_text(f'models = "{file}"\n')
        models = self.checks(status=1)["models"]
        self.assertEqual(models["level"], "failure")
        self.assertIn(str(file), models["text"])

    def test_wrong_variables_are_a_warning(self):
        for name, value in (("BILLOW_LOG", "xx"), ("BILLOW_PACKED_LIMIT", "x"), ("BILLOW_CONTEXT_SIZE", "5")):
            before = dict(self.env)
            self.env[name] = value
            settings = self.checks()["settings"]
            self.assertEqual(settings["level"], "warning")
            self.assertIn(f"{name}: ", settings["text"])
            self.assertIn("; the default is used", settings["text"])
            self.env = before
        self.env["BILLOW_API_KEYS"] = str(self.dir / "none")
        self.assertIn("BILLOW_API_KEYS: ", self.checks(status=1)["settings"]["text"])

    def test_a_server_that_asks_for_a_key(self):
        other = FakeServer()
        self.addCleanup(other.close)
        other.answers |= {"GET /api/server": (401, b""), "GET /api/version": (401, b"")}
        self.env["OLLAMA_HOST"] = other.host
        server = self.checks()["server"]
        self.assertEqual(server["level"], "warning")
        self.assertIn(f"a server answers at http://{other.host}", server["text"])
        self.assertIn("it needs an API key", server["text"])
        self.assertNotIn("nothing answers", server["text"])
        self.assertIn("BILLOW_API_KEY", server["advice"])


class Configuration(Case):
    def serve(self, *args):
        process = subprocess.Popen([ARGS.billow, "serve", *args], env={**os.environ, **self.env}, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def server_json(self, port, path="/api/server"):
        deadline = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                    return json.load(answer)
            except OSError:
                self.assertLess(time.monotonic(), deadline, "the server does not answer")
                time.sleep(0.02)

    def test_the_server_listens_at_the_address_in_the_file(self):
        del self.env["OLLAMA_HOST"]
        os.environ.pop("OLLAMA_HOST", None)
        folder = self.dir / ".config/billow"
        folder.mkdir(parents=True)
        (folder / "billow.toml").write_text(f'host = "127.0.0.1:{self.port}"\nmodels = "{self.dir}/m"\n')
        process = self.serve()
        self.server_json(self.port)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 0)
        self.assertIn(f"settings of {folder}/billow.toml".encode(), process.stderr.read())

    def test_a_variable_wins_over_the_file_and_an_option_over_both(self):
        other, third = free_port(), free_port()
        path = self.dir / "own.toml"
        path.write_text(f'host = "127.0.0.1:{other}"\nmodels = "{self.dir}/m"\n')
        process = self.serve("--config", str(path))
        self.server_json(self.port)
        process.kill()
        self.serve("--config", str(path), "--host", f"127.0.0.1:{third}")
        self.server_json(third)

    def test_wrong_variables_cause_warnings(self):
        wrong = {"BILLOW_LOG": "xx", "BILLOW_PACKED_LIMIT": "x", "BILLOW_SESSIONS_LIMIT": "-1", "BILLOW_OTLP": "foo",
                 "BILLOW_REGISTRY_MIRROR": "foo", "BILLOW_N_BATCH": "0", "BILLOW_CONTEXT_SIZE": "5", "BILLOW_DRAFT_MAX": "1000",
                 "BILLOW_STREAM_INTERVAL": "999999", "BILLOW_MAX_PASS_TIME": "999999"}
        self.env |= wrong
        process = self.serve()
        self.server_json(self.port)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 0)
        log = process.stderr.read().decode()
        for name in wrong:
            self.assertRegex(log, rf"warning: {name}: .*; the default is used\n")
        self.assertIn("info: Listening on", log)

    def test_wrong_variables_that_protect_the_server_stop_its_start(self):
        none = self.dir / "none"
        origin = 'allowed origin "x": write it as scheme://host[:port], such as http://example.com, or *'
        for name, value, fault in (("BILLOW_API_KEYS", none, f"there is no file of API keys at {none}"),
                                   ("OLLAMA_ORIGINS", "x", origin)):
            done = billow("serve", env={**self.env, name: str(value)})
            self.assertEqual((done.returncode, done.stderr.decode()), (1, f"billow: error: {name}: {fault}\n"))
        done = billow("serve", env={**self.env, "BILLOW_ISA": "z80"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("BILLOW_ISA=z80", done.stderr.decode())

    def test_wrong_values_in_the_file_name_the_line(self):
        path = self.dir / "own.toml"
        path.write_text('# a comment\nkv-type = "q5"\n')
        self.wrong(f"{path}:2: --kv-type: q5 not in {{f16,q8_0,q4_0,f32}}. See 'billow serve --help'.", "serve", "--config", path)
        path.write_text('memory = "0"\n')
        self.wrong(f"{path}:1: --memory: 0 leaves no memory; give a size like 2G or leave it out. See 'billow serve --help'.",
                   "serve", "--config", path)

    def test_files_that_cannot_be_used(self):
        path = self.dir / "none.toml"
        done = billow("serve", "--config", path, env=self.env)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{path}: No such file", done.stderr.decode())
        self.wrong(f"{self.dir}: is a folder; name a TOML file", "serve", "--config", self.dir, status=1)
        path.write_text("no TOML")
        self.assertEqual(billow("serve", "--config", path, env=self.env).returncode, 1)
        self.assertIn("--config", self.run_ok("serve", "--config", path, "--help"))
        path.write_text("x" * (2 << 20))
        self.wrong(f"{path}: is larger than 1 MiB, the max size of a configuration", "serve", "--config", path, status=1)


class Completion(Case):
    def offers(self, *words):
        return [line.split("\t")[0] for line in self.run_ok("__complete", *words).splitlines()]

    def test_commands_options_and_values(self):
        self.assertEqual(set(self.offers("")), set(self.commands()))
        self.assertEqual(self.offers("ru"), ["run"])
        self.assertEqual(self.offers("serve", "--preload", "--pre"), [])
        self.assertEqual(self.offers("serve", "--prel"), ["--preload"])
        self.assertEqual(self.offers("serve", "--engine", ""), ["auto", "billow", "llama"])
        self.assertEqual(self.offers("serve", "--engine", "l"), ["llama"])
        self.assertEqual(self.offers("help", "pl"), ["plan"])
        self.assertEqual(self.offers("fleet", ""), ["config", "check", "status"])
        self.assertEqual(self.offers("fleet", "check", "--pr"), ["--probe"])
        self.assertEqual(self.offers("generate", "--model", ""), [], "the shell offers files")

    def test_models_of_the_server(self):
        self.assertEqual(self.offers("run", ""), [], "no server, no models, no error")
        server = FakeServer()
        self.addCleanup(server.close)
        server.answers["GET /api/tags"] = {"models": [{"name": "smollm2:latest"}, {"name": "qwen:0.5b"}]}
        self.env["OLLAMA_HOST"] = server.host
        for words, names in (("run", ""), ["smollm2:latest", "qwen:0.5b"]), (("rm", "x", "qw"), ["qwen:0.5b"]):
            deadline = time.monotonic() + 60
            while not (offers := self.offers(*words)):  # a shell gets no names from a slow server
                self.assertLess(time.monotonic(), deadline)
            self.assertEqual(offers, names)


class Manual(Case):
    def test_each_option_of_the_help_is_in_the_page(self):
        self.run_ok("__man", self.dir)
        commands = self.commands()
        self.assertEqual({path.name for path in self.dir.glob("*.1")},
                         {"billow.1"} | {f"billow-{command}.1" for command in commands})
        for command in commands:
            page = (self.dir / f"billow-{command}.1").read_text().replace("\\-", "-")
            for option in re.findall(r"(?m)^  (?:-\w,)?(--[a-z-]+)", self.run_ok("help", command)):
                self.assertIn(option, page, command)
            self.assertIn(command, (self.dir / "billow.1").read_text())


if __name__ == "__main__":
    main()
