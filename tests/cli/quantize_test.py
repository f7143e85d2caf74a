"""billow quantize and billow imatrix: output, errors, and cleanup after a signal."""
import json
import signal
import struct
import subprocess
import sys
import time
import pathlib
import unittest

from program import ARGS, ProgramTest, billow, main

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "quantize"))
import mixture_models  # noqa: E402: in the folder tests/quantize
import peer  # noqa: E402

LLAMA = peer.find("llama-quantize")


class Quantize(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source = cls.dir / "source.gguf"
        cls.source.write_bytes(mixture_models.model_file(mixture_models.MODELS[0]))
        cls.out = cls.dir / "out.gguf"

    def tearDown(self):
        self.out.unlink(missing_ok=True)
        self.assertEqual([path.name for path in self.dir.iterdir() if ".partial-" in path.name], [])

    def types(self, path):
        tensors = json.loads(self.ok("inspect", "--json", path))["tensors"]
        return {tensor["name"]: tensor["type"] for tensor in tensors}

    def test_a_dry_run_reports_the_types_of_the_file(self):
        plan = json.loads(self.ok("quantize", "--dry-run", "--json", self.source, "Q4_K_M"))
        made = json.loads(self.ok("quantize", "--json", "--threads", "2", self.source, self.out, "q4_k"))
        self.assertEqual(plan["tensors"], made["tensors"])
        self.assertEqual({t["name"]: t["to"] for t in plan["tensors"]}, self.types(self.out))
        self.assertEqual(plan["target_bytes"], made["target_bytes"])
        self.assertIn("output.weight  F16 -> Q6_K  mixture", self.ok("quantize", "--dry-run", self.source, "Q4_K_M").decode())

    def test_the_default_output_is_next_to_the_input(self):
        done = self.ok("quantize", self.source, "Q8_0").decode()
        path = self.dir / "source-Q8_0.gguf"
        self.assertIn(str(path), done)
        path.unlink()

    def test_writes_the_file_to_standard_output_and_progress_to_standard_error(self):
        self.ok("quantize", self.source, self.out, "Q4_K_M")
        done = billow("quantize", "--progress-json", self.source, "-", "Q4_K_M")
        self.assertEqual(done.stdout, self.out.read_bytes())
        lines = [json.loads(line) for line in done.stderr.splitlines()]
        self.assertEqual(lines[-1]["completed"], lines[-1]["total"])
        failed = billow("quantize", "--progress-json", self.dir / "none.gguf", "-", "Q4_0")
        self.assertEqual((failed.returncode, failed.stdout), (1, b""))
        self.assertEqual(json.loads(failed.stderr)["code"], "not_found")

    def test_options_choose_types(self):
        self.ok("quantize", self.source, self.out, "Q4_0", "--output-tensor-type", "Q5_1", "--token-embedding-type",
                "f16", "--tensor-type", "FFN_up=q8_0", "--tensor-type", "blk\\.1\\.=q6_k")
        types = self.types(self.out)
        self.assertEqual([types[name] for name in ("output.weight", "token_embd.weight", "blk.1.ffn_up.weight",
                                                   "blk.1.attn_q.weight", "blk.2.attn_q.weight")],
                         ["Q5_1", "F16", "Q8_0", "Q6_K", "Q4_0"])

    def test_errors_have_one_line(self):
        self.refused("quantize", self.source, self.out, "Q4KM", names=["Q4KM", "Q4_K_M"], status=2)
        self.refused("quantize", self.source, self.out, "rubbish-of-a-type", names=["rubbish-of-a-type", "Q8_0"], status=2)
        self.refused("quantize", self.source, self.out, "IQ2_XS", names=["IQ2_XS", "importance matrix"])
        self.refused("quantize", self.source, self.out, "Q4_0", "--tensor-type", "x", names=["PATTERN=TYPE"])
        self.refused("quantize", self.source, self.out, "Q4_0", "--tensor-type", "(=q8_0", names=["(=q8_0"])
        self.refused("quantize", self.source, self.out, "Q4_0", "--tensor-type", "x=q8_9", names=["q8_9"])
        self.refused("quantize", self.source, self.source, "Q4_0", names=["is the input itself"])
        self.refused("quantize", self.source, self.out, "Q4_0", "--imatrix", self.source, names=["not an importance matrix"])
        self.assertFalse(self.out.exists())

    def test_refuses_to_replace_a_part_of_its_input(self):
        one = mixture_models.MODELS[0]
        matrix = self.dir / "matrix.gguf"
        matrix.write_bytes(mixture_models.importance_file(one))
        first, second = (self.dir / f"split-0000{number}-of-00002.gguf" for number in (1, 2))
        keys = {"split.count": 2, "split.tensors.count": 2}
        first.write_bytes(mixture_models.gguf({"general.architecture": "llama", "llama.block_count": 1, "split.no": 0, **keys},
                                              [("blk.0.attn_q.weight", [512, 2], mixture_models.F16)]))
        second.write_bytes(mixture_models.gguf({"split.no": 1, **keys}, [("blk.0.attn_k.weight", [512, 2], mixture_models.F16)]))
        before = second.read_bytes()
        self.refused("quantize", first, first, "Q8_0", names=["is the input itself"])
        self.refused("quantize", first, second, "Q8_0", names=[second, "is a part of the input"])
        self.refused("quantize", self.source, matrix, "Q8_0", "--imatrix", matrix, names=[matrix, "is the importance matrix"])
        self.assertEqual(second.read_bytes(), before)
        self.ok("quantize", first, self.out, "Q8_0")
        text = self.dir / "text.txt"
        text.write_text("short")
        for path in (text, self.model):
            self.refused("imatrix", "-m", self.model, "-f", text, "-o", path, names=[path, "is part of the input"])
        for path in (matrix, first, second, text):
            path.unlink()

    def test_refuses_an_importance_that_no_text_gives(self):
        one = mixture_models.MODELS[0]
        matrix = self.dir / "wrong.gguf"
        data = bytearray(mixture_models.importance_file(one))
        data[-32:-28] = struct.pack("<f", -1.0)  # the last count, before the padding
        matrix.write_bytes(data)
        self.refused("quantize", self.source, self.out, "Q4_0", "--imatrix", matrix, names=[matrix, "is not a count"])
        matrix.unlink()

    def test_quantised_models_are_refused_unless_allowed(self):
        self.ok("quantize", self.source, self.out, "Q8_0")
        again = self.dir / "again.gguf"
        self.refused("quantize", self.out, again, "Q4_0", names=["Q8_0", "--allow-requantize"])
        self.ok("quantize", "--allow-requantize", self.out, again, "Q4_0")
        again.unlink()

    def test_a_signal_leaves_no_files(self):
        big = self.dir / "big.gguf"
        one = mixture_models.model("big", "llama", 4, 8, 8, ["ffn_up"], width=8192)
        one["tensors"] = [(name, [8192, 4000] if len(shape) > 1 else shape) for name, shape in one["tensors"]]
        big.write_bytes(mixture_models.model_file(one))
        self.addCleanup(big.unlink)
        for number in (signal.SIGTERM, signal.SIGHUP):
            for _ in range(10):  # a busy machine may deliver the signal after the end of the work
                program = subprocess.Popen([ARGS.billow, "quantize", big, self.out, "Q2_K"], stderr=subprocess.PIPE,
                                           stdout=subprocess.PIPE)
                while not list(self.dir.glob("*.partial-*")) and program.poll() is None:
                    time.sleep(0.01)
                program.send_signal(number)
                out, _ = program.communicate(timeout=300)
                if program.returncode != 0:
                    break
                self.out.unlink()
            self.assertEqual((program.returncode, out), (128 + number, b""))
            self.assertFalse(self.out.exists())
            self.assertEqual(list(self.dir.glob("*.partial-*")), [])

    def test_an_importance_matrix_can_be_used_to_quantise_its_model(self):
        text = self.dir / "text.txt"
        text.write_text("The quick brown fox jumps over the lazy dog. " * 400)
        for form in ("gguf", "dat"):
            matrix = self.dir / f"matrix.{form}"
            message = self.ok("imatrix", "-m", self.model, "-f", text, "-o", matrix, "--chunks", "2", "--output-format",
                           form).decode()
            self.assertRegex(message, r"matrix\.\w+: \d+ entries of 2 chunks")
            self.ok("quantize", "--imatrix", matrix, "--allow-requantize", self.model, self.out, "Q4_0")
            metadata = json.loads(self.ok("inspect", "--json", self.out))["metadata"]
            self.assertEqual(metadata["quantize.imatrix.file"]["value"], str(matrix)[:127])
            self.assertEqual(metadata["quantize.imatrix.chunks_count"]["value"], 2)
        text.write_text("short")
        self.refused("imatrix", "-m", self.model, "-f", text, "-o", self.dir / "none", names=["1024"])
        self.assertFalse((self.dir / "none").exists())


@unittest.skipUnless(LLAMA, "no llama-quantize: set BILLOW_LLAMA_QUANTIZE or PATH")
class Peer(ProgramTest):
    def test_types_match_llama_quantize(self):
        path, importance = self.dir / "model.gguf", self.dir / "importance.gguf"
        for one in mixture_models.MODELS[:6]:
            path.write_bytes(mixture_models.model_file(one))
            importance.write_bytes(mixture_models.importance_file(one))
            for kind in mixture_models.TYPES:
                expected = mixture_models.llama_decisions(LLAMA, path, kind, str(importance))
                if expected is None:
                    continue
                plan = json.loads(self.ok("quantize", "--dry-run", "--json", "--imatrix", importance, path, kind))
                ours = [(tensor["name"], tensor["to"].lower()) for tensor in plan["tensors"]]
                self.assertEqual(ours, [(name, kind_.lower()) for name, kind_ in expected], (one["name"], kind))

    def test_bytes_match_llama_quantize(self):
        source, ours, theirs = self.dir / "f16.gguf", self.dir / "ours.gguf", self.dir / "theirs.gguf"
        self.ok("quantize", "--allow-requantize", self.model, source, "F16")
        for kind in ("Q8_0", "Q4_0", "Q5_1", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_S", "Q6_K", "IQ4_NL", "TQ1_0"):
            self.ok("quantize", source, ours, kind)
            subprocess.run([LLAMA, source, theirs, kind, "2"], check=True, capture_output=True)
            self.assertTrue(ours.read_bytes() == theirs.read_bytes(), kind)


if __name__ == "__main__":
    main()
