"""Tests models that run on llama-server, with a fake that has faults. llama_real_test.py uses the real one.

llama_server_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import concurrent.futures
import json
import os
import pathlib
import signal
import struct
import subprocess
import time

from adapter_file import write_adapter
from llama_place import FAKE, FIRST, LONG, N_TOKENS, Place, is_running, options, rest, until
from run_cases import run_cases
from server import Server


def as_text(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def with_architecture(path, source, name):
    """Writes the same file with another architecture's name of the same length."""
    key = as_text("general.architecture") + struct.pack("<I", 8)
    data = source.read_bytes()
    at = data.index(key) + len(key)
    length = struct.unpack_from("<Q", data, at)[0]
    old = data[at + 8:at + 8 + length]
    assert len(old) == len(name), old
    path.write_bytes(data.replace(key + as_text(old.decode()), key + as_text(name)).replace(old + b".", name.encode() + b"."))


class Choice(Place):
    """Which engine runs a model."""

    def test_unknown_architecture_runs_on_llama_server(self):
        self.serve()
        with_architecture(self.folder / "new.gguf", self.folder / "writer.gguf", "strng")
        self.add("strange", self.folder / "new.gguf")
        self.assertEqual(self.answer(model="strange", options={"num_predict": 5})["eval_count"], 5)
        self.assertEqual(self.models()[0]["engine"], "llama")
        # The log of llama-server says it, and the next health check of the runner reports it.
        until(lambda: self.models()[0]["size_vram"] == 3 << 20, "the memory of the graphics processor is not reported")
        command = self.notes("command")[0]
        self.assertNotIn("LLAMA_ARG_MODEL", command["variables"], "llama-server got a variable of the user")
        self.assertIn("--kv-unified", command["command"])

    def test_unknown_architecture_is_refused_with_a_hint_without_llama_server(self):
        self.server = Server(self.folder, ["--threads", "1"], program=options.billow, variables={"PATH": "/nowhere"})
        self.addCleanup(self.end)
        with_architecture(self.folder / "new.gguf", self.folder / "writer.gguf", "strng")
        self.add("strange", self.folder / "new.gguf")
        error = self.error(500, model="strange")
        self.assertIn("strng", error)
        self.assertIn("llama-server", error)

    def test_known_architecture_runs_on_billows_engine(self):
        self.serve()
        self.add()
        self.answer(options={"num_predict": 2})
        self.assertEqual(self.pids(), [])
        self.assertNotEqual(self.models()[0].get("engine"), "llama")

    def test_parameter_engine_forces_llama_server(self):
        self.serve()
        self.add_forced(num_gpu=7)
        self.assertEqual(self.answer(options={"num_predict": 3})["eval_count"], 3)
        command = self.notes("command")[0]["command"]
        self.assertEqual(command[command.index("--n-gpu-layers") + 1], "7")

    def test_option_engine_forces_llama_server_unless_the_model_names_an_engine(self):
        self.serve("--engine", "llama")
        self.add()
        self.add("own", parameters={"engine": "billow"})
        self.answer(options={"num_predict": 2})
        self.answer(model="own", options={"num_predict": 2})
        engines = {model["name"]: model.get("engine") for model in self.models()}
        self.assertEqual(engines["m:latest"], "llama")
        self.assertNotEqual(engines["own:latest"], "llama")

    def test_unknown_engine_is_refused(self):
        self.serve()
        status, _, body = self.server.request("POST", "/api/create", {"model": "m", "from": "x", "parameters": {"engine": "vllm"}})
        self.assertEqual(status, 400, body)
        self.assertIn(b"auto billow llama", body)
        self.add()
        self.assertIn("engine", self.error(400, options={"engine": "llama"}))


class Answers(Place):
    """Answers of llama-server through Billow."""

    def setUp(self):
        super().setUp()
        self.serve()
        self.add_forced()

    def test_streamed_answer_comes_token_by_token(self):
        self.plan(token_seconds=0.05)
        lines = self.server.lines("/api/generate", {"model": "m", "prompt": "7", "raw": True, "options": {"num_predict": 40}})
        self.assertGreater(len(lines), 6)  # on a busy machine a line has several tokens
        self.assertEqual(lines[-1]["eval_count"], 40)
        self.assertEqual(lines[-1]["done_reason"], "length")

    def test_end_token_ends_the_answer(self):
        self.plan(end_after=9)
        got = self.answer()
        self.assertEqual(got["done_reason"], "stop")

    def test_stop_string_cuts_the_answer(self):
        whole = self.answer(options={"num_predict": 40})["response"]
        cut = whole[len(whole) // 2:len(whole) // 2 + 3]
        got = self.answer(options={"num_predict": 40, "stop": [cut]})
        self.assertEqual(got["response"], whole[:whole.index(cut)])
        self.assertEqual(got["done_reason"], "stop")

    def test_growing_context_gives_the_same_text(self):
        long = self.answer(options={"num_predict": 3000}, keep_alive=-1)
        self.assertEqual(long["eval_count"], 3000)
        stretches = [entry["body"] for entry in self.notes("body")]
        self.assertGreater(len(stretches), 1, "the context did not grow")
        for before, after in zip(stretches, stretches[1:]):
            self.assertEqual(after["prompt"][:len(before["prompt"])], before["prompt"])
        token, expected = stretches[0]["prompt"][-1], []
        for _ in range(len(stretches[-1]["prompt"]) - len(stretches[0]["prompt"])):
            token = FIRST + (token * 31 + 7) % N_TOKENS
            expected.append(token)
        self.assertEqual(stretches[-1]["prompt"][len(stretches[0]["prompt"]):], expected)

    def test_refusal_of_llama_server_is_reported(self):
        self.plan(refuses="the tea is cold")
        self.assertIn("the tea is cold", self.error(400))
        self.plan()
        self.answer(options={"num_predict": 2})

    def test_unsupported_features_are_refused_by_name(self):
        status, _, body = self.server.request("POST", "/v1/completions", {"model": "m", "prompt": "7", "echo": True, "logprobs": 1})
        self.assertEqual(status, 400, body)
        status, _, body = self.server.request("POST", "/api/embed", {"model": "m", "input": "7"})
        self.assertGreaterEqual(status, 400, body)
        self.assertIn(b"embed", body)

    def test_each_set_of_adapters_has_its_own_llama_server(self):
        adapters = [write_adapter(options.billow, self.folder / "writer.gguf", self.folder / f"{seed}.gguf", seed) for seed in (1, 2)]
        for name, given in (("one", adapters[:1]), ("two", adapters)):
            self.add_adapted(name, self.folder / "writer.gguf", given, parameters={"engine": "llama"})
            self.answer(model=name, options={"num_predict": 2})
            command = self.notes("command")[-1]["command"]
            sent = [pathlib.Path(command[i + 1]).read_bytes() for i, word in enumerate(command) if word == "--lora"]
            self.assertEqual(sent, [path.read_bytes() for path in given], name)
        self.assertEqual(len(set(self.pids())), 2)
        # llama-server uses only the scale in the file, so a scale of the command is refused.
        done = subprocess.run([options.billow, "runner", "--describe", str(self.folder / "writer.gguf"), "--engine", "llama", "--llama-server",
                               str(FAKE), "--adapter", f"{adapters[0]}:0.5"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("llama-server takes no scale for an adapter, except the scale in its file", json.loads(done.stdout)["error"])

    def test_many_parallel_answers(self):
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            results = list(pool.map(lambda n: self.answer(prompt="7 " * (n + 1), options={"num_predict": 200 + n}), range(24)))
        self.assertEqual([result["eval_count"] for result in results], [200 + n for n in range(24)])

    def test_embedding_model_makes_vectors(self):
        self.add("vectors", self.folder / "vectors.gguf", parameters={"engine": "llama"})
        got = self.server.json("POST", "/api/embed", {"model": "vectors", "input": ["7", "7 7 7 7"]})
        self.assertEqual(len(got["embeddings"]), 2)
        self.assertNotEqual(got["embeddings"][0], got["embeddings"][1])
        command = self.notes("command")[-1]["command"]
        self.assertIn("--embedding", command)


class Faults(Place):
    """Failures of llama-server."""

    def test_server_waits_for_slow_start(self):
        self.serve(program=FAKE)
        self.add_forced()
        self.plan(load_seconds=3)
        self.assertGreaterEqual(self.answer(options={"num_predict": 2})["load_duration"], 2.5e9)

    def test_failed_load_reports_the_reason(self):
        self.serve()
        self.add_forced()
        self.plan(load_fails="error loading model: unknown model architecture: 'strange'")
        self.assertIn("unknown model architecture: 'strange'", self.error(500))
        self.plan()
        until(lambda: self.generate(options={"num_predict": 2})[0] == 200, "the model is not loaded again")

    def test_silent_load_times_out(self):
        self.server = Server(self.folder, ["--threads", "1", "--llama-server", str(FAKE)], program=options.billow,
                             variables={"BILLOW_FAKE_LLAMA": str(self.plan_path), "BILLOW_LOAD_TIMEOUT": "2s"})
        self.addCleanup(self.end)
        self.add_forced()
        self.plan(silent_load=True)
        begin = time.monotonic()
        self.assertGreaterEqual(self.generate()[0], 500)
        self.assertLess(time.monotonic() - begin, LONG)

    def test_crash_fails_its_answer_and_the_next_one_succeeds(self):
        self.serve()
        self.add_forced()
        self.answer(options={"num_predict": 2})
        self.plan(dies_after=5)
        lines = self.server.lines("/api/generate", {"model": "m", "prompt": "7", "raw": True, "options": {"num_predict": 50}})
        self.assertIn("error", lines[-1])
        self.plan()
        until(lambda: self.generate(options={"num_predict": 2})[0] == 200, "the model does not come back")
        self.assertGreater(len(set(self.pids())), 1)

    def test_crash_between_answers_has_no_effect(self):
        self.serve()
        self.add_forced()
        self.answer(options={"num_predict": 2})
        os.kill(self.pids()[-1], signal.SIGKILL)
        until(lambda: self.generate(options={"num_predict": 2})[0] == 200, "the model does not come back")

    def test_hang_fails_its_answer_and_the_next_one_succeeds(self):
        self.serve()
        self.add_forced()
        self.plan(hangs_after=5)
        begin = time.monotonic()
        lines = self.server.lines("/api/generate", {"model": "m", "prompt": "7", "raw": True, "options": {"num_predict": 50}})
        self.assertIn("error", lines[-1])
        self.assertLess(time.monotonic() - begin, LONG)
        self.plan()
        until(lambda: self.generate(options={"num_predict": 2})[0] == 200, "the model does not come back")

    def test_no_llama_server_outlives_a_killed_server(self):
        self.serve()
        self.add_forced()
        self.answer(options={"num_predict": 2}, keep_alive=-1)
        pid = self.pids()[-1]
        self.assertTrue(is_running(pid))
        self.server.process.kill()
        self.server.process.wait()
        until(lambda: not is_running(pid), "llama-server outlives the server")

    def test_no_llama_server_outlives_its_model(self):
        self.serve()
        self.add_forced()
        self.answer(options={"num_predict": 2})
        pid = self.pids()[-1]
        self.server.json("POST", "/api/generate", {"model": "m", "keep_alive": 0})
        until(lambda: not is_running(pid), "llama-server outlives its model")

    def test_client_disconnect_ends_its_answer(self):
        self.serve()
        self.add_forced()
        self.plan(token_seconds=0.05)
        body = json.dumps({"model": "m", "prompt": "7", "raw": True, "options": {"num_predict": 5000}})
        with subprocess.Popen(["curl", "-sN", self.server.url + "/api/generate", "-d", body], stdout=subprocess.PIPE) as client:
            self.assertEqual(client.stdout.read(1), b"{")  # the answer has begun
            client.kill()
        until(lambda: self.notes("gone"), "the answer continues after the disconnect")
        self.plan()
        self.answer(options={"num_predict": 2})

    def test_wrong_program_is_reported(self):
        self.serve(program="/bin/false")
        self.add_forced()
        self.assertIn("llama-server has ended", self.error(500))
        self.server.stop()
        self.serve(program="/nowhere/llama-server")
        self.add_forced("n")
        self.assertIn("there is no such program", self.error(500, model="n"))


class Memory(Place):
    """Memory of llama-server in the ledger."""

    def test_all_answers_end_under_a_small_budget(self):
        self.serve("--memory", "96M", "--parallel", "4")
        self.add_forced()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda n: self.answer(prompt="7 " * (n + 1), options={"num_predict": 600}), range(8)))
        self.assertEqual([result["eval_count"] for result in results], [600] * 8)

    def test_llama_server_above_calculated_memory_still_answers(self):
        self.serve("--memory", "1G")
        self.add_forced()
        self.plan(scratch_mib=700)
        for _ in range(3):
            self.assertEqual(self.answer(options={"num_predict": 20})["eval_count"], 20)


if __name__ == "__main__":
    run_cases(rest)
