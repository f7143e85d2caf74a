"""Tests that vision-language models in safetensors become a model and a projector: the files of `billow convert`, and models of
`billow create`.

vision_create_test.py --billow PROGRAM [unittest arguments]

The folders are made from the GGUF files in ../shared/data/vision. Without them, the tests are skipped.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from pictures import text64
from run_cases import run_cases
from server import Server
from vision_folders import FAMILIES, MODELS, FloatFile, write_folder

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
options, rest = parser.parse_known_args()

NOT_COMPARED = ("general.name", "general.size_label", "general.basename")


def facts_of(path):
    """Returns the keys and tensors that both converters must write."""
    file = FloatFile(path)
    keys = {key: value for key, value in file.metadata.items() if key not in NOT_COMPARED and not key.startswith("tokenizer.")}
    return keys, file.tensors


@unittest.skipUnless(MODELS.is_dir(), f"{MODELS} does not exist")
class Folders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.whole = [name for name in FAMILIES if write_folder(name, cls.folder / name)]

    def billow(self, *arguments, status=0, **more):
        done = subprocess.run([options.billow, *map(str, arguments)], capture_output=True, check=False, **more)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def compare(self, made, expected):
        keys, tensors = facts_of(made)
        expected_keys, expected_tensors = facts_of(expected)
        self.assertEqual(keys, expected_keys)
        self.assertEqual(sorted(tensors), sorted(expected_tensors))
        for name, tensor in tensors.items():
            self.assertEqual(tensor, expected_tensors[name], name)


class Convert(Folders):
    def test_projectors_of_all_families(self):
        for name in FAMILIES:
            with self.subTest(name):
                out = self.folder / f"only-{name}.gguf"
                self.billow("convert", self.folder / name, out, "--only-mmproj", "--outtype", "F32")
                self.compare(out, MODELS / f"{name}.mmproj.gguf")
                self.assertFalse((self.folder / f"mmproj-only-{name}.gguf").exists())

    def test_two_files(self):
        self.assertEqual(len(self.whole), 8)
        for name in self.whole:
            with self.subTest(name):
                out = self.folder / f"two-{name}.gguf"
                done = json.loads(self.billow("convert", self.folder / name, out, "--outtype", "F32", "--json").stdout)
                beside = self.folder / f"mmproj-two-{name}.gguf"
                self.assertEqual(done, {"output": str(out), "bytes": out.stat().st_size, "mmproj": str(beside),
                                        "mmproj_bytes": beside.stat().st_size, "notes": []})
                self.compare(out, MODELS / f"{name}.gguf")
                self.compare(beside, MODELS / f"{name}.mmproj.gguf")

    def test_options(self):
        source, out, eyes = self.folder / "gemma3", self.folder / "options.gguf", self.folder / "eyes.gguf"
        done = self.billow("convert", source, out, "--mmproj", eyes)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertTrue(eyes.exists())
        out.unlink()
        done = self.billow("convert", source, out, "--no-mmproj")
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertIn(b"billow: note: the part for pictures is left out (55 tensors)", done.stderr)
        self.assertFalse((self.folder / "mmproj-options.gguf").exists())
        self.assertTrue(self.billow("convert", source, "-", "--only-mmproj").stdout.startswith(b"GGUF"))
        self.billow("convert", source, cwd=self.folder)
        self.assertTrue((self.folder / "gemma3-F16.gguf").exists())
        self.assertTrue((self.folder / "mmproj-gemma3-F16.gguf").exists())
        for arguments, why in ((("--mmproj", eyes, "--no-mmproj"), b"give only one of --mmproj, --no-mmproj and --only-mmproj"),
                               (("--mmproj", "-"), b"--mmproj needs a file")):
            self.assertIn(why, self.billow("convert", source, out, *arguments, status=1).stderr)

    def test_a_fault_of_a_part_leaves_no_file(self):
        for change in ("preprocessor_config.json", "tokenizer.json"):
            broken = self.folder / f"broken-{change}"
            shutil.copytree(self.folder / "gemma3", broken)
            (broken / change).unlink()
            out = self.folder / "none.gguf"
            done = self.billow("convert", broken, out, status=1)
            self.assertEqual(done.stderr.count(b"error: "), 1, done.stderr)
            self.assertFalse(out.exists() or (self.folder / "mmproj-none.gguf").exists())
        self.assertIn(b"preprocessor_config.json is missing", self.billow(
            "convert", self.folder / "broken-preprocessor_config.json", out, status=1).stderr)
        self.billow("convert", self.folder / "broken-preprocessor_config.json", out, "--no-mmproj")


class Create(Folders):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.folder, ["--threads", "1"], program=options.billow)
        cls.addClassCleanup(cls.server.stop)
        cls.picture = text64((MODELS / "picture.png").read_bytes())

    def create(self, name, *arguments, status=0):
        return self.billow("create", name, *arguments, status=status, cwd=self.folder / name, env=self.server.environment)

    def answer(self, model):
        return self.server.json("POST", "/api/generate", {
            "model": model, "prompt": "a[img]b", "raw": True, "stream": False, "images": [self.picture], "logprobs": True,
            "options": {"temperature": 0, "num_predict": 4, "seed": 1}})

    def blobs(self):
        return sorted(path.name for path in self.server.models.glob("blobs/*"))

    def layers(self, name):
        manifest = json.loads((self.server.models / f"manifests/registry.ollama.ai/library/{name}/latest").read_text())
        return {layer["mediaType"].rpartition(".")[2]: self.server.models / "blobs" / layer["digest"].replace(":", "-")
                for layer in manifest["layers"]}

    def test_answers_are_those_of_the_same_gguf_files(self):
        for name in self.whole:
            with self.subTest(name):
                self.create(name, "--quantize", "f32")
                shown = self.server.json("POST", "/api/show", {"model": name})
                self.assertIn("vision", shown["capabilities"])
                self.assertEqual(shown["projector_info"]["general.architecture"], "clip")
                other = name + "-gguf"
                self.server.add_files(other, {"m.gguf": MODELS / f"{name}.gguf", "mmproj.gguf": MODELS / f"{name}.mmproj.gguf"})
                one, two = self.answer(name), self.answer(other)
                self.assertEqual(one["prompt_eval_count"], two["prompt_eval_count"])
                self.assertEqual(one["logprobs"], two["logprobs"])

    def test_projector_stays_in_floats(self):
        kinds = {None: (1, 1), "bf16": (32, 32), "q8_0": (7, 1), "q4_0": (2, 1)}
        for kind, expected in kinds.items():
            with self.subTest(kind):
                self.create("smolvlm", *(["--quantize", kind] if kind else []))
                layers = self.layers("smolvlm")
                self.assertEqual(sorted(layers), ["model", "projector"])
                shown = self.server.json("POST", "/api/show", {"model": "smolvlm"})
                types = (shown["model_info"]["general.file_type"], shown["projector_info"]["general.file_type"])
                self.assertEqual(types, expected)
                self.assertEqual(self.answer("smolvlm")["eval_count"], 4)

    def test_progress_names_the_projector(self):
        files = {path.name: self.server.upload(path) for path in (self.folder / "lfm2_vl").iterdir()}
        lines = self.server.lines("/api/create", {"model": "steps", "files": files, "keep_files": True})
        steps = [line["status"] for line in lines]
        self.assertLess(steps.index("converting projector"), steps.index("converting model"))
        self.assertEqual(steps[-1], "success")
        self.assertFalse(any("left out" in step for step in steps), steps)

    def test_a_refused_projector_leaves_nothing(self):
        source = self.folder / "refused"
        shutil.copytree(self.folder / "qwen2_5_vl", source)
        config = json.loads((source / "config.json").read_text())
        config["vision_config"]["window_size"] = 56
        (source / "config.json").write_text(json.dumps(config))
        before = self.blobs()
        done = self.create("refused", status=1)
        self.assertIn(b"config.json, vision_config: \"window_size\" must be 112", done.stderr)
        self.assertEqual(self.blobs(), before)

    def test_models_without_vision_tensors_are_text_models(self):
        source = self.folder / "blind"
        shutil.copytree(self.folder / "qwen2_vl", source)
        config = json.loads((source / "config.json").read_text())
        del config["vision_config"]
        (source / "config.json").write_text(json.dumps(config))
        self.create("blind")
        self.assertEqual(sorted(self.layers("blind")), ["model"])
        self.assertNotIn("vision", self.server.json("POST", "/api/show", {"model": "blind"})["capabilities"])


del Folders  # only its subclasses have tests
if __name__ == "__main__":
    run_cases(rest)
