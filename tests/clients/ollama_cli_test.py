"""Tests the real program of Ollama with Billow: each pulls the models of the other from a registry, and Ollama's commands use Billow's server.

BILLOW_OLLAMA is the program of Ollama. Without it, the model or docker-registry, this test is skipped. Tests of llama-server and
llama-quantize run only if Ollama finds these programs, for example in build/lib/ollama next to its own program.

  ollama_cli_test.py --billow PROGRAM [NAME...]
"""

import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))

import transfer_case  # noqa: E402
from ports import free_port  # noqa: E402
from server import WEIGHTS  # noqa: E402

TEMPLATE = """{{ if .System }}<|im_start|>system
{{ .System }}<|im_end|>
{{ end }}{{ range .Messages }}<|im_start|>{{ .Role }}
{{ .Content }}<|im_end|>
{{ end }}<|im_start|>assistant
"""
MODELFILE = f'''FROM {WEIGHTS}
TEMPLATE """{TEMPLATE}"""
SYSTEM You answer in one word.
PARAMETER temperature 0
PARAMETER num_predict 12
PARAMETER stop "<|im_end|>"
LICENSE """MIT
of two lines"""
MESSAGE user What is the capital of Italy?
MESSAGE assistant Rome
'''
HEIR = """FROM made
TEMPLATE {{ .Prompt }}
SYSTEM other
PARAMETER top_k 5
LICENSE more
MESSAGE user hi
MESSAGE assistant yo
"""
FLAGS = ("--modelfile", "--parameters", "--template", "--system", "--license")


class Front:
    """Redirects all requests to the registry, at a host of another name. Ollama fetches blobs only after a redirect."""

    def __init__(self, registry):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(307)
                self.send_header("Location", f"http://localhost:{registry.port}{self.path}")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Ollama:
    """A running `ollama serve` with its own home and store."""

    def __init__(self, folder):
        self.models = folder / "models"
        host = f"127.0.0.1:{free_port()}"
        (folder / "home").mkdir(parents=True)
        self.environment = {**os.environ, "OLLAMA_HOST": host, "OLLAMA_MODELS": str(self.models), "HOME": str(folder / "home"),
                            "no_proxy": "*", "OLLAMA_NO_CLOUD": "1"}
        log = folder / "log"
        with log.open("wb") as file:
            self.process = subprocess.Popen([os.environ["BILLOW_OLLAMA"], "serve"], env=self.environment, stdout=file, stderr=file)
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://{host}/api/version", timeout=5).read()
                break
            except OSError:
                assert self.process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, "Ollama does not answer"
                time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def manifest_path(store, name):
    """Returns the manifest's path for a name with or without a registry and a tag."""
    parts = name.split("/")
    if len(parts) == 1:
        parts = ["registry.ollama.ai", "library", name]
    model, _, tag = parts.pop().partition(":")
    return store.joinpath("manifests", *parts, model, tag or "latest")


def layers(store, name):
    """Returns kind, digest and size of each layer and of the config, in order."""
    manifest = json.loads(manifest_path(store, name).read_text())
    return [(layer["mediaType"], layer["digest"], layer["size"]) for layer in [*manifest["layers"], manifest["config"]]]


def kinds(store, name):
    return {kind.rpartition(".")[2]: digest for kind, digest, _ in layers(store, name)}


class OllamaCase(transfer_case.Case):
    def setUp(self):
        super().setUp()
        self.billow = self.place("billow")
        self.store = self.billow.server.models
        self.modelfile = self.folder / "Modelfile"
        self.modelfile.write_text(MODELFILE)

    def start_ollama(self):
        self.ollama = Ollama(self.folder / "ollama")
        self.addCleanup(self.ollama.stop)

    def start_registry(self):
        """Starts a registry, and a redirecting front for it at the host `front`."""
        registry = self.registry()
        front = Front(registry)
        self.addCleanup(front.stop)
        self.host, self.front = registry.host, front.host

    def run_program(self, program, environment, arguments, text=""):
        return subprocess.run([program, *arguments], env=environment, input=text, text=True, capture_output=True, timeout=300, check=False)

    def ask(self, *arguments, of=None, text=""):
        """Returns the output of Ollama's command. The command uses Ollama's server if `of` is given, otherwise Billow's."""
        done = self.try_to(*arguments, of=of, text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def try_to(self, *arguments, of=None, text=""):
        environment = {**self.billow.server.environment, "OLLAMA_NO_CLOUD": "1"} if of is None else of.environment
        done = self.run_program(os.environ["BILLOW_OLLAMA"], environment, arguments, text)
        if missing := re.search(r"(llama-server|llama-quantize) binary not found", done.stderr):
            self.skipTest(f"this Ollama has no {missing[1]}")
        return done

    def refused(self, message, *arguments):
        done = self.try_to(*arguments)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(message, done.stderr)

    def own(self, *arguments):
        """Returns the output of a command of Billow."""
        done = self.run_program(transfer_case.program(), self.billow.server.environment, arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def names(self, of=None):
        return sorted(line.split()[0] for line in self.ask("list", of=of).splitlines()[1:])

    def assert_same_blobs(self, one, other, name):
        """Checks that both stores have the same blobs of the model."""
        for _, digest, _ in layers(one, name):
            path = "blobs/" + digest.replace(":", "-")
            self.assertEqual((one / path).read_bytes(), (other / path).read_bytes())

    def assert_shown(self, name, of=None):
        """Checks that `show` reports all content of MODELFILE."""
        shown = {flag: self.ask("show", flag, name, of=of) for flag in FLAGS}
        self.assertEqual(shown["--template"], TEMPLATE)
        self.assertEqual(shown["--system"].strip(), "You answer in one word.")
        self.assertEqual(shown["--license"].strip(), "MIT\nof two lines")
        self.assertEqual(sorted(line.split() for line in shown["--parameters"].splitlines()),
                         [["num_predict", "12"], ["stop", '"<|im_end|>"'], ["temperature", "0"]])
        for line in ("SYSTEM You answer in one word.", "PARAMETER num_predict 12", "MESSAGE user What is the capital of Italy?",
                     "MESSAGE assistant Rome", f"# FROM {name}"):
            self.assertIn(line, shown["--modelfile"].splitlines())
        everything = self.ask("show", name, of=of)
        self.assertRegex(everything, r"architecture +llama")
        self.assertRegex(everything, r"quantization +Q4_1")


class Exchange(OllamaCase):
    """Models that one program pushes and the other pulls."""

    def setUp(self):
        super().setUp()
        self.start_ollama()
        self.start_registry()

    def push_ours(self):
        """Pushes a model with Billow. Returns its name for Ollama."""
        name = self.host + "/me/m:1"
        self.own("create", name, "-f", str(self.modelfile))
        self.own("push", "--insecure", name)
        return self.front + "/me/m:1"

    def test_ollama_pulls_models_that_billow_pushes(self):
        first = self.push_ours()
        second = first[:-1] + "2"
        ours = self.host + "/me/m:1"
        self.own("cp", ours, self.host + "/me/m:2")
        self.assertEqual(self.billow.last("push", self.host + "/me/m:2", insecure=True), "success")
        for name in (first, second):
            self.ask("pull", "--insecure", name, of=self.ollama)
            self.assertEqual(manifest_path(self.ollama.models, name).read_bytes(), manifest_path(self.store, ours).read_bytes())
        self.assert_same_blobs(self.store, self.ollama.models, ours)
        self.assert_shown(first, of=self.ollama)
        self.assertEqual(self.names(of=self.ollama), [first, second])
        self.ask("cp", first, "copy", of=self.ollama)
        self.ask("rm", second, of=self.ollama)
        self.assertEqual(self.names(of=self.ollama), sorted([first, "copy:latest"]))
        self.assert_shown("copy:latest", of=self.ollama)
        # Billow follows redirects of registries, too.
        self.own("pull", "--insecure", first)
        self.assertEqual(layers(self.store, first), layers(self.store, ours))

    def test_ollama_runs_models_that_billow_pushes(self):
        name = self.push_ours()
        self.ask("pull", "--insecure", name, of=self.ollama)
        self.assertIn("Paris", self.ask("run", name, "What is the capital of France?", of=self.ollama))

    def pull_theirs(self, name):
        self.ask("push", "--insecure", name, of=self.ollama)
        self.own("pull", "--insecure", name)
        self.assertEqual(layers(self.store, name), layers(self.ollama.models, name))
        self.assert_same_blobs(self.ollama.models, self.store, name)

    def test_billow_runs_models_that_ollama_creates(self):
        name = self.host + "/me/o:1"
        self.ask("create", name, "-f", str(self.modelfile), of=self.ollama)
        self.pull_theirs(name)
        self.assert_shown(name)
        self.assertRegex(self.own("show", name), r"quantization +Q4_1")
        self.assertIn("Paris", self.own("run", name, "What is the capital of France?"))

    def test_both_create_the_same_derived_model(self):
        name = self.push_ours()
        self.ask("pull", "--insecure", name, of=self.ollama)
        self.ask("cp", name, "made", of=self.ollama)
        self.ask("cp", self.host + "/me/m:1", "made")
        self.modelfile.write_text(HEIR)
        theirs = self.host + "/me/heir:1"
        self.ask("create", theirs, "-f", str(self.modelfile), of=self.ollama)
        self.ask("create", "heir", "-f", str(self.modelfile))
        one, other = kinds(self.ollama.models, theirs), kinds(self.store, "heir")
        for kind in ("model", "template", "system", "license"):
            self.assertEqual(one[kind], other[kind], kind)
        for flag in FLAGS[1:]:
            self.assertEqual(sorted(self.ask("show", flag, theirs, of=self.ollama).splitlines()),
                             sorted(self.ask("show", flag, "heir").splitlines()))
        self.pull_theirs(theirs)
        self.assertIn("MESSAGE assistant yo", self.ask("show", "--modelfile", theirs))


class Commands(OllamaCase):
    """Ollama's commands with Billow's server."""

    def setUp(self):
        super().setUp()
        self.ask("create", "made", "-f", str(self.modelfile))

    def test_models_are_listed_shown_copied_and_removed(self):
        self.assertIn("ollama version is", self.ask("--version"))
        self.assert_shown("made:latest")
        self.assertIn("token_embd.weight", self.ask("show", "--verbose", "made"))
        self.assertEqual(self.ask("cp", "made", "copy").strip(), "copied 'made' to 'copy'")
        self.assertEqual(self.names(), ["copy:latest", "made:latest"])
        self.assertEqual(self.ask("rm", "copy").strip(), "deleted 'copy'")
        self.assertEqual(self.names(), ["made:latest"])
        self.refused("model 'none:latest' not found", "show", "none")
        self.refused("model 'none' not found", "rm", "none")
        self.refused('model "none" not found', "cp", "none", "other")
        self.refused('couldn\'t find model "none" to stop', "stop", "none")

    def test_models_run_and_stop(self):
        self.assertIn("Paris", self.ask("run", "made", "What is the capital of France?"))
        self.assertIn("Paris", self.ask("run", "made", text="What is the capital of France?"))
        self.assertIn("{", self.ask("run", "--format", "json", "made", "Spain in JSON"))
        done = self.try_to("run", "--verbose", "--keepalive", "1h", "made", "hi")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"eval count: +\d+ token")
        self.assertRegex(self.ask("ps"), r"made:latest .* (59 minutes|About an hour) from now")
        self.ask("stop", "made")
        self.assertEqual(len(self.ask("ps").splitlines()), 1)

    def test_models_are_created_from_others(self):
        self.modelfile.write_text(HEIR)
        self.ask("create", "heir", "-f", str(self.modelfile))
        self.assertEqual(kinds(self.store, "heir")["model"], kinds(self.store, "made")["model"])
        self.assertEqual(self.ask("show", "--system", "heir").strip(), "other")
        self.assertEqual(self.ask("show", "--template", "heir").strip(), "{{ .Prompt }}")
        self.assertEqual(self.ask("show", "--license", "heir").split(), ["MIT", "of", "two", "lines", "more"])
        self.assertIn(["top_k", "5"], [line.split() for line in self.ask("show", "--parameters", "heir").splitlines()])
        messages = [line for line in self.ask("show", "--modelfile", "heir").splitlines() if line.startswith("MESSAGE")]
        self.assertEqual(messages, ["MESSAGE user hi", "MESSAGE assistant yo"])

    def test_models_are_quantized(self):
        wide = self.folder / "wide.gguf"
        self.own("quantize", "--allow-requantize", str(WEIGHTS), str(wide), "F16")
        self.modelfile.write_text(MODELFILE.replace(str(WEIGHTS), str(wide)))
        self.ask("create", "-q", "q8_0", "q8", "-f", str(self.modelfile))
        self.assertRegex(self.ask("show", "q8"), r"quantization +Q8_0")
        self.assertIn("Paris", self.ask("run", "q8", "What is the capital of France?"))
        self.refused("unsupported quantization type", "create", "-q", "nonsense", "bad", "-f", str(self.modelfile))
        self.modelfile.write_text(MODELFILE)
        self.refused("quantization is only supported for F16", "create", "-q", "q8_0", "bad", "-f", str(self.modelfile))
        self.assertEqual(self.names(), ["made:latest", "q8:latest"])

    def test_models_are_pushed_and_pulled(self):
        self.start_registry()
        name = self.host + "/me/c:1"
        self.ask("cp", "made", name)
        self.ask("push", "--insecure", name)
        before = layers(self.store, name)
        for one in (name, "made"):
            self.ask("rm", one)
        self.assertEqual(list(self.store.glob("blobs/sha256-*")), [])
        self.ask("pull", "--insecure", name)
        self.assertEqual(layers(self.store, name), before)
        self.assertEqual(self.billow.unsound(), [])
        # Without --insecure the pull fails. The command fails, but the existing model stays.
        self.refused("asks a registry by http; the model of the store was kept", "pull", name)
        self.assertEqual(layers(self.store, name), before)
        self.refused("--insecure", "pull", self.host + "/me/none")
        self.refused("pull model manifest: file does not exist", "pull", "--insecure", self.host + "/me/none")
        self.refused("not found", "push", "--insecure", self.host + "/me/none")

    def test_commands_report_no_account(self):
        self.assertIn("You need to be signed in to Ollama", self.ask("signin"))
        self.assertIn("You are not signed in to ollama.com", self.ask("signout"))


if __name__ == "__main__":
    why_not = "" if WEIGHTS.exists() else f"no model at {WEIGHTS}"
    if not shutil.which(os.environ.get("BILLOW_OLLAMA", "")):
        why_not = "BILLOW_OLLAMA does not name the program of Ollama"
    if why_not:
        print("skipped:", why_not)
        sys.exit(transfer_case.SKIPPED)
    transfer_case.main()
