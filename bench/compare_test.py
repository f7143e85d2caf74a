#!/usr/bin/env python3
"""Tests the parts of bench/compare that measure nothing: parsing of the programs' output, medians, ratios, the table, and
the order of turns. Runs no peer."""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from comparison import cases, machine, model_files, programs, report, synthetic, turns  # noqa: E402


class StandIn:
    """A program that returns given figures and records its turns."""

    def __init__(self, name, figures, turns_taken, fails_in_round=None):
        self.name, self.figures, self.turns, self.fails = name, figures, turns_taken, fails_in_round

    def run(self, case, model, threads, timeout):
        n = sum(name == self.name for name in self.turns)
        self.turns.append(self.name)
        if self.fails is not None and n + 1 == self.fails:
            raise programs.Skipped("it broke")
        return {"prefill": self.figures[n]}


def script(folder, name, text):
    path = pathlib.Path(folder, name)
    path.write_text("#!/bin/sh\n" + text + "\n")
    path.chmod(0o755)
    return path


class Cases(unittest.TestCase):
    def test_names_are_unique_and_models_exist(self):
        names = [case.name for case in cases.CASES]
        self.assertEqual(len(names), len(set(names)))
        for case in cases.CASES:
            self.assertIn(case.model, cases.MODELS)

    def test_selection_accepts_names_parts_and_patterns(self):
        def names(*patterns):
            return [case.name for case in cases.select(patterns)]
        self.assertEqual(names("smollm2-q4_1/prefill-512"), ["smollm2-q4_1/prefill-512"])
        self.assertIn("smollm2-q4_1/prefill-512@4096", names("smollm2-q4_1/prefill"))
        self.assertTrue(all(name.startswith("qwen") for name in names("qwen*/decode*")))
        self.assertEqual(names(), [case.name for case in cases.CASES])
        with self.assertRaisesRegex(ValueError, "mamba"):
            cases.select(["mamba"])

    def test_quick_is_a_small_part(self):
        self.assertTrue(0 < len(cases.select([], quick=True)) < len(cases.CASES) / 2)


class Output(unittest.TestCase):
    def test_billow(self):
        text = json.dumps({"kernels": "avx512", "prompt": {"tokens_per_second": 2.5}, "generation": {"tokens_per_second": 1}})
        self.assertEqual(programs.parse_billow(text), {"prefill": 2.5, "decode": 1})

    def test_llama_bench(self):
        rows = [{"n_prompt": 512, "n_gen": 0, "n_depth": 4096, "avg_ts": 107.5}, {"n_prompt": 0, "n_gen": 64, "avg_ts": 41.0}]
        self.assertEqual(programs.parse_llama_bench(json.dumps(rows)), {"prefill": 107.5, "decode": 41.0})
        after_prompt = [{"n_prompt": 128, "n_gen": 32, "avg_ts": 12.5}]  # format of ik_llama.cpp
        self.assertEqual(programs.parse_llama_bench(json.dumps(after_prompt)), {"decode": 12.5})

    def test_batched_bench_among_other_lines(self):
        text = b'\nload_backend: x\n{"pp": 256, "tg": 64, "pl": 8, "speed_pp": 300.0, "speed_tg": 161.0}\n\n'
        self.assertEqual(programs.parse_batched_bench(text), {"prefill": 300.0, "decode": 161.0})
        table = (b"|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |\n"
                 b"|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|\n"
                 b"|    16 |      2 |    2 |     36 |    0.068 |   467.64 |    0.035 |   115.81 |    0.103 |   349.63 |\n")
        self.assertEqual(programs.parse_batched_bench(table), {"prefill": 467.64, "decode": 115.81})
        with self.assertRaises(programs.Skipped):
            programs.parse_batched_bench(b"failed to load\n")

    def test_failed_program_gives_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            bad = script(folder, "bad", "echo one >&2; echo 'cannot load' >&2; exit 3")
            with self.assertRaisesRegex(programs.Skipped, "exit status 3: cannot load"):
                programs.output([str(bad)], 10)
            with self.assertRaisesRegex(programs.Skipped, "No such file"):
                programs.output([folder + "/nothing"], 10)
            with self.assertRaisesRegex(programs.Skipped, "longer than 0.2 s"):
                programs.output([str(script(folder, "slow", "exec sleep 20"))], 0.2)

    def test_first_byte_is_timed_from_the_start(self):
        with tempfile.TemporaryDirectory() as folder:
            answers = script(folder, "answers", "sleep 0.2; echo x; sleep 3")
            start = time.perf_counter()
            first = programs.first_byte_ms([str(answers)], 10)
            self.assertGreaterEqual(first, 200)
            self.assertGreaterEqual(1000 * (time.perf_counter() - start) - first, 1000)  # a busy machine reads the byte late
            with self.assertRaisesRegex(programs.Skipped, "no answer"):
                programs.first_byte_ms([str(script(folder, "silent", "exit 0"))], 10)
            with self.assertRaisesRegex(programs.Skipped, "exit status"):
                programs.first_byte_ms([str(script(folder, "hangs", "exec sleep 20"))], 0.2)

    def test_canary(self):
        rows = [{"name": name + "/iterations:1/real_time", unit: i + 1.0}
                for i, (name, unit) in enumerate(zip(machine.CANARIES, ["GMAC/s", "GB/s", "GB/s"]))]
        rates = machine.parse_canary(json.dumps({"benchmarks": rows}))
        self.assertEqual(list(rates.values()), [1.0, 2.0, 3.0])
        self.assertIn("(+100 %)", machine.canary_line(rates, {what: rate / 2 for what, rate in rates.items()}))

    def test_time_of_other_programs_and_machines(self):
        before = machine.ProcessorTime("cpu 100 0 100 1000 0 0 0 0 0 0\n", own=1)
        after = machine.ProcessorTime("cpu 300 0 100 1100 0 0 0 100 0 0\n", own=2)
        self.assertEqual(after.since(before), {"steal_percent": 25.0, "others_percent": 25.0})


class Peers(unittest.TestCase):
    def test_llama_is_folder_program_or_root(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(folder + "/root/usr/bin")
            for place in (folder, folder + "/root/usr/bin"):
                script(place, "llama-bench", "")
            self.assertEqual(programs.llama_of(folder, 1).tool("llama-bench"), [folder + "/llama-bench"])
            self.assertEqual(programs.llama_of(f"mine={folder}/llama-bench", 1).name, "mine")
            rooted = programs.llama_of(f"chroot:{folder}/root", 2)
            self.assertEqual(rooted.name, "llama.cpp-2")
            self.assertEqual(rooted.tool("llama-bench"), ["chroot", folder + "/root", "/usr/bin/llama-bench"])
            self.assertIsNone(rooted.tool("llama-completion"))
            with self.assertRaisesRegex(ValueError, "no llama-bench"):
                programs.llama_of(folder + "/root", 1)

    def test_ik_llama_runs_with_and_without_repacking(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(ValueError, "no llama-bench"):
                programs.ik_llamas_of(folder)
            script(folder, "llama-bench", f'echo "$*" >>{folder}/calls; echo "[{{\\"n_gen\\": 4, \\"avg_ts\\": 1}}]"')
            peers = programs.ik_llamas_of(folder)
            case = cases.Case("smollm2-q4_1", "decode", n_generate=4, depth=128)
            for peer in peers:
                self.assertEqual(peer.run(case, pathlib.Path("m"), 2, 10), {"decode": 1})
            plain, repacked = pathlib.Path(folder, "calls").read_text().splitlines()
            self.assertIn("-gp 128,4", plain)
            self.assertEqual(repacked, plain + " -rtr 1 -fa 1")
            with self.assertRaisesRegex(programs.Skipped, "after another"):
                peers[0].run(cases.Case("smollm2-q4_1", "prefill", n_prompt=4, depth=128), pathlib.Path("m"), 2, 10)

    def test_root_sees_the_current_file(self):
        with tempfile.TemporaryDirectory() as folder:
            peer, model = programs.LlamaCpp("llama.cpp", "/usr/bin", folder + "/root"), pathlib.Path(folder, "m.gguf")
            for content in ("one", "two", "longer"):
                model.unlink(missing_ok=True)
                model.write_text(content)
                self.assertEqual(pathlib.Path(folder + "/root" + peer.visible(model)).read_text(), content)

    def test_unknown_kv_type_is_skipped(self):
        with tempfile.TemporaryDirectory() as folder:
            case = cases.Case("smollm2-q4_1", "decode", n_generate=1, kv="q8_0")
            old = script(folder, "old", "echo usage")
            with self.assertRaisesRegex(programs.Skipped, "--kv-type"):
                programs.Billow(old).run(case, "m", 2, 10)
            text = '[ "$2" = --help ] && echo --kv-type || echo "{\\"generation\\": {\\"tokens_per_second\\": $#}}"'
            self.assertEqual(programs.Billow(script(folder, "new", text)).run(case, "m", 2, 10), {"decode": 16})


class Models(unittest.TestCase):
    def test_derived_models_are_made_once_and_complete(self):
        with tempfile.TemporaryDirectory() as folder:
            tools, real, derived = (pathlib.Path(folder, name) for name in ("tools", "real", "derived"))
            tools.mkdir(), real.mkdir()
            script(tools, "llama-bench", "")
            script(tools, "llama-quantize", f'echo x >>{folder}/calls; cat "$2" >"$3"; echo "$4" >>"$3"')
            files = model_files.ModelFiles(real, derived, [programs.llama_of(str(tools), 1)])
            self.assertIn("tools/setup models", files.missing("smollm2-q8_0"))
            (real / cases.MODELS["smollm2-q4_1"].file).write_text("weights\n")
            self.assertIsNone(files.missing("smollm2-q8_0"))
            for _ in range(2):
                self.assertEqual(files.get("smollm2-q8_0", lambda text: None).read_text(), "weights\nQ8_0\n")
            self.assertEqual(pathlib.Path(folder, "calls").read_text(), "x\n")
            self.assertEqual([path.name for path in derived.iterdir()], [cases.MODELS["smollm2-q8_0"].file])
            self.assertIn("llama-quantize", model_files.ModelFiles(real, derived, []).missing("smollm2-f16"))


    def test_synthetic_models_have_the_bytes_of_their_tensors(self):
        shape = synthetic.Shape("llama", 2, 2, 320, 256, {"feed_forward_length": 14336}, synthetic.llama_layer, "Q4_K_M")
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(synthetic.SHAPES, {"tiny": shape}):
            one, two = pathlib.Path(folder, "one"), pathlib.Path(folder, "sub/two")
            synthetic.make("tiny", one), synthetic.make("tiny", two)
            raw = one.read_bytes()
            self.assertEqual(raw, two.read_bytes())
            self.assertEqual(raw[:4], b"GGUF")
            sizes = [synthetic.size_of(kind, dims) for kind, dims in synthetic.tensors(shape).values()]
            padded = sum(-(-size // synthetic.ALIGNMENT) * synthetic.ALIGNMENT for size in sizes)
            self.assertTrue(padded < len(raw) < padded + 32768)  # words and names of tensors
            for name, (kind, dims) in synthetic.tensors(shape).items():
                self.assertEqual(dims[0] % synthetic.TYPES[kind].block_len, 0, name)

    def test_all_shapes_fit_their_types(self):
        for name, shape in synthetic.SHAPES.items():
            for tensor, (kind, dims) in synthetic.tensors(shape).items():
                self.assertEqual(dims[0] % synthetic.TYPES[kind].block_len, 0, f"{name}: {tensor}")


class Figures(unittest.TestCase):
    def test_turns_interleave_and_failed_program_is_skipped(self):
        taken = []
        contestants = [StandIn("a", [1, 2, 9], taken), StandIn("b", [4, 4, 4], taken, fails_in_round=2), StandIn("c", [3, 3, 3], taken)]
        args = argparse.Namespace(rounds=3, threads=2, timeout=1)
        runs, skipped = turns.measure(cases.CASES[0], contestants, "m", args, lambda text: None)
        self.assertEqual(taken, ["a", "b", "c", "a", "b", "c", "a", "c"])
        self.assertEqual(skipped, {"b": "it broke"})
        self.assertEqual(runs["prefill"]["a"], [1, 2, 9])
        row = next(turns.rows_of(cases.CASES[0], runs, {"llama.cpp": ["b", "c"]}))
        self.assertEqual(row["results"]["a"]["median"], 2)

    def test_ratio_uses_the_fastest_peer_of_a_group(self):
        results = {name: report.summary(runs) for name, runs in
                   {"billow": [300, 100, 200], "debian": [50, 40], "native": [80]}.items()}
        ratios = report.compare("tokens/s", results, "billow", {"llama.cpp": ["debian", "native"], "openvino": ["openvino"]})
        self.assertEqual(ratios, {"llama.cpp": {"ratio": 2.5, "peer": "native"}})
        times = report.compare("ms", results, "billow", {"llama.cpp": ["debian", "native"]})
        self.assertEqual(times, {"llama.cpp": {"ratio": 45 / 200, "peer": "debian"}})

    def test_table(self):
        groups = {"llama.cpp": ["debian", "native"], "openvino": ["openvino"]}
        table = report.Table("case", ["billow", "debian", "native", "openvino"], groups)
        results = {name: report.summary(runs) for name, runs in {"billow": [1234.5, 1300], "debian": [99.94]}.items()}
        ratios = report.compare("ms", results, "billow", groups)
        line = table.row({"name": "x/y", "unit": "ms", "results": results, "ratios": ratios})
        self.assertEqual(line.split(), ["x/y", "1,267", "ms", "(1,234-1,300)", "99.9", "ms", "-", "-", "0.08x", "debian", "-"])
        self.assertEqual(len(table.head[1]), len(table.head[0].rstrip()))


if __name__ == "__main__":
    unittest.main()
