"""Runs the commands of the documents for users as a user would: shell, Python and JavaScript.

  commands_test.py --billow PROGRAM [DOCUMENT...]

Each document has a home, a working folder and a server of its own, and its blocks run one after the other. The working folder has a small
model as model.gguf, the safetensors of an embedding model in bge-small, and texts to embed as texts.jsonl and texts.csv. The models of
MODELS are in the store and in a registry on this machine. In a block, port 11434 is replaced by a free port. A line that begins with
`billow serve` starts a server in the background, which runs until the next one or until the document ends. In an `sh` block, curl fails if
the server refuses the request. In a `console` block, the lines after "$ " run, and the other lines are the output that is expected; "..."
stands for any text.

A block that cannot run has a comment before it: <!-- not run: needs a network -->. The test prints these reasons, and fails on a block that
neither runs nor has a reason. Blocks in the languages of SHOWN have no commands.
"""

import argparse
import ast
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from blocks import ROOT, blocks_of

sys.path.insert(0, str(ROOT / "tests" / "server"))

from ports import free_port  # noqa: E402
from registry import PROGRAM as REGISTRY_PROGRAM  # noqa: E402
from registry import Registry  # noqa: E402
from server import MODELS as MODEL_FOLDER  # noqa: E402
from server import WEIGHTS, Server  # noqa: E402

DOCUMENTS = ["README.md", "docs/quick-start.md", "docs/from-ollama.md", "docs/from-llama-server.md", "docs/from-tei.md", "docs/examples.md",
             "docs/privacy.md", "docs/security.md", "docs/troubleshooting.md", "docs/without-a-server.md", "docs/bulk-generation.md",
             *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "api").glob("*.md"))]
# Names that the documents use. Here they are all the same small model, with short answers.
MODELS = ["smollm2:135m", "llama3.2", "qwen3:4b"]
SHORT = {"num_predict": 32, "temperature": 0}
# Of every server: no answer is longer than a context.
SETTINGS = 'max-context-size = 512\noverflow-policy = "stop"\n'
MAX_BLOCK_SECONDS = 240  # a few seconds on a machine with nothing else to do
EMBEDDER = MODEL_FOLDER / "all-minilm-l6-v2"
RERANKER = ROOT / "tests" / "families" / "embedding" / "modern-bert-reranker.gguf"  # named bge-reranker in the store
CLIENTS = pathlib.Path("~/.cache/billow/clients").expanduser()
SHOWN = {"text", "json", "yaml", "toml", "ini", "http"}
SERVE = re.compile(r"(?P<settings>(?:[A-Z_]+=\S+ +)*)billow serve\b(?P<options>[^#&\n]*?) *&? *(?:#.*)?")


class Skipped(Exception):
    pass


class Session:
    """What a reader of one document has: a home, a folder, a store and a server."""

    def __init__(self, folder, program, store, mirror):
        self.folder = folder
        self.home, self.work, self.bin = (folder / name for name in ("home", "work", "bin"))
        for path in (self.home, self.work, self.bin):
            path.mkdir(parents=True)
        (self.bin / "billow").symlink_to(program)
        settings = self.home / ".config" / "billow" / "billow.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(SETTINGS)
        (self.work / "model.gguf").symlink_to(WEIGHTS)
        (self.work / "bge-small").symlink_to(EMBEDDER)
        texts = [f"Text {number}." for number in range(200)]
        (self.work / "texts.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in texts[:3]))
        (self.work / "texts.csv").write_text("name,body\n" + "".join(f"t,{text}\n" for text in texts))
        (self.work / "node_modules").symlink_to(CLIENTS / "node" / "node_modules")
        # Hard links: a store is files that are replaced and never changed.
        shutil.copytree(store, self.home / ".ollama" / "models", copy_function=os.link)
        self.ports = {"11434": str(free_port()), "11435": str(free_port())}
        self.servers = {}  # processes by port
        self.environment = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.home), "LANG": "C.UTF-8",
                            "OLLAMA_HOST": "127.0.0.1:" + self.ports["11434"], "BILLOW_REGISTRY_MIRROR": mirror,
                            "PYTHONDONTWRITEBYTECODE": "1", "NODE_PATH": str(self.work / "node_modules")}

    def run(self, block):
        text = block.text
        for port, own in self.ports.items():
            text = text.replace(port, own)
        (self.home / ".curlrc").write_text("fail-with-body\n" if block.language == "sh" else "")
        if block.language == "sh":
            self.run_shell(text)
        elif block.language == "console":
            commands, expected = transcript(text)
            output = self.run_shell(commands)
            if not re.fullmatch(expected, output.strip(), re.DOTALL):
                raise AssertionError("the output is another:\n" + output)
        elif block.language == "python":
            self.execute([python_for(text), "-"], text)
        elif block.language == "js":
            if not (CLIENTS / "node" / "stamp").exists():
                raise Skipped(f"no packages in {CLIENTS}/node; tools/setup clients installs them")
            path = self.work / "example.mjs"
            path.write_text(text)
            self.execute(["node", str(path)], "")
        else:
            raise AssertionError(f"language '{block.language}' neither runs nor is one of {sorted(SHOWN)}, and no comment says why")

    def run_shell(self, text):
        """Runs commands and returns their output."""
        waiting = output = ""
        for line in text.splitlines(keepends=True):
            if serve := SERVE.fullmatch(line.strip()):
                output += self.run_commands(waiting)
                waiting = ""
                self.serve(serve["settings"], serve["options"])
            else:
                waiting += line
        return output + self.run_commands(waiting)

    def run_commands(self, text):
        return self.execute(["bash", "-euo", "pipefail", "-c", text], "") if text.strip() else ""

    def execute(self, command, text):
        """Runs a command in a process group of its own, which is ended with it. Returns its output."""
        process = subprocess.Popen(command, cwd=self.work, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            output, _ = process.communicate(text, timeout=MAX_BLOCK_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise AssertionError(f"it takes longer than {MAX_BLOCK_SECONDS} s\n" + output) from None
        if process.returncode != 0:
            raise AssertionError(f"exit status {process.returncode}\n{output[-3000:]}")
        return output

    def serve(self, settings="", options=""):
        """Starts `billow serve` at the port that the line names, in place of an earlier server there."""
        named = re.search(r":(\d+)\b", settings + options)
        port = named[1] if named else self.ports["11434"]
        self.stop(port)
        environment = f"OLLAMA_HOST=127.0.0.1:{port} {settings}"
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(["bash", "-c", f"{environment} exec billow serve {options}"], cwd=self.work, env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.servers[port] = process
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).read()
                return
            except OSError:
                assert process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.05)

    def stop(self, port):
        if process := self.servers.pop(port, None):
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    def end(self):
        for port in list(self.servers):
            self.stop(port)


def transcript(text):
    """Returns the commands of a console block and a pattern of their output."""
    lines = text.splitlines()
    commands = "".join(line[2:] + "\n" for line in lines if line.startswith("$ "))
    expected = "\n".join(line for line in lines if not line.startswith("$ "))
    return commands, ".*".join(re.escape(part.strip(" ")) for part in expected.strip().split("..."))


def python_for(text):
    """Returns the Python of the first environment that has all modules of the program."""
    wanted = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            wanted |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            wanted.add(node.module.split(".")[0])
    wanted -= sys.stdlib_module_names
    if not wanted:
        return sys.executable
    for environment in ("python", "python-openai-2"):
        for packages in (CLIENTS / environment).glob("lib/python3*/site-packages"):
            if all((packages / name).exists() or (packages / f"{name}.py").exists() for name in wanted):
                return str(CLIENTS / environment / "bin" / "python")
    raise Skipped(f"no environment in {CLIENTS} has {', '.join(sorted(wanted))}; tools/setup clients installs them")


def make_store(folder, program):
    """Makes a store and a registry with all models. Returns the store, the registry and its address."""
    registry = Registry(folder / "registry")
    (folder / "source").mkdir()
    server = Server(folder / "source", program=program, variables={"BILLOW_REGISTRY_MIRROR": registry.url, "HOME": str(folder)})
    try:
        for name in MODELS:
            server.add_model(name, parameters=SHORT)
        server.add_model("bge-reranker", RERANKER)
        if EMBEDDER.exists():
            subprocess.run([program, "create", "all-minilm"], cwd=EMBEDDER, env=server.environment, check=True, capture_output=True)
        subprocess.run([program, "push", MODELS[0]], env=server.environment, check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise AssertionError(error.stderr.decode()) from None
    finally:
        server.stop()
    return server.models, registry


def run_document(document, folder, program, store, mirror):
    """Runs all blocks of a document. Returns the number of blocks that failed."""
    session = Session(folder, program, store, mirror)
    counts = {"ran": 0, "skipped": 0, "failed": 0}
    begin = time.monotonic()
    try:
        session.serve()
        for block in blocks_of(ROOT / document):
            if block.language in SHOWN:
                continue
            try:
                if block.reason:
                    raise Skipped(block.reason)
                session.run(block)
                counts["ran"] += 1
            except Skipped as reason:
                counts["skipped"] += 1
                print(f"{block}: skipped: {reason}")
            except AssertionError as error:
                counts["failed"] += 1
                print(f"{block}: FAILED: {error}\n{block.text}")
    finally:
        session.end()
    if counts["failed"]:
        print((folder / "log").read_text()[-3000:])
    print(f"{document}: " + ", ".join(f"{n} {what}" for what, n in counts.items()) + f", {time.monotonic() - begin:.1f} s", flush=True)
    return counts["failed"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--billow", required=True)
    parser.add_argument("documents", nargs="*", default=DOCUMENTS)
    options = parser.parse_args()
    if not WEIGHTS.exists() or not pathlib.Path(REGISTRY_PROGRAM).exists():
        print(f"skipped: needs the model {WEIGHTS} and {REGISTRY_PROGRAM}; tools/setup all installs both")
        return 77
    program = str(pathlib.Path(options.billow).resolve())
    n_failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        store, registry = make_store(folder, program)
        try:
            for number, document in enumerate(options.documents):
                n_failed += run_document(document, folder / str(number), program, store, registry.url)
        finally:
            registry.stop()
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
