"""Tests images in prompts through every API, with a fake llama-server, and with a real one if it is installed.

images_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]

The real one needs BILLOW_TEST_VISION, a folder with picture.png, and NAME.gguf and NAME.mmproj.gguf of vision models.
"""

import base64
import concurrent.futures
import json
import os
import pathlib
import struct
import subprocess
import time
import unittest
import zlib

import registry as registries
from llama_place import REAL, Place, options, rest, until
from pictures import data_url, gguf_text, png, projector, size_of, text64
from run_cases import run_cases

VISION = os.environ.get("BILLOW_TEST_VISION")
FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "image" / "fixtures"
MARKER = "<__media__>"


def with_own_projector(path, source):
    """Writes a Llama file that seems to contain a projector: more keys follow its header, in multiples of the alignment."""
    data = source.read_bytes()
    keys = gguf_text("llama.vision.block_count") + struct.pack("<II", 4, 1)
    filler = gguf_text("filler") + struct.pack("<I", 8)
    keys += filler + gguf_text("x" * (-(len(keys) + len(filler) + 8) % 32))
    n_keys = struct.unpack_from("<Q", data, 16)[0]
    path.write_bytes(data[:16] + struct.pack("<Q", n_keys + 2) + keys + data[24:])
    return path


class Seeing(Place):
    """A test case with a model that has a projector."""

    def setUp(self):
        super().setUp()
        self.serve()
        self.add_seeing("m")

    def add_seeing(self, name, **fields):
        files = {"writer.gguf": self.folder / "writer.gguf", "mmproj.gguf": projector(self.folder / "mmproj.gguf")}
        self.server.add_files(name, files, **fields)

    def post(self, path, body, status=200):
        got, _, answer = self.server.request("POST", path, {"model": "m", "stream": False, **body})
        self.assertEqual(got, status, answer)
        return json.loads(answer)

    def refused(self, path, body):
        error = self.post(path, body, 400)["error"]
        return error["message"] if isinstance(error, dict) else error

    def last_prompt(self):
        return [entry["body"]["prompt"] for entry in self.notes("body")][-1]

    def sent(self):
        """Returns the last prompt's text with "<image>" as marker, and the sizes of its images."""
        prompt = self.last_prompt()
        marker = self.server_marker()
        return (prompt["prompt_string"].replace(marker, "<image>"),
                [size_of(base64.b64decode(data)) for data in prompt["multimodal_data"]])

    def server_marker(self):
        prompt = self.last_prompt()["prompt_string"]
        begin = prompt.index("<__media_")
        return prompt[begin:prompt.index("__>", begin) + 3]


class Apis(Seeing):
    """What each API sends to llama-server."""

    def test_show_reports_vision(self):
        shown = self.post("/api/show", {})
        self.assertIn("vision", shown["capabilities"])
        self.assertEqual(shown["projector_info"]["general.architecture"], "clip")
        self.assertIn("FROM", shown["modelfile"].replace("# FROM", "", 1))
        self.assertEqual(self.server.json("GET", "/props?model=m")["modalities"], {"vision": True, "audio": False})

    def test_runner_gets_the_projector(self):
        self.post("/api/generate", {"prompt": "a", "options": {"num_predict": 1}})
        command = self.notes("command")[0]
        self.assertIn("--mmproj", command["command"])
        self.assertIn("LLAMA_MEDIA_MARKER", command["variables"])
        self.assertIsInstance(self.last_prompt(), list, "a prompt without images is sent as tokens")

    def test_ollama_generate(self):
        got = self.post("/api/generate", {"prompt": "see [img] b", "images": [text64(png(4, 3)), text64(png(6, 5))],
                                          "options": {"num_predict": 2}})
        text, sizes = self.sent()
        self.assertIn("<image>see <image> b", text)
        self.assertEqual(sizes, [(6, 5), (4, 3)], "the second one has no place, so it is before the text")
        self.assertEqual(got["prompt_eval_count"], len(text.replace("<image>", "")) + 2 * 20, "llama-server's count of tokens")

    def test_ollama_chat_with_history_and_results_of_tools(self):
        self.post("/api/chat", {"options": {"num_predict": 2}, "messages": [
            {"role": "user", "content": "a", "images": [text64(png(4, 3))]},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c", "images": [text64(png(5, 3)), text64(png(6, 3))]}]})
        text, sizes = self.sent()
        self.assertEqual(sizes, [(4, 3), (5, 3), (6, 3)])
        self.assertLess(text.index("<image>a"), text.index("<image><image>c"))
        self.post("/api/chat", {"options": {"num_predict": 2}, "messages": [
            {"role": "user", "content": "a"}, {"role": "tool", "tool_name": "look", "content": "seen", "images": [text64(png(7, 3))]}]})
        self.assertEqual(self.sent()[1], [(7, 3)])

    def test_openai_chat(self):
        for part in ({"type": "image_url", "image_url": {"url": data_url(png(4, 3))}}, {"type": "image_url", "image_url": data_url(png(4, 3))}):
            got = self.post("/v1/chat/completions", {"max_tokens": 2, "messages": [
                {"role": "user", "content": [{"type": "text", "text": "a"}, part, {"type": "text", "text": "b"}]}]})
            text, sizes = self.sent()
            self.assertIn("a<image>b", text)
            self.assertEqual(sizes, [(4, 3)])
            self.assertEqual(got["usage"]["prompt_tokens"], len(text.replace("<image>", "")) + 20)

    def test_openai_responses(self):
        self.post("/v1/responses", {"max_output_tokens": 2, "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": data_url(png(4, 3))}]},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_image", "image_url": data_url(png(5, 3))}]}]})
        self.assertEqual(self.sent()[1], [(4, 3), (5, 3)])

    def test_anthropic(self):
        def block(data):
            return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text64(data)}}
        self.post("/v1/messages", {"max_tokens": 2, "messages": [
            {"role": "user", "content": [block(png(4, 3)), {"type": "text", "text": "a"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [block(png(5, 3)), {"type": "text", "text": "b"}]}]}]})
        text, sizes = self.sent()
        self.assertEqual(sizes, [(4, 3), (5, 3)])
        self.assertIn("<image>a", text)
        self.assertIn("<image>b", text)

    def test_completion_route_of_llama_server(self):
        got = self.post("/completion", {"prompt": {"prompt_string": f"a{MARKER}b", "multimodal_data": [text64(png(4, 3))]}, "n_predict": 2})
        self.assertEqual(self.sent(), ("a<image>b", [(4, 3)]))
        self.assertEqual(got["tokens_evaluated"], 22)
        self.assertEqual(self.server.json("GET", "/props?model=m")["media_marker"], MARKER)

    def test_every_picture_format_arrives_as_png(self):
        for name, size in (("lossy.webp", (19, 13)), ("plain.jpg", (19, 13)), ("turned6.jpg", (13, 19)), ("animated.gif", (19, 13)),
                           ("rgba.bmp", (19, 13)), ("cmyk.jpg", (19, 13)), ("palette_clear.png", (19, 13))):
            self.post("/api/generate", {"prompt": "a", "images": [text64((FIXTURES / name).read_bytes())], "options": {"num_predict": 1}})
            self.assertEqual(self.sent()[1], [size], name)

    def test_debug_render_marks_images(self):
        got = self.post("/api/generate", {"prompt": "a", "images": [text64(png(4, 3))], "_debug_render_only": True})
        self.assertIn("[img-0]a", got["_debug_info"]["rendered_template"])
        self.assertEqual(got["_debug_info"]["image_count"], 1)

    def test_run_command_adds_pictures(self):
        (self.folder / "photo.png").write_bytes(png(8, 3))
        done = subprocess.run([options.billow, "run", "m", "What is in ./photo.png ?"], cwd=self.folder, capture_output=True, timeout=120,
                              env={**os.environ, "OLLAMA_HOST": self.server.url}, stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"Added image './photo.png'", done.stderr)
        self.assertEqual(self.sent()[1], [(8, 3)])


class Refusals(Seeing):
    """Refused requests, and the names in their errors."""

    def test_models_without_vision(self):
        self.add("blind")
        self.assertEqual(self.refused("/api/generate", {"model": "blind", "prompt": "a", "images": [text64(png(4, 3))]}),
                         "registry.ollama.ai/library/blind:latest does not support vision")
        self.add_seeing("own", parameters={"engine": "billow"})
        self.assertEqual(self.refused("/api/generate", {"model": "own", "prompt": "a", "images": [text64(png(4, 3))]}),
                         "images are not supported yet: own:latest runs on text alone")
        self.assertEqual(self.post("/api/generate", {"model": "own", "prompt": "7", "options": {"num_predict": 1}})["eval_count"], 1)

    def test_projector_inside_the_model_file(self):
        path = with_own_projector(self.folder / "inside.gguf", self.folder / "writer.gguf")
        for engine in ("billow", "llama"):
            self.add("inside-" + engine, path, parameters={"engine": engine})
            self.assertIn("vision", self.post("/api/show", {"model": "inside-" + engine})["capabilities"])
            self.assertEqual(self.refused("/api/generate", {"model": "inside-" + engine, "prompt": "a", "images": [text64(png(4, 3))]}),
                             f"images are not supported yet: inside-{engine}:latest runs on text alone")
            self.assertEqual(self.post("/api/generate", {"model": "inside-" + engine, "prompt": "7", "options": {"num_predict": 1}})["eval_count"], 1)

    def test_invalid_pictures(self):
        bomb = bytearray(png(1, 1))
        bomb[16:24] = struct.pack(">II", 50_000, 50_000)
        bomb[29:33] = struct.pack(">I", zlib.crc32(bomb[12:29]))
        for data, why in ((b"hello", "image 1: the picture format is unknown; use PNG, JPEG, WebP, GIF or BMP"),
                          (png(4, 3)[:40], "image 1: the PNG picture cannot be read: its data ends too early"),
                          (bytes(bomb), "image 1: the PNG picture has 50000 x 50000 pixels, more than 50000000: reduce its size"),
                          (png(300, 1), "image 1: the picture has 300 x 1 pixels: one side is more than 200 times as long as the other")):
            self.assertEqual(self.refused("/api/generate", {"prompt": "a", "images": [text64(data)]}), why)
            self.assertEqual(self.refused("/v1/chat/completions", {"messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": data_url(data)}]}]}), why)
        self.assertEqual(self.notes("body"), [], "a refused picture reached llama-server")

    def test_image_urls(self):
        for url in ("http://127.0.0.1/a.png", "https://example.org/a.png"):
            self.assertIn("image URLs are not currently supported", self.refused("/v1/chat/completions", {"messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]}))

    def test_templates_without_place_for_images(self):
        self.assertIn("has no place for image 1", self.refused("/api/generate", {
            "prompt": "a", "images": [text64(png(4, 3))], "template": "nothing"}))
        self.assertEqual(self.refused("/api/generate", {"prompt": "a", "suffix": "b", "images": [text64(png(4, 3))],
                                                        "template": "{{ .Prompt }}{{ .Suffix }}"}).splitlines()[-1][:50],
                         "registry.ollama.ai/library/m:latest does not suppo")


@unittest.skipUnless(pathlib.Path(registries.PROGRAM).exists(), "docker-registry is not installed")
class Pulled(Seeing):
    """A model with a projector from a registry."""

    def test_runner_gets_pulled_projector(self):
        registry = registries.Registry(self.folder / "registry")
        self.addCleanup(registry.stop)
        name = registry.host + "/me/m"
        self.assertEqual(self.server.request("POST", "/api/copy", {"source": "m", "destination": name})[0], 200)
        self.post("/api/push", {"model": name, "insecure": True})
        for one in ("m", name):
            self.assertEqual(self.server.request("DELETE", "/api/delete", {"model": one})[0], 200)
        self.assertEqual(list(self.server.models.glob("blobs/sha256-*")), [])
        self.post("/api/pull", {"model": name, "insecure": True})
        self.post("/api/generate", {"model": name, "prompt": "a", "images": [text64(png(4, 3))], "options": {"num_predict": 1}})
        self.assertEqual(self.sent()[1], [(4, 3)])
        command = self.notes("command")[-1]["command"]
        sent = pathlib.Path(command[command.index("--mmproj") + 1])
        self.assertEqual(sent.read_bytes(), (self.folder / "mmproj.gguf").read_bytes())
        self.assertEqual(sent.parent, self.server.models / "blobs")


class Sizes(Seeing):
    """How images count as positions, and what happens when the context is full."""

    def test_more_rows_than_expected(self):
        self.plan(image_rows=3000)
        got = self.post("/api/generate", {"prompt": "abc", "raw": True, "images": [text64(png(4, 3))], "options": {"num_predict": 40}})
        self.assertEqual(got["prompt_eval_count"], 3003)
        self.assertEqual(got["eval_count"], 40)

    def test_more_rows_than_the_context(self):
        self.plan(image_rows=1_000_000)
        status, _, body = self.server.request("POST", "/api/generate", {
            "model": "m", "prompt": "abc", "raw": True, "images": [text64(png(4, 3))], "stream": False})
        self.assertGreaterEqual(status, 400, body)
        self.assertIn(b"tokens with its images", body)
        self.plan()
        self.post("/api/generate", {"prompt": "abc", "options": {"num_predict": 2}})

    def test_growing_answer_keeps_its_images(self):
        got = self.post("/api/generate", {"prompt": "abc", "raw": True, "images": [text64(png(4, 3))], "options": {"num_predict": 2000}})
        self.assertEqual(got["eval_count"], 2000)
        prompts = [entry["body"]["prompt"] for entry in self.notes("body")]
        self.assertGreater(len(prompts), 1, "the context did not grow")
        for before, after in zip(prompts, prompts[1:]):
            self.assertTrue(after["prompt_string"].startswith(before["prompt_string"]))
            self.assertEqual(after["multimodal_data"], prompts[0]["multimodal_data"])
        self.assertEqual(got["prompt_eval_count"], 23)

    def test_messages_are_left_out_with_their_images(self):
        self.add_seeing("small", parameters={"num_ctx": 256})
        self.server.stop()
        self.serve("--num-ctx-policy", "cap")
        words = "abcdefgh " * 8
        messages = [{"role": role, "content": words, **({"images": [text64(png(4 + i, 3))]} if role == "user" else {})}
                    for i in range(6) for role in ("user", "assistant")][:-1]
        self.post("/api/chat", {"model": "small", "messages": messages, "options": {"num_predict": 2, "num_ctx": 256}})
        text, sizes = self.sent()
        self.assertLess(len(sizes), 6)
        self.assertEqual(sizes[-1], (9, 3))
        self.assertEqual(sizes, [(4 + i, 3) for i in range(10 - len(sizes) - 4, 6)], "the latest ones")
        self.assertEqual(text.count("<image>"), len(sizes))

    def test_marker_in_text_stays_text(self):
        self.plan(omits_marker=True)
        self.post("/api/generate", {"prompt": f"a {MARKER} b", "raw": True, "images": [text64(png(4, 3))], "options": {"num_predict": 2}})
        self.assertEqual(self.last_prompt()["prompt_string"], f"{MARKER}a < __media__> b")

    def test_many_parallel_requests(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda n: self.post("/api/generate", {
                "prompt": "a" * (n + 1), "raw": True, "images": [text64(png(4, 3, n))] * (n % 3 + 1), "options": {"num_predict": 20}}), range(16)))
        self.assertEqual([got["prompt_eval_count"] for got in results], [n + 1 + 20 * (n % 3 + 1) for n in range(16)])


class Direct:
    """A llama-server without Billow."""

    def __init__(self, folder, model, mmproj):
        self.socket = str(folder / f"{mmproj.name}.sock")
        self.log = (folder / "direct.log").open("wb")
        self.process = subprocess.Popen([
            REAL, "--model", str(model), "--mmproj", str(mmproj), "--host", self.socket, "--ctx-size", "4096", "--parallel", "1",
            "--kv-unified", "--batch-size", "512", "--ubatch-size", "512", "--cache-type-k", "f16", "--cache-type-v", "f16", "--threads", "1",
            "--no-jinja", "--chat-template", "chatml", "--offline", "--no-webui"], stdout=self.log, stderr=self.log)
        until(lambda: self.ask("/health") == {"status": "ok"}, "llama-server does not start")
        self.marker = self.ask("/props")["media_marker"]

    def ask(self, path, body=None):
        command = ["curl", "-s", "--unix-socket", self.socket, "http://localhost" + path] + (["-d", "@-"] if body else [])
        done = subprocess.run(command, input=json.dumps(body).encode() if body else None, capture_output=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 and done.stdout else None

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


@unittest.skipUnless(REAL and VISION, "set BILLOW_TEST_VISION, and BILLOW_TEST_LLAMA_SERVER or install llama.cpp")
class Real(Place):
    """Compares the text with that of llama-server itself."""

    N = 8

    def same(self, name):
        folder = pathlib.Path(VISION)
        model, mmproj = folder / f"{name}.gguf", folder / f"{name}.mmproj.gguf"
        self.server.add_files(name, {"model.gguf": model, "mmproj.gguf": mmproj}, template="{{ .Prompt }}")
        direct = Direct(self.folder, model, mmproj)
        picture = (folder / "picture.png").read_bytes()
        webp = (FIXTURES / "lossless.webp").read_bytes()
        try:
            self.compare(name, direct, picture, webp)
        finally:
            direct.stop()

    def compare(self, name, direct, picture, webp):
        for images, sent in (([picture], [picture]), ([picture, webp], [picture, (FIXTURES / "rgb.png").read_bytes()])):
            text = "Hello" + "".join(f"[img-{i}]" for i in range(len(images))) + " what is this"
            marked = text
            for i in range(len(images)):
                marked = marked.replace(f"[img-{i}]", direct.marker)
            wanted = direct.ask("/completion", {
                "prompt": {"prompt_string": marked, "multimodal_data": [text64(data) for data in sent]}, "n_predict": self.N, "temperature": 0,
                "top_k": 1, "repeat_penalty": 1.0})
            status, _, body = self.server.request("POST", "/api/generate", {
                "model": name, "prompt": text, "raw": True, "stream": False, "images": [text64(data) for data in images],
                "options": {"temperature": 0, "num_predict": self.N, "seed": 1, "repeat_penalty": 1.0, "top_k": 1}})
            got = json.loads(body)
            with self.subTest(model=name, images=len(images)):
                if "error" in wanted:  # the vocabulary lacks the tokens around a picture
                    self.assertIn(wanted["error"]["message"], got["error"])
                    continue
                self.assertEqual(status, 200, body)
                self.assertEqual(got["prompt_eval_count"], wanted["tokens_evaluated"])
                # Models with random weights write invalid UTF-8, which a stream cannot show.
                self.assertEqual(got["response"].split("\ufffd")[0], wanted["content"].split("\ufffd")[0])
                if "\ufffd" not in wanted["content"]:
                    self.assertEqual(got["eval_count"], wanted["tokens_predicted"])

    def test_same_text_for_each_model(self):
        self.serve(program=REAL)
        for path in sorted(pathlib.Path(VISION).glob(os.environ.get("BILLOW_TEST_VISION_ONLY", "*") + ".mmproj.gguf")):
            begin = time.monotonic()
            self.same(path.name.removesuffix(".mmproj.gguf"))
            print(path.name, f"{time.monotonic() - begin:.1f} s", flush=True)

    def test_history_and_growth(self):
        self.serve(program=REAL)
        folder = pathlib.Path(VISION)
        self.server.add_files("see", {"m.gguf": folder / "gemma3.gguf", "mmproj.gguf": folder / "gemma3.mmproj.gguf"})
        picture = text64((folder / "picture.png").read_bytes())
        got = self.server.json("POST", "/api/chat", {"model": "see", "stream": False, "options": {"temperature": 0, "presence_penalty": 90, "repeat_last_n": 64, "num_predict": 600}, "messages": [
            {"role": "user", "content": "a", "images": [picture]}, {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c", "images": [picture, picture]}]})
        self.assertGreater(got["eval_count"], 300)
        self.assertGreater(got["prompt_eval_count"], 3 * 16)


if __name__ == "__main__":
    run_cases(rest)
