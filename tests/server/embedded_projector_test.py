"""Tests models whose projector is in the model's file, as in Ollama's library: they answer exactly as with a separate projector.

embedded_projector_test.py --billow PROGRAM [unittest arguments]

The models are in ../shared/data/vision. Without the folder, the tests are skipped.
"""

import argparse
import json
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

import ollama_files
from gguf_file import BOOL, STRING, U32, GgufFile
from pictures import data_url, png, text64
from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
options, rest = parser.parse_known_args()

MODELS = pathlib.Path(__file__).resolve().parents[3] / "shared/data/vision"
# Name of the test, name of the files, and the function that joins them.
FAMILIES = {"gemma3": ("gemma3", ollama_files.gemma3), "qwen25vl": ("qwen2_5_vl", ollama_files.qwen25vl),
            "qwen3vl": ("qwen3_vl", ollama_files.qwen3vl), "qwen3vl-old": ("qwen3_vl", ollama_files.qwen3vl_old),
            "qwen35": ("qwen3_5", ollama_files.qwen35), "mistral3": ("mistral3", ollama_files.mistral3),
            "llama4": ("llama4", ollama_files.llama4), "gemma4": ("gemma4", ollama_files.gemma4),
            "gemma4-e": ("gemma4-e", ollama_files.gemma4_limits), "lfm2-vl": ("lfm2_vl", ollama_files.lfm2)}
GREEDY = {"temperature": 0, "num_predict": 6, "seed": 1}


def pair(name):
    """Returns the text model and the projector, with what Ollama's files of the family imply."""
    text, projector = GgufFile(MODELS / f"{name}.gguf"), GgufFile(MODELS / f"{name}.mmproj.gguf")
    if name == "mistral3":  # published models have SiLU and this pre-tokeniser
        del projector.keys["clip.use_gelu"]
        projector.keys["clip.use_silu"] = BOOL, True
        text.keys["tokenizer.ggml.pre"] = STRING, b"tekken"
    if name == "lfm2_vl":
        text.keys["tokenizer.ggml.pre"] = STRING, b"lfm2"
    if name == "gemma4-e":
        projector = ollama_files.with_limits(projector)
    return text, projector


@unittest.skipUnless(MODELS.is_dir(), f"{MODELS} does not exist")
class EmbeddedProjector(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.server = Server(cls.folder, ["--threads", "1"], program=options.billow)
        cls.addClassCleanup(cls.server.stop)
        cls.picture = (MODELS / "picture.png").read_bytes()
        for family, (name, join) in FAMILIES.items():
            text, projector = pair(name)
            text.write(cls.path(family, "text"))
            projector.write(cls.path(family, "mmproj"))
            join(text, projector).write(cls.path(family, "one"))
            cls.server.add_files(f"two-{family}", {"m.gguf": cls.path(family, "text"), "mmproj.gguf": cls.path(family, "mmproj")},
                                 template="{{ .Prompt }}")
            cls.server.add_files(f"one-{family}", {"m.gguf": cls.path(family, "one")}, template="{{ .Prompt }}")

    @classmethod
    def path(cls, family, part):
        return cls.folder / f"{family}.{part}.gguf"

    def post(self, path, body, status=200):
        got, _, answer = self.server.request("POST", path, {"stream": False, **body})
        self.assertEqual(got, status, answer)
        return json.loads(answer)

    def generate(self, name, prompt, *pictures, **fields):
        return self.post("/api/generate", {"model": name, "prompt": prompt, "raw": True, "options": GREEDY,
                                           "images": [text64(picture) for picture in pictures], **fields})

    def for_each_family(self, check):
        for family in FAMILIES:
            with self.subTest(family):
                check(f"one-{family}", f"two-{family}")

    def test_answers_are_those_of_two_files(self):
        def check(one, two):
            for prompt, pictures in (("a[img]b", [self.picture]), ("[img]a[img]", [png(130, 90, 90), png(90, 120, 40)]), ("text alone", [])):
                answers = [self.generate(name, prompt, *pictures, logprobs=True, top_logprobs=3) for name in (one, two)]
                self.assertEqual(answers[0]["logprobs"], answers[1]["logprobs"])
                self.assertEqual(answers[0]["prompt_eval_count"], answers[1]["prompt_eval_count"])
        self.for_each_family(check)

    def test_apis_answer_like_two_files(self):
        url = data_url(self.picture)
        block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text64(self.picture)}}
        content = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": url}}]
        marked = {"prompt_string": "a<__media__>b", "multimodal_data": [text64(self.picture)]}

        def requests(name):
            chat = self.post("/api/chat", {"model": name, "options": GREEDY, "messages": [
                {"role": "user", "content": "a", "images": [text64(self.picture)]}]})
            yield chat["message"]["content"], chat["prompt_eval_count"]
            chat = self.post("/v1/chat/completions", {"model": name, "max_tokens": 4, "temperature": 0,
                                                      "messages": [{"role": "user", "content": content}]})
            yield chat["choices"][0]["message"]["content"], chat["usage"]["prompt_tokens"]
            answer = self.post("/v1/responses", {"model": name, "max_output_tokens": 4, "temperature": 0, "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": url}]}]})
            yield [item.get("content") for item in answer["output"]], answer["usage"]["input_tokens"]
            answer = self.post("/v1/messages", {"model": name, "max_tokens": 4, "temperature": 0, "messages": [
                {"role": "user", "content": [block, {"type": "text", "text": "a"}]}]})
            usage = answer["usage"]
            yield answer["content"], usage["input_tokens"] + usage["cache_read_input_tokens"]
            answer = self.post("/completion", {"model": name, "prompt": marked, "n_predict": 4, "temperature": 0})
            yield answer["content"], answer["tokens_evaluated"]

        def check(one, two):
            self.assertEqual(list(requests(one)), list(requests(two)))
        self.for_each_family(check)

    def test_headers_say_what_the_model_sees(self):
        def check(one, two):
            body = {"prompt": "a[img]b", "raw": True, "images": [text64(self.picture)]}
            plans = [self.post("/api/plan", {"model": name, **body})["prompt_tokens"] for name in (one, two)]
            self.assertEqual(plans[0], plans[1])
            self.assertGreater(plans[0], 10)
            shown = self.post("/api/show", {"model": one})
            self.assertIn("vision", shown["capabilities"])
            self.assertTrue(self.server.json("GET", f"/props?model={one}")["modalities"]["vision"])
        self.for_each_family(check)

    def test_memory_counts_weights_once(self):
        def bytes_of(model, projector):
            arguments = [options.billow, "runner", "--describe", model, "--projector", projector]
            described = json.loads(subprocess.run(arguments, capture_output=True, check=True).stdout)
            self.assertTrue(described["encodes_pictures"])
            return described["memory"]["weight_bytes"]
        for family in FAMILIES:
            with self.subTest(family):
                one = bytes_of(self.path(family, "one"), self.path(family, "one"))
                two = bytes_of(self.path(family, "text"), self.path(family, "mmproj"))
                # What is made for the projector takes memory, in whole pages; the metadata differs.
                made = 3 * 64 * 64 * 4 * 2 + 2 * 2 * 32 * 3 * 16 * 16 * 4
                self.assertLess(one - two, made + 3 * 65536)
                self.assertLess(two - one, 65536)

    def test_other_projectors_are_refused_by_name(self):
        text, projector = pair("qwen2_5_vl")
        one = ollama_files.qwen25vl(text, projector)
        one.keys["qwen25vl.vision.fullatt_block_indexes"] = 9, (5, [0, 3])
        cases = {"irregular": (one, "fullatt_block_indexes is not regular")}
        one = ollama_files.gemma3(*pair("gemma3"))
        one.tensors["v.surprise.weight"] = ollama_files.Tensor([1], 0, struct.pack("<f", 1))
        cases["surprising"] = one, "v.surprise.weight is not expected"
        one = ollama_files.lfm2(*pair("lfm2_vl"))
        one.keys["lfm2.vision.tile_size"] = U32, 256
        cases["tiles"] = one, "lfm2.vision.tile_size is not 512"
        file = ollama_files.mistral3(*pair("mistral3"))
        file.keys = {re.sub(r"^mistral3\.", "llama.", name): value for name, value in file.keys.items()}
        file.keys["general.architecture"] = STRING, b"llama"
        cases["unknown"] = file, 'no projector in it is supported: its architecture is "llama"'
        for name, (file, why) in cases.items():
            with self.subTest(name):
                path = self.path(name, "one")
                file.write(path)
                arguments = [options.billow, "runner", "--describe", path, "--projector", path, "--engine", "billow"]
                described = json.loads(subprocess.run(arguments, capture_output=True).stdout)
                self.assertNotIn("encodes_pictures", described)  # its text can be used
                self.server.add_files(name, {"m.gguf": path}, template="{{ .Prompt }}")
                self.generate(name, "text")
                error = self.post("/api/generate", {"model": name, "prompt": "a", "images": [text64(self.picture)]}, 400)["error"]
                self.assertIn(name, error)
                self.server.wait_for_log(why)


if __name__ == "__main__":
    run_cases(rest)
