"""The compared programs. Each program measures a case once in a separate process and returns {measure: value}."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time

from comparison import cases

OPENVINO_PEER = pathlib.Path(__file__).resolve().parents[1] / "openvino_peer.py"


ROOM = "/var/cache/billow-bench"  # folder for models in a chroot


class Skipped(Exception):
    """This program cannot run this case. The message has the reason."""


def last_line(text):
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no message"


def output(command, timeout, with_errors=False):
    """Returns the standard output of the command, and its standard error if wanted. Raises Skipped if the command fails."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        raise Skipped(f"took longer than {timeout} s") from None
    except OSError as error:
        raise Skipped(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        raise Skipped(f"exit status {done.returncode}: {last_line(done.stderr or done.stdout)}")
    return done.stdout + (done.stderr if with_errors else b"")


def first_byte_ms(command, timeout):
    """Returns the milliseconds from the start of the command to the first byte of its output. Raises Skipped if it fails."""
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise Skipped(f"{command[0]}: {error.strerror}") from None
        timer = threading.Timer(timeout, process.kill)
        timer.start()
        with process:
            first = process.stdout.read(1)
            elapsed = time.perf_counter() - start
            process.stdout.read()
        timer.cancel()
        errors.seek(0)
        if process.returncode != 0:
            raise Skipped(f"exit status {process.returncode}: {last_line(errors.read())}")
        if not first:
            raise Skipped(f"no answer: {last_line(errors.read())}")
    return 1000 * elapsed


class Billow:
    """Billow. If `threads` is given, it replaces the number of threads of the comparison."""

    def __init__(self, program, name="billow", threads=None):
        self.name, self.program, self.threads = name, str(program), threads
        self.bench_help = output([self.program, "bench", "--help"], 60).decode()

    def version(self):
        return output([self.program, "--version"], 60).decode().strip()

    def run(self, case, model, threads, timeout):
        threads = self.threads or threads
        if case.kind == "first-token":
            command = [self.program, "generate", "--model", model, "--threads", threads, "--raw", "--num-predict", 1,
                       "--temperature", 0, "--prompt", cases.FIRST_TOKEN_PROMPT]
            return {"first-token": first_byte_ms([str(word) for word in command], timeout)}
        command = [self.program, "bench", "--model", model, "--threads", threads, "--runs", 1, "--json",
                   "--prompt-tokens", case.n_prompt, "--num-predict", case.n_generate]
        command += ["--parallel", case.n_parallel] if case.kind == "parallel" else ["--depth", case.depth]
        if case.kv:
            if "--kv-type" not in self.bench_help:
                if case.kv != "f16":
                    raise Skipped(f"this build has no --kv-type, so no KV in {case.kv}")
            else:
                command += ["--kv-type", case.kv]
        return parse_billow(output([str(word) for word in command], timeout))


def parse_billow(text):
    out = json.loads(text)
    return {measure: out[key]["tokens_per_second"] for measure, key in (("prefill", "prompt"), ("decode", "generation"))
            if key in out}


def same_content(path, other):
    """Returns whether one file is a link to the other or a copy of it."""
    one, two = path.stat(), other.stat()
    return path.samefile(other) or (one.st_size, one.st_mtime_ns) == (two.st_size, two.st_mtime_ns)


class LlamaCpp:
    """llama.cpp's own tools, in a folder or in a chroot."""

    def __init__(self, name, folder, root=None):
        self.name, self.folder, self.root = name, folder, root

    def tool(self, tool):
        """Returns the command of a tool, or None."""
        if self.root:
            there = os.access(os.path.join(self.root, self.folder.lstrip("/"), tool), os.X_OK)
            return ["chroot", self.root, f"{self.folder}/{tool}"] if there else None
        path = os.path.join(self.folder, tool)
        return [path] if os.access(path, os.X_OK) else None

    def needed(self, tool):
        command = self.tool(tool)
        if command is None:
            raise Skipped(f"has no {tool}")
        return command

    def scratch(self, path):
        """Returns a file that the tools may write: its path for the tools and its path for this script."""
        if not self.root:
            return str(path), path
        inside = f"{ROOM}/{path.name}"
        outside = pathlib.Path(self.root + inside)
        outside.parent.mkdir(parents=True, exist_ok=True)
        return inside, outside

    def visible(self, path):
        """Returns a path under which the tools can open the file. In a chroot, makes a link or a copy."""
        inside, outside = self.scratch(path)
        if outside != path and not (outside.exists() and same_content(path, outside)):
            outside.unlink(missing_ok=True)
            try:
                os.link(path, outside)
            except OSError:
                shutil.copy2(path, outside)
        return inside

    def version(self):
        done = subprocess.run(self.needed("llama-bench") + ["--version"], capture_output=True, timeout=60, check=False)
        lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
        return next((line for line in lines if line.startswith("version")), "version unknown")

    def run(self, case, model, threads, timeout):
        run = {"first-token": self._first_token, "parallel": self._parallel}.get(case.kind, self._bench)
        return run(case, self.visible(model), str(threads), timeout)

    def _bench(self, case, model, threads, timeout):
        kv = ["-ctk", case.kv, "-ctv", case.kv, "-fa", "1"] if case.kv in ("q8_0", "q4_0") else []
        command = self.needed("llama-bench") + ["-m", model, "-t", threads, "-p", str(case.n_prompt), "-n",
                                                str(case.n_generate), "-d", str(case.depth), "-r", "1", "-o", "json"]
        return parse_llama_bench(output(command + kv, timeout))

    def _parallel(self, case, model, threads, timeout):
        n, n_new, n_parallel = case.n_prompt, case.n_generate, case.n_parallel
        command = self.needed("llama-batched-bench") + [
            "-m", model, "-t", threads, "-c", str((n + n_new) * n_parallel), "-b", "2048", "-ub", "512", "-npp", str(n),
            "-ntg", str(n_new), "-npl", str(n_parallel), "--output-format", "jsonl"]
        return parse_batched_bench(output(command, timeout, with_errors=True))

    def _first_token(self, _, model, threads, timeout):
        command = self.needed("llama-completion") + [
            "-m", model, "-t", threads, "-c", "512", "-no-cnv", "-n", "1", "--temp", "0", "--no-warmup",
            "--no-display-prompt", "-p", cases.FIRST_TOKEN_PROMPT]
        return {"first-token": first_byte_ms(command, timeout)}


class IkLlama(LlamaCpp):
    """ik_llama.cpp's tools, with additional options. They support depth only for answers, and there is no llama-completion."""

    def __init__(self, name, folder, options):
        super().__init__(name, folder)
        self.options = options

    def _bench(self, case, model, threads, timeout):
        if case.kind == "prefill" and case.depth:
            raise Skipped("its llama-bench cannot evaluate a prompt after another")
        work = ["-p", str(case.n_prompt), "-n", str(case.n_generate)]
        if case.depth:
            work = ["-p", "0", "-n", "0", "-gp", f"{case.depth},{case.n_generate}"]
        kv = ["-ctk", case.kv, "-ctv", case.kv] if case.kv in ("q8_0", "q4_0") else []
        command = self.needed("llama-bench") + ["-m", model, "-t", threads, "-r", "1", "-o", "json"]
        return parse_llama_bench(output(command + work + kv + self.options, timeout))


def ik_llamas_of(place):
    """Returns both ways to run the ik_llama.cpp in a folder, because neither is faster in all cases. Raises ValueError."""
    if not LlamaCpp("ik", place).tool("llama-bench"):
        raise ValueError(f"{place}: no llama-bench in this folder")
    folder = os.path.abspath(place)
    return [IkLlama("ik", folder, []), IkLlama("ik-repacked", folder, ["-rtr", "1", "-fa", "1"])]


def parse_llama_bench(text):
    """Returns the rates in llama-bench's JSON. Prompts and answers have separate rows."""
    return {"decode" if row["n_gen"] else "prefill": row["avg_ts"] for row in json.loads(text)}


def parse_batched_bench(text):
    for line in text.decode().splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            return {"prefill": row["speed_pp"], "decode": row["speed_tg"]}
        # ik_llama.cpp prints only a table: PP, TG, B, N_KV, T_PP, S_PP, T_TG, S_TG, T, S.
        if re.match(r"\| *\d+ \|", line):
            cells = [float(cell) for cell in line.strip("| ").split("|")]
            return {"prefill": cells[5], "decode": cells[7]}
    raise Skipped("llama-batched-bench printed no result")


def llama_of(spec, n):
    """Returns the LlamaCpp of "[NAME=]PLACE". PLACE is a folder of tools, a llama-bench, or chroot:ROOT. Raises ValueError."""
    name, place = spec.split("=", 1) if "=" in spec else (f"llama.cpp-{n}" if n > 1 else "llama.cpp", spec)
    if place.startswith("chroot:"):
        root = place.removeprefix("chroot:")
        for folder in ("/usr/bin", "/usr/local/bin"):
            if LlamaCpp(name, folder, root).tool("llama-bench"):
                return LlamaCpp(name, folder, root)
        raise ValueError(f"{place}: no llama-bench in /usr/bin or /usr/local/bin of that root")
    folder = place if os.path.isdir(place) else os.path.dirname(shutil.which(place) or place)
    if not LlamaCpp(name, folder).tool("llama-bench"):
        raise ValueError(f"{place}: no llama-bench in this folder")
    return LlamaCpp(name, os.path.abspath(folder))


class OpenVino:
    """OpenVINO GenAI, through bench/openvino_peer.py and a Python with openvino_genai."""

    def __init__(self, python, name="openvino"):
        self.name, self.python = name, str(python)

    def version(self):
        code = "import openvino_genai; print('OpenVINO GenAI', openvino_genai.__version__)"
        return output([self.python, "-c", code], 120).decode().strip()

    def run(self, case, model, threads, timeout):
        if case.kv == "q4_0":
            raise Skipped("it has no KV in q4_0")
        wanted = {"model": str(model), "kind": case.kind, "threads": threads, "n_prompt": case.n_prompt, "kv": case.kv,
                  "n_generate": case.n_generate, "depth": case.depth, "n_parallel": case.n_parallel,
                  "text": cases.FIRST_TOKEN_PROMPT}
        command = [self.python, str(OPENVINO_PEER), json.dumps(wanted)]
        if case.kind == "first-token":
            return {"first-token": first_byte_ms(command, timeout)}
        return json.loads(output(command, timeout).splitlines()[-1])
