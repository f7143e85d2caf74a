"""Tests that `create` converts adapters in safetensors, as the Python package peft writes them, and models in safetensors.

adapter_folder_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import json
import pathlib
import random
import subprocess
import tempfile
import unittest

from run_cases import run_cases
from safetensors_file import write_safetensors
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
options, rest = parser.parse_known_args()

MODULES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
           "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
RANK = 4


class AdapterFolders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([options.make_models, str(cls.folder), "--to-serve"], check=True)
        cls.base = cls.folder / "writer.gguf"
        cls.server = Server(cls.folder, ("--threads", "1"), program=options.billow)
        cls.addClassCleanup(cls.server.stop)
        cls.server.add_model("base", cls.base)
        cls.described = json.loads(cls.billow("inspect", "--json", str(cls.base)).stdout)
        for seed in (1, 2):
            cls.write_peft(f"peft{seed}", seed)

    @classmethod
    def billow(cls, *arguments):
        return subprocess.run([options.billow, *arguments], env=cls.server.environment, capture_output=True, text=True)

    @classmethod
    def write_peft(cls, name, seed, **settings):
        """Writes a folder like peft, for all matrices of the base's layers."""
        chance = random.Random(seed)
        tensors = {}
        for tensor in cls.described["tensors"]:
            parts = tensor["name"].split(".")
            if parts[0] != "blk" or parts[2] not in MODULES or len(tensor["shape"]) != 2:
                continue
            n_in, n_out = tensor["shape"]
            module = f"base_model.model.model.layers.{parts[1]}.{MODULES[parts[2]]}"
            tensors[module + ".lora_A.weight"] = ([RANK, n_in], [chance.gauss(0, n_in**-0.5) for _ in range(n_in * RANK)])
            tensors[module + ".lora_B.weight"] = ([n_out, RANK], [chance.gauss(0, 0.3) for _ in range(n_out * RANK)])
        folder = cls.folder / name
        folder.mkdir()
        write_safetensors(folder / "adapter_model.safetensors", tensors)
        config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 6, "bias": "none", **settings}
        (folder / "adapter_config.json").write_text(json.dumps(config))
        return folder

    def create(self, name, modelfile):
        path = self.folder / "Modelfile"
        path.write_text(modelfile)
        return self.billow("create", name, "-f", str(path))

    def made(self, name, modelfile):
        done = self.create(name, modelfile)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.ask(name)

    def ask(self, model):
        body = {"model": model, "prompt": "7 8 9 " * 20, "stream": False, "raw": True, "logprobs": True,
                "options": {"temperature": 0, "num_predict": 12}}
        answer = self.server.json("POST", "/api/generate", body)
        return answer["response"], answer["logprobs"]

    def converted(self, name, *more):
        """Converts a folder with `billow convert` and the base's file. Returns the GGUF file."""
        path = self.folder / f"{name}{len(more)}.gguf"
        done = self.billow("convert", str(self.folder / name), str(path), "--base", str(self.base), *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_folder_equals_file_made_by_convert(self):
        plain = self.ask("base")
        by_file = self.made("by-file", f"FROM base\nADAPTER {self.converted('peft1')}\n")
        self.assertNotEqual(by_file, plain)
        self.assertEqual(self.made("by-folder", f"FROM base\nADAPTER {self.folder}/peft1\n"), by_file)
        self.assertEqual(self.made("relative", "FROM base\nADAPTER ./peft1\n"), by_file)

    def test_each_folder_has_its_own_scale(self):
        files = self.made("two-files", f"FROM base\nADAPTER {self.converted('peft1')}:0.5\nADAPTER {self.converted('peft2')}:-1\n")
        folders = self.made("two-folders", "FROM base\nADAPTER ./peft1:0.5\nADAPTER ./peft2:-1\n")
        self.assertEqual(folders, files)
        mixed = self.made("mixed", f"FROM base\nADAPTER ./peft1:0.5\nADAPTER {self.converted('peft2', '--scale', '-1')}\n")
        self.assertEqual(mixed, files)

    def test_unconvertible_adapters_are_refused_with_one_line(self):
        self.write_peft("dora", 1, use_dora=True)
        done = self.create("wrong", "FROM base\nADAPTER ./dora\n")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('"use_dora": DoRA cannot be converted', done.stderr)
        self.server.add_model("ranker", self.folder / "ranker.gguf")
        done = self.create("wrong", "FROM ranker\nADAPTER ./peft1\n")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('"bert" cannot be converted', done.stderr)
        names = [model["name"] for model in self.server.json("GET", "/api/tags")["models"]]
        self.assertNotIn("wrong:latest", names)


if __name__ == "__main__":
    run_cases(rest)
