"""Tests /api/show, /api/ps and the counts of an answer. compat_server.py provides the server. Each test name begins with its section of
the specification.

compat_model_test.py --billow PROGRAM [--without-model]
"""

import json

from compat_cases import DELETE, GET, POST
from compat_server import CompatCase, rest
from run_cases import run_cases


class CompatModel(CompatCase):
    def test_3_3_show_reports_the_used_template(self):
        def show(model):
            return json.loads(self.ask(POST, "/api/show", {"model": model})[2])

        shown = show("small")
        self.assertEqual(shown["template"], "{{ .Prompt }}", "the model has no template")
        self.assertIn("\nTEMPLATE {{ .Prompt }}\n", shown["modelfile"])
        self.server.wait_for_log("small: the model has no chat template")

    def test_8_given_template_has_priority_with_a_model(self):
        def show(model):
            return json.loads(self.ask(POST, "/api/show", {"model": model})[2])

        self.assertIn("<|im_start|>", show("m")["template"])
        self.server.json(POST, "/api/create", {"model": "given", "from": "m", "template": "<{{ .Prompt }}>", "stream": False})
        self.server.json(POST, "/api/create", {"model": "heir", "from": "given", "system": "S", "stream": False})
        for model in ("given", "heir"):
            self.assertEqual(show(model)["template"], "<{{ .Prompt }}>")
            for path, body in (("/api/generate", {"prompt": "P"}), ("/api/chat", {"messages": [{"role": "user", "content": "P"}]})):
                answer = self.whole(path, {"model": model, **body, "_debug_render_only": True})
                self.assertEqual(answer["_debug_info"]["rendered_template"], "<P>", path)
            self.assertEqual(self.ask(DELETE, "/api/delete", {"model": model})[0], 200)

    def test_3_2_running_model_stays_after_deletion_with_a_model(self):
        self.unload()
        self.server.json(POST, "/api/create", {"model": "gone", "from": "twin", "system": "S", "stream": False})
        tags = json.loads(self.ask(GET, "/api/tags")[2])["models"]
        gone = next(model for model in tags if model["name"] == "gone:latest")
        self.whole("/api/generate", {"model": "gone", "keep_alive": -1})
        self.server.json(POST, "/api/create", {"model": "gone", "from": "twin", "system": "Another.", "stream": False})
        for _ in ("replaced", "deleted"):
            loaded, = self.running()
            self.assertEqual((loaded["name"], loaded["digest"]), ("gone:latest", gone["digest"]))
            self.assertEqual(loaded["details"], gone["details"])
            self.ask(DELETE, "/api/delete", {"model": "gone"})
        self.whole("/api/generate", {"model": "twin", "keep_alive": 0})
        self.wait_for(lambda: self.running() == [], "the model is not unloaded by a remaining name")

    def test_2_1_eval_count_includes_the_end_token_with_a_model(self):
        greedy = {"temperature": 0, "num_predict": 200}
        body = {"model": "m", "prompt": "What is 1+1? Answer with one word.", "logprobs": True, "options": greedy}
        end = self.whole("/api/generate", body)
        self.assertEqual((end["done_reason"], end["eval_count"]), ("stop", len(end["logprobs"]) + 1))
        self.assertEqual(len(end["context"]), end["prompt_eval_count"] + end["eval_count"] - 1, "the end token is not part of the context")
        _, _, text = self.ask(POST, "/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": body["prompt"]}],
                                                             "temperature": 0, "top_p": 0.9, "max_tokens": 200})
        self.assertEqual(json.loads(text)["usage"]["completion_tokens"], end["eval_count"])


if __name__ == "__main__":
    run_cases(rest)
