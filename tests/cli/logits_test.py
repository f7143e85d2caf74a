"""billow logits: text, JSON and arrays agree; incomplete files are removed; invalid input gives one line."""
import ast
import json
import os
import pty
import signal
import struct
import subprocess
import time

from program import ARGS, ProgramTest, billow, main

TOKENS = "1,5,9,17,33,21,8"


def array(data):
    """(rows, columns, values row by row) of a .npy file, parsed according to the format's specification."""
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack_from("<H", data, 8)
    header = ast.literal_eval(data[10:10 + length].decode())
    assert header["descr"] == "<f4" and header["fortran_order"] is False, header
    assert (10 + length) % 64 == 0
    rows, columns = header["shape"]
    values = struct.unpack(f"<{rows * columns}f", data[10 + length:])
    return rows, columns, [values[i * columns:(i + 1) * columns] for i in range(rows)]


class Logits(ProgramTest):
    def run_logits(self, *args, model=None, **kwargs):
        return self.ok("logits", "--model", model or self.model, *args, **kwargs)

    def refused_logits(self, *args, names):
        self.refused("logits", "--model", self.model, *args, names=names)

    def test_json_shows_the_best_of_the_array(self):
        shown = json.loads(self.run_logits("--tokens", TOKENS, "--json"))
        rows, columns, values = array(self.run_logits("--tokens", TOKENS, "--out", "-"))
        self.assertEqual((shown["n_tokens"], shown["n_vocab"]), (rows, columns))
        self.assertEqual([str(row["token"]) for row in shown["positions"]], TOKENS.split(","))
        n_tokens = json.loads(self.ok("inspect", "--json", self.model))["metadata"]["tokenizer.ggml.tokens"]["n"]
        for position, row in enumerate(shown["positions"]):
            self.assertEqual(row["position"], position)
            best = sorted(range(n_tokens), key=lambda i: (-values[position][i], i))[:5]
            self.assertEqual([top["token"] for top in row["top"]], best)
            for top in row["top"]:
                self.assertAlmostEqual(top["logit"], values[position][top["token"]], places=5)

    def test_exact_changes_nothing_if_weights_are_floats(self):
        # tests/families compares quantised weights with the floats that the gguf package makes of them.
        self.assertEqual(self.run_logits("--tokens", TOKENS, "--exact", "--out", "-"), self.run_logits("--tokens", TOKENS, "--out", "-"))

    def test_refuses_to_replace_its_input(self):
        copy = self.dir / "copy.gguf"
        copy.write_bytes(self.model.read_bytes())
        self.refused("logits", "--model", copy, "--tokens", TOKENS, "--out", copy, names=[copy, "is part of the input"])
        self.refused("generate", "--model", copy, "--prompt", "a", "--trace", copy, names=[copy, "is part of the input"])
        for adapter in (copy, f"{copy}:0.5"):
            self.refused("logits", "--model", self.model, "--adapter", adapter, "--tokens", TOKENS, "--out", copy,
                         names=[copy, "is part of the input"])
        self.assertEqual(copy.read_bytes(), self.model.read_bytes())
        copy.unlink()

    def test_the_summary_has_a_line_for_each_position(self):
        shown = json.loads(self.run_logits("--tokens", TOKENS, "--json"))
        head, *lines = self.run_logits("--tokens", TOKENS).decode().splitlines()
        self.assertIn(f"7 positions x {shown['n_vocab']} logits", head)
        self.assertEqual(len(lines), 7)
        for row, line in zip(shown["positions"], lines):
            self.assertEqual(line.split()[:2], [str(row["position"]), str(row["token"])])
            for top in row["top"]:
                self.assertIn(f" {top['token']} \"", line)
                self.assertIn(f"{top['logit']:.4f}", line)

    def test_text_gives_the_tokens_of_tokenize(self):
        text = "hello <|im_start|> there"
        ids = self.ok("tokenize", "--model", self.model, stdin=text.encode()).decode().strip()
        self.assertIn("1", ids.split())  # the control token
        out = self.run_logits("--text", text, "--out", "-")
        self.assertEqual(self.run_logits("--tokens", ids, "--out", "-"), out)
        self.assertEqual(self.run_logits("--tokens", f"[{ids.replace(' ', ', ')}]", "--out", "-"), out)

    def test_batches_and_threads_change_no_bit(self):
        text = "The quick brown fox jumps over the lazy dog. " * 4
        expected = self.run_logits("--text", text, "--out", "-")
        for options in (["--batch", 1], ["--batch", 7], ["--threads", 1], ["--threads", 2, "--batch", 64]):
            with self.subTest(options):
                self.assertEqual(self.run_logits("--text", text, "--out", "-", *options), expected)
        self.assertNotEqual(self.run_logits("--text", text, "--out", "-", "--kv-type", "q8_0"), expected)

    def test_every_architecture_has_logits(self):
        for model in sorted(self.dir.glob("*.gguf")):
            with self.subTest(model.name):
                inspected = json.loads(self.ok("inspect", "--json", model))["metadata"]
                if inspected["general.architecture"]["value"] in ("bert", "nomic-bert"):
                    self.refused("logits", "--model", model, "--tokens", 1, names=[model, "vectors"])
                    continue
                rows, columns, values = array(self.run_logits("--tokens", "3,4", "--out", "-", model=model))
                self.assertEqual(rows, 2)
                self.assertEqual(len(values[1]), columns)
                self.assertGreater(len(set(values[1])), columns // 2)

    def test_a_file_has_the_same_bytes_as_standard_output(self):
        path = self.dir / "logits.npy"
        path.write_bytes(b"old")
        message = self.run_logits("--tokens", TOKENS, "--out", path).decode()
        self.assertRegex(message, rf"^{path}: 7 positions x \d+ logits\n$")
        self.assertEqual(path.read_bytes(), self.run_logits("--tokens", TOKENS, "--out", "-"))
        report = json.loads(self.run_logits("--tokens", TOKENS, "--out", path, "--json"))
        self.assertEqual((report["file"], report["n_tokens"]), (str(path), 7))
        self.assertEqual(",".join(map(str, report["tokens"])), TOKENS)

    def test_a_failure_keeps_only_the_old_file(self):
        folder = self.dir / "kept"
        folder.mkdir()
        path = folder / "logits.npy"
        path.write_bytes(b"old")
        too_many = " ".join(["3"] * 3000)
        self.refused_logits("--tokens", too_many, "--out", path, names=["3000", "context of 2048"])
        self.refused_logits("--tokens", "3 " * 2000, "--out", path, "--memory", "2M", names=["memory"])
        self.assertEqual(os.listdir(folder), ["logits.npy"])
        self.assertEqual(path.read_bytes(), b"old")

    def test_ctrl_c_leaves_no_incomplete_file(self):
        folder = self.dir / "interrupted"
        folder.mkdir()
        command = [ARGS.billow, "logits", "--model", self.model, "--tokens", "3 " * 2000, "--batch", 1, "--out", folder / "out.npy"]
        for _ in range(10):  # a busy machine may deliver the signal after the end of the work
            process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while process.poll() is None and not os.listdir(folder):
                time.sleep(0.001)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=60)
            if process.returncode != 0:
                break
            (folder / "out.npy").unlink()
        self.assertEqual(process.returncode, 128 + signal.SIGINT, errors)
        self.assertEqual(out, b"")
        self.assertEqual(os.listdir(folder), [])

    def test_invalid_input_gives_one_line(self):
        self.refused_logits("--tokens", "", names=["--tokens", "at least one"])
        self.refused_logits("--tokens", "1,x", names=["'x'", "token id"])
        self.refused_logits("--tokens", "1,99999999", names=["99999999", "0 to"])
        self.refused_logits("--tokens=-1", names=["'-1'", "0 to"])
        self.refused_logits("--tokens", 1, "--out", "/dev/null", names=["/dev/null", "regular file"])
        self.refused_logits("--tokens", 1, "--out", self.dir, names=[self.dir, "directory"])
        self.refused_logits("--tokens", 1, "--out", self.dir / "no" / "folder", names=[self.dir / "no" / "folder", "No such file"])
        # The tokenizer of a tiny model adds no BOS, so an empty text has no tokens.
        self.refused_logits("--text", "", names=["--text", "empty"])
        with open("/dev/full", "wb") as full:
            done = subprocess.run([ARGS.billow, "logits", "--model", str(self.model), "--tokens", "1"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1))
        self.assertIn(b"No space left", done.stderr)

    def test_refuses_to_write_an_array_to_a_terminal(self):
        leader, follower = pty.openpty()
        done = subprocess.run([ARGS.billow, "logits", "--model", str(self.model), "--tokens", "1", "--out", "-"], stdout=follower,
                              stderr=subprocess.PIPE)
        os.close(follower)
        os.close(leader)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1))
        self.assertIn(b"terminal", done.stderr)

    def test_wrong_options_have_status_2(self):
        base = ["logits", "--model", self.model]
        for wrong in ([], ["--tokens", 1, "--text", "a"], ["--tokens", 1, "--batch", 0], ["--tokens", 1, "--out", "-", "--json"]):
            with self.subTest(wrong):
                self.assertEqual(billow(*base, *wrong).returncode, 2)


if __name__ == "__main__":
    main()
