"""billow inspect reports what a file needs and Billow lacks; errors of loading refer to it."""
import json
import re
import struct

from program import ProgramTest, main

HINT = "`billow inspect FILE` shows all that it needs"
I8 = 24  # a tensor type that no weights have; one byte per element


def info_offset(data, tensor):
    """The offset after the name in a tensor's entry."""
    entry = struct.pack("<Q", len(tensor)) + tensor.encode()
    assert data.count(entry) == 1, tensor
    return data.index(entry) + len(entry)


def with_format(data, tensor, number):
    """The file with another weight format number for one tensor. The new format may need fewer bytes."""
    at = info_offset(data, tensor)
    (n_dims,) = struct.unpack_from("<I", data, at)
    at += 4 + 8 * n_dims
    return data[:at] + struct.pack("<I", number) + data[at + 4:]


def renamed(data, old, new):
    """The file with a renamed tensor. The names have the same length."""
    assert len(old) == len(new)
    at = info_offset(data, old) - len(old)
    return data[:at] + new.encode() + data[at + len(old):]


def with_text(data, key, value):
    """The file with another text as the value of a key. Returns (the file, the number of added bytes)."""
    entry = struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", 8)  # 8: a text
    at = data.index(entry) + len(entry)
    (size,) = struct.unpack_from("<Q", data, at)
    return data[:at] + struct.pack("<Q", len(value)) + value + data[at + 8 + size:], len(value) - size


def of_architecture(data, name):
    """The file with another architecture. general.name changes, too, so that the tensors stay aligned."""
    data, longer = with_text(data, "general.architecture", name.encode())
    data, _ = with_text(data, "general.name", b"." * (len(b"Tiny llama") - longer))
    return data


class Inspect(ProgramTest):
    def setUp(self):
        self.data = (self.dir / "llama.gguf").read_bytes()

    def write(self, name, data):
        path = self.dir / name
        path.write_bytes(data)
        self.addCleanup(path.unlink)
        return path

    def needs(self, path):
        return json.loads(self.ok("inspect", "--json", path))["billow"]

    def lines(self, path, *args):
        """{first column: rest of the line} for the part of the report before the metadata."""
        text = self.ok("inspect", path, *args).decode()
        report = text.split("\nmetadata, ")[0]
        return {first: rest for first, rest in re.findall(r"^  (\S.*?)  +(\S.*)$", report, re.M)}

    def refused_to_load(self, path, *names):
        for command in (["generate", "--prompt", "x"], ["logits", "--tokens", "1"], ["plan", "--prompt-tokens", 9], ["bench"]):
            with self.subTest(command[0]):
                self.refused(command[0], "--model", path, *command[1:], names=[path, HINT, *names])

    def test_a_model_that_runs_needs_nothing_and_uses_all_of_its_tensors(self):
        for path in sorted(self.dir.glob("*.gguf")):
            with self.subTest(path.name):
                needs = self.needs(path)
                self.assertEqual((needs["runs"], needs["reason"], needs["unread_tensors"], needs["ways"]), (True, "", [], []))
                text = self.ok("inspect", path).decode()
                self.assertRegex(text, r"(?m)^  runs +yes$")
                self.assertNotIn("what Billow lacks", text)

    def test_names_an_unknown_architecture_and_a_program_for_it(self):
        path = self.write("new.gguf", of_architecture(self.data, "plume"))
        needs = self.needs(path)
        self.assertEqual((needs["runs"], needs["knows_architecture"], needs["unsupported_formats"]), (False, False, []))
        self.assertIn("plume", needs["reason"])
        lines = self.lines(path)
        self.assertEqual(lines["unknown architecture"], "plume")
        self.assertIn("plume", lines["runs"])
        self.assertIn("llama-server", lines["way"])
        self.refused_to_load(path, "plume")

    def test_distinguishes_projectors_and_image_generators(self):
        for name, way in (("clip", "--mmproj"), ("flux", "pictures"), ("wan", "pictures")):
            with self.subTest(name):
                path = self.write(f"{name}.gguf", of_architecture(self.data, name))
                self.assertEqual(len(self.needs(path)["ways"]), 1)
                self.assertIn(way, self.lines(path)["way"])

    def test_lists_the_tensors_of_unknown_formats(self):
        names = [f"blk.{i}.{part}.weight" for i in range(3) for part in ("attn_q", "attn_k", "attn_v", "ffn_up")]
        data = self.data
        for name in names:
            data = with_format(data, name, I8)
        path = self.write("formats.gguf", data)
        needs = self.needs(path)
        (group,) = needs["unsupported_formats"]
        self.assertEqual((group["type"], sorted(group["tensors"])), ("I8", sorted(names)))
        self.assertEqual((needs["runs"], needs["knows_architecture"]), (False, True))
        shown = self.lines(path)["unknown format I8"]
        self.assertIn("12 tensors: ", shown)
        self.assertIn("--full", shown)
        self.assertIn("llama-quantize --allow-requantize", self.lines(path)["way"])
        whole = self.lines(path, "--full")["unknown format I8"]
        for name in names:
            self.assertIn(name, whole)
        self.refused_to_load(path, "I8")

    def test_lists_missing_and_unknown_tensors(self):
        data = renamed(self.data, "blk.1.ffn_up.weight", "blk.1.ffn_uq.weight")
        data = renamed(data, "output_norm.weight", "output_morn.weight")
        path = self.write("missing.gguf", data)
        needs = self.needs(path)
        self.assertIn("is missing", needs["reason"])
        self.assertIn("output_norm.weight", needs["missing_tensors"])
        self.assertIn("blk.1.ffn_up.weight", needs["missing_tensors"])
        self.assertIn("blk.1.ffn_up.weight", self.lines(path)["missing"])
        self.assertIn("fetch it again", self.lines(path)["way"])
        self.refused_to_load(path, "is missing")

    def test_lists_unused_tensors_of_a_model_that_runs(self):
        data = renamed((self.dir / "llama-llama3.gguf").read_bytes(), "rope_freqs.weight", "rope_freks.weight")
        path = self.write("unused.gguf", data)
        needs = self.needs(path)
        self.assertEqual((needs["runs"], needs["unread_tensors"]), (True, ["rope_freks.weight"]))
        self.assertEqual(self.lines(path)["not used"], "1 tensor: rope_freks.weight")
        self.assertEqual(self.lines(path)["runs"], "yes")

    def test_reports_an_unknown_vocabulary(self):
        old, new = b"tokenizer.ggml.model", b"tokenizer.ggml.nodel"
        self.assertEqual(self.data.count(old), 1)
        path = self.write("vocabulary.gguf", self.data.replace(old, new))
        needs = self.needs(path)
        self.assertFalse(needs["runs"])
        self.assertIn("tokenizer.ggml.model", needs["vocabulary"])
        self.assertIn("tokenizer.ggml.model", self.lines(path)["vocabulary"])

    def test_control_characters_of_a_file_do_not_reach_the_terminal(self):
        path = self.write("evil.gguf", of_architecture(self.data, "\x1b[31m"))
        self.assertNotIn(b"\x1b", self.ok("inspect", path))


if __name__ == "__main__":
    main()
