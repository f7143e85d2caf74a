"""Tests pictures with Billow's own engine: tiny vision models through every API.

vision_test.py --billow PROGRAM [unittest arguments]

The models are in ../shared/data/vision. Without the folder, the tests are skipped.
"""

import argparse
import concurrent.futures
import json
import pathlib
import tempfile
import unittest

from pictures import data_url, png, text64
from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
options, rest = parser.parse_known_args()

MODELS = pathlib.Path(__file__).resolve().parents[3] / "shared/data/vision"
# The tokens of picture.png, 150 x 100 pixels: NAME.json, image_positions.
TOKENS = {"gemma3": 16, "internvl": 112, "lfm2_vl": 70, "mistral3": 24, "qwen2_vl": 20, "qwen3_vl": 15, "smolvlm": 80}
GREEDY = {"temperature": 0, "num_predict": 6, "seed": 1}


@unittest.skipUnless(MODELS.is_dir(), f"{MODELS} does not exist")
class Vision(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.server = Server(pathlib.Path(cls.folder.name), ["--threads", "1"], program=options.billow)
        cls.addClassCleanup(cls.server.stop)
        cls.picture = (MODELS / "picture.png").read_bytes()
        for name in TOKENS:
            cls.server.add_files(name, {"m.gguf": MODELS / f"{name}.gguf", "mmproj.gguf": MODELS / f"{name}.mmproj.gguf"},
                                 template="{{ .Prompt }}")
        cls.server.add_files("blind", {"m.gguf": MODELS / "gemma3.gguf"}, template="{{ .Prompt }}")

    def post(self, path, body, status=200):
        got, _, answer = self.server.request("POST", path, {"stream": False, **body})
        self.assertEqual(got, status, answer)
        return json.loads(answer)

    def generate(self, name, prompt, *pictures, **fields):
        return self.post("/api/generate", {"model": name, "prompt": prompt, "raw": True, "options": GREEDY,
                                           "images": [text64(picture) for picture in pictures], **fields})

    def test_a_saved_chat_keeps_its_pictures(self):
        talk = [{"role": "user", "content": "a", "images": [text64(self.picture)]}, {"role": "assistant", "content": "b", "thinking": "t"}]
        self.post("/api/create", {"model": "saved", "from": "gemma3", "messages": talk})
        self.assertEqual(self.post("/api/show", {"model": "saved"})["messages"], talk)
        question = {"role": "user", "content": "c"}
        whole = self.post("/api/chat", {"model": "gemma3", "options": GREEDY, "messages": [*talk, question]})
        rest = self.post("/api/chat", {"model": "saved", "options": GREEDY, "messages": [question]})
        self.assertEqual((rest["prompt_eval_count"], rest["message"]), (whole["prompt_eval_count"], whole["message"]))
        self.post("/api/create", {"model": "saved", "from": "gemma3", "messages": [{"role": "user", "images": ["!"]}]}, status=400)

    def test_own_engine_runs_the_model(self):
        for name in TOKENS:
            with self.subTest(name):
                self.generate(name, "a", self.picture)
                loaded = [one for one in self.server.json("GET", "/api/ps")["models"] if one["name"].startswith(name)]
                self.assertEqual(len(loaded), 1)
                self.assertIn("vision", self.post("/api/show", {"model": name})["capabilities"])
                self.assertTrue(self.server.json("GET", f"/props?model={name}")["modalities"]["vision"])

    def test_pictures_count_as_tokens(self):
        for name, n_tokens in TOKENS.items():
            with self.subTest(name):
                text = self.generate(name, "ab")["prompt_eval_count"]
                one = self.generate(name, "a[img]b", self.picture)["prompt_eval_count"]
                two = self.generate(name, "[img]a[img]b", self.picture, self.picture)["prompt_eval_count"]
                self.assertGreaterEqual(one - text, n_tokens)
                self.assertLess(one - text, n_tokens + 60)  # marks around tiles
                self.assertEqual(two - one, one - text)

    def test_the_picture_decides_the_answer(self):
        other = png(150, 100, 200)
        for name in TOKENS:
            with self.subTest(name):
                fields = {"logprobs": True, "top_logprobs": 1}
                first = self.generate(name, "a[img]b", self.picture, **fields)
                again = self.generate(name, "a[img]b", self.picture, **fields)
                different = self.generate(name, "a[img]b", other, **fields)
                first_again = self.generate(name, "a[img]b", self.picture, **fields)
                self.assertEqual(first["logprobs"], again["logprobs"])
                self.assertEqual(first["logprobs"], first_again["logprobs"])
                self.assertNotEqual(first["logprobs"], different["logprobs"])

    def test_parallel_requests_get_the_same_answers(self):
        name = "qwen2_vl"
        pictures = [self.picture, png(90, 120, 40), png(200, 60, 90)]
        prompts = [(f"{'x' * (i % 3)}[img]b", pictures[i % 3]) for i in range(9)] + [("text alone", None)] * 3

        def ask(prompt):
            return self.generate(name, prompt[0], *([prompt[1]] if prompt[1] else []), logprobs=True)["logprobs"]

        alone = [ask(prompt) for prompt in prompts]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            self.assertEqual(list(pool.map(ask, prompts)), alone)

    def test_apis(self):
        url = data_url(self.picture)
        block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text64(self.picture)}}
        for name, n_tokens in TOKENS.items():
            with self.subTest(name):
                chat = self.post("/api/chat", {"model": name, "options": GREEDY, "messages": [
                    {"role": "user", "content": "a", "images": [text64(self.picture)]}]})
                self.assertGreaterEqual(chat["prompt_eval_count"], n_tokens)
                content = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": url}}]
                got = self.post("/v1/chat/completions", {"model": name, "max_tokens": 2, "messages": [{"role": "user", "content": content}]})
                self.assertGreaterEqual(got["usage"]["prompt_tokens"], n_tokens)
                got = self.post("/v1/responses", {"model": name, "max_output_tokens": 2, "input": [
                    {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": url}]}]})
                self.assertGreaterEqual(got["usage"]["input_tokens"], n_tokens)
                got = self.post("/v1/messages", {"model": name, "max_tokens": 2, "messages": [
                    {"role": "user", "content": [block, {"type": "text", "text": "a"}]}]})
                usage = got["usage"]
                self.assertGreaterEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], n_tokens)
                marked = {"prompt_string": "a<__media__>b", "multimodal_data": [text64(self.picture)]}
                got = self.post("/completion", {"model": name, "prompt": marked, "n_predict": 2})
                self.assertGreaterEqual(got["tokens_evaluated"], n_tokens)

    def test_a_long_chat_with_pictures(self):
        picture = text64(self.picture)
        messages = []
        cached = []
        for turn in range(4):
            messages.append({"role": "user", "content": f"question {turn}", "images": [picture] if turn % 2 == 0 else []})
            got = self.post("/v1/chat/completions", {"model": "smolvlm", "max_tokens": 8, "temperature": 0, "messages": [
                {"role": one["role"], "content": [{"type": "text", "text": one["content"]}] +
                 [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + image}} for image in one.get("images", [])]}
                for one in messages]})
            messages.append({"role": "assistant", "content": got["choices"][0]["message"]["content"]})
            cached.append(got["usage"]["prompt_tokens_details"]["cached_tokens"])
        self.assertGreater(cached[-1], 0, cached)

    def test_long_answer_with_a_picture(self):
        for name in ("gemma3", "qwen3_vl"):
            got = self.generate(name, "a[img]b", self.picture, options={**GREEDY, "num_predict": 1500, "presence_penalty": 1.9})
            self.assertGreater(got["eval_count"], 0)

    def test_model_without_vision_refuses_by_name(self):
        error = self.post("/api/generate", {"model": "blind", "prompt": "a", "images": [text64(self.picture)]}, 400)["error"]
        self.assertIn("does not support vision", error)
        self.assertIn("blind", error)

    def test_bad_pictures(self):
        for picture, why in ((self.picture[:200], "image 1: "), (b"no picture", "image 1: "), (png(1, 400), "image 1: ")):
            error = self.post("/api/generate", {"model": "qwen2_vl", "prompt": "a", "images": [text64(picture)]}, 400)["error"]
            self.assertIn(why, error)
        self.generate("qwen2_vl", "a[img]b", self.picture)

    def test_plan_counts_pictures(self):
        for name, n_tokens in TOKENS.items():
            body = {"model": name, "prompt": "a[img]b", "raw": True, "images": [text64(self.picture)]}
            plan = self.post("/api/plan", body)
            self.assertGreaterEqual(plan["prompt_tokens"], n_tokens)
            self.assertEqual(plan["prompt_tokens"], self.post("/api/generate", {**body, "options": GREEDY})["prompt_eval_count"])


if __name__ == "__main__":
    run_cases(rest)
