"""POST /api/plan: what a request needs is what the server then uses, and nothing is loaded.

plan_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import unittest

from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
options, rest = parser.parse_known_args()

MESSAGES = [{"role": "user", "content": "Is it raining there?"}]


class Plan(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run([options.make_models, cls.folder.name], check=True, capture_output=True)
        model = sorted(pathlib.Path(cls.folder.name).glob("llama*.gguf"))[0]
        cls.server = Server(cls.folder.name, ["--threads", "1", "--memory", "1G"], options.billow)
        cls.addClassCleanup(cls.server.stop)
        cls.server.add_model("m", model, template="{{ range .Messages }}{{ .Content }} {{ end }}")

    def plan(self, **body):
        return self.server.json("POST", "/api/plan", body)

    def loaded(self):
        return self.server.json("GET", "/api/ps")["models"]

    def test_a_plan_equals_the_request_and_loads_nothing(self):
        self.server.json("POST", "/api/generate", {"model": "m", "keep_alive": 0})
        body = {"model": "m", "messages": MESSAGES, "options": {"num_predict": 5}}
        plan = self.plan(**body)
        self.assertEqual(self.loaded(), [])
        self.assertEqual((plan["model"], plan["loaded"]), ("m:latest", False))
        status, headers, text = self.server.request("POST", "/api/chat", {**body, "stream": False})
        self.assertEqual(status, 200, text)
        self.assertEqual(plan["prompt_tokens"], json.loads(text)["prompt_eval_count"])
        self.assertEqual(plan["prompt_tokens_full"], plan["prompt_tokens"])
        self.assertEqual(plan["context"], int(headers["X-Billow-Context"]))
        self.assertIn("5 asked for", plan["reason"])
        self.assertTrue(self.plan(**body)["loaded"])

    def test_the_memory_is_the_sum_of_its_parts(self):
        memory = self.plan(model="m", messages=MESSAGES)["memory"]
        self.assertEqual(memory["total_bytes"], memory["weights_bytes"] + memory["scratch_bytes"] + memory["kv_bytes"])
        self.assertEqual(memory["budget_bytes"], 1 << 30)
        self.assertTrue(memory["fits"])
        for name in ("weights_bytes", "scratch_bytes", "kv_bytes"):
            self.assertGreater(memory[name], 0, name)

    def test_a_prompt_and_a_load_can_be_planned(self):
        plan = self.plan(model="m", prompt="hello there", raw=True)
        done = self.server.json("POST", "/api/generate", {"model": "m", "prompt": "hello there", "raw": True, "stream": False,
                                                          "options": {"num_predict": 1}})
        self.assertEqual(plan["prompt_tokens"], done["prompt_eval_count"])
        load = self.plan(model="m")
        self.assertNotIn("context", load)
        self.assertEqual(load["memory"]["kv_bytes"], 0)

    def test_a_small_budget_does_not_fit(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder, ["--memory", "100K"], options.billow, variables={"OLLAMA_MODELS": str(self.server.models)})
            try:
                memory = server.json("POST", "/api/plan", {"model": "m", "messages": MESSAGES})["memory"]
            finally:
                server.stop()
        self.assertEqual((memory["fits"], memory["budget_bytes"]), (False, 102400))

    def test_wrong_requests(self):
        for body, status, words in (({"model": "none"}, 404, "model 'none' not found"), ({"messages": MESSAGES}, 400, "model is required"),
                                    ({"model": "m", "messages": 3}, 400, "messages")):
            answer = self.server.request("POST", "/api/plan", body)
            self.assertEqual(answer[0], status, answer[2])
            self.assertIn(words, answer[2].decode())
        self.assertEqual(self.server.request("GET", "/api/plan")[0], 405)


if __name__ == "__main__":
    run_cases(rest)
