"""Tests status, headers and text of the answers of Ollama's API. Each test name begins with its section of the specification of that
API. compat_cases.py has the cases that are only rows of a table.

compat_test.py --billow PROGRAM [--without-model]
"""

import datetime
import hashlib
import http.client
import json
import os
import re
import socket
import subprocess

from compat_cases import (ABSENT, COUNTING, DELETE, GET, HEAD, JSON_TYPE, POST, REFUSED, REFUSED_BY_MODEL, RENDERED, ROUTES, USER)
from compat_server import PROGRAM, CompatCase, rest, small_gguf
from run_cases import run_cases


class Compat(CompatCase):
    # 1. HTTP

    def test_refusals(self):
        self.check_refused(REFUSED)

    def test_refusals_with_a_model(self):
        self.unload()
        self.check_refused(REFUSED_BY_MODEL)
        self.assertEqual(self.running(), [], "a refused request loaded a model")

    def test_1_1_unknown_paths(self):
        for path in ABSENT:
            with self.subTest(path):
                status, headers, text = self.ask(GET, path)
                self.assertEqual(status, 404)
                if not path.startswith("/v1/"):
                    self.assertEqual((headers["Content-Type"], text), ("text/plain", b"404 page not found"))

    def test_1_1_1_2_wrong_methods(self):
        for path, allowed in ROUTES.items():
            for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
                if method in allowed.split(", "):
                    continue
                with self.subTest(path, method=method):
                    status, headers, text = self.ask(method, path, b"" if method in ("POST", "PUT", "PATCH") else None)
                    self.assertEqual((status, headers["Allow"]), (405, allowed))
                    if not path.startswith("/v1/"):
                        self.assertEqual(headers["Content-Type"], "text/plain")
                        self.assertEqual(text, b"" if method == HEAD else b"405 method not allowed")

    def test_1_1_trailing_slashes(self):
        for method, path, status, location in (
                (GET, "/api/tags/", 301, "/api/tags"), (GET, "/api/version/?a=1", 301, "/api/version?a=1"), (HEAD, "/api/tags/", 307, "/api/tags"),
                (POST, "/api/chat/", 307, "/api/chat"), (DELETE, "/api/delete/", 307, "/api/delete"), (GET, "/v1/models/", 301, "/v1/models")):
            with self.subTest(path, method=method):
                got, headers, _ = self.ask(method, path, b"" if method == POST else None)
                self.assertEqual((got, headers["Location"]), (status, location))

    def test_1_2_3_10_version_and_status(self):
        for path, kind, body in (("/", "text/plain; charset=utf-8", b"Ollama is running"), ("/api/version", JSON_TYPE, b'{"version":"0.33.0"}'),
                                 ("/api/status", JSON_TYPE, b'{"cloud":{"disabled":true,"source":"env"}}'),
                                 ("/api/experimental/model-recommendations", JSON_TYPE, b'{"recommendations":[]}')):
            status, headers, text = self.ask(GET, path)
            self.assertEqual((status, headers["Content-Type"], text), (200, kind, body), path)

    def test_1_2_head_is_get_without_a_body(self):
        for path in ("/", "/api/version", "/api/tags"):
            _, headers, text = self.ask(GET, path)
            status, others, nothing = self.ask(HEAD, path)
            self.assertEqual((status, nothing), (200, b""), path)
            for field in ("Content-Type", "Content-Length"):
                self.assertEqual(others[field], headers[field], path)
            self.assertEqual(headers["Content-Length"], str(len(text)))

    def test_1_1_answers_are_not_compressed(self):
        _, headers, text = self.ask(GET, "/api/tags", headers={"Accept-Encoding": "gzip, deflate, br, zstd"})
        self.assertIsNone(headers["Content-Encoding"])
        self.assertIn("models", json.loads(text))

    def test_1_1_body_parsing(self):
        for body, kind in ((b'{"model":"small"} trailing', None), (b' \n{"MODEL":"small"}{', "text/plain"),
                           (b'{"Name":"small","model":null,"unknown":1}', "application/x-www-form-urlencoded")):
            status, _, text = self.ask(POST, "/api/show", body, {"Content-Type": kind} if kind else {})
            self.assertEqual((status, json.loads(text)["details"]["family"]), (200, "llama"), body)

    def test_1_1_html_is_escaped(self):
        self.server.json(POST, "/api/create", {"model": "html", "from": "small", "system": "<a> & \u2028", "stream": False})
        text = self.ask(POST, "/api/show", {"model": "html"})[2]
        self.assertIn(rb'"system":"\u003ca\u003e \u0026 \u2028"', text)
        self.assertEqual(self.ask(DELETE, "/api/delete", {"model": "html"})[0], 200)

    def test_1_4_origins(self):
        methods, allow_origin = "GET,POST,PUT,PATCH,DELETE,HEAD,OPTIONS", "Access-Control-Allow-Origin"
        allowed = ("Authorization Content-Type User-Agent Accept X-Requested-With Openai-Beta X-Stainless-Lang X-Stainless-Package-Version "
                   "X-Stainless-Os X-Stainless-Arch X-Stainless-Retry-Count X-Stainless-Runtime X-Stainless-Runtime-Version "
                   "X-Stainless-Async X-Stainless-Helper-Method X-Stainless-Poll-Helper X-Stainless-Custom-Poll-Interval "
                   "X-Stainless-Timeout").split()
        for origin in ("http://localhost:3000", "https://127.0.0.1", "http://0.0.0.0:1", "app://x", "file://x", "tauri://localhost",
                       "vscode-webview://x", "vscode-file://x"):
            status, headers, text = self.ask("OPTIONS", "/api/chat", headers={"Origin": origin})
            self.assertEqual((status, text, headers[allow_origin]), (204, b"", origin))
            self.assertEqual(headers["Access-Control-Allow-Methods"], methods)
            self.assertEqual(headers["Access-Control-Allow-Headers"].split(",")[:len(allowed)], allowed)
            self.assertEqual(headers["Access-Control-Max-Age"], "43200")
            self.assertEqual(headers["Vary"], "Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
            self.assertIsNone(headers["Access-Control-Allow-Credentials"])
            status, headers, _ = self.ask(GET, "/api/tags", headers={"Origin": origin})
            self.assertEqual((status, headers[allow_origin], headers["Vary"]), (200, origin, "Origin"))
        for method in (GET, HEAD, POST, "OPTIONS", DELETE):
            for origin in ("http://example.com", "http://localhost.evil.example", "null"):
                status, headers, text = self.ask(method, "/api/tags", headers={"Origin": origin})
                self.assertEqual((status, headers[allow_origin]), (403, None), (method, origin))
                if method != HEAD:  # Ollama's body is empty
                    self.assertIn("--origins", json.loads(text)["error"], (method, origin))
        for headers in ({}, {"Host": "h.local:1", "Origin": "http://h.local:1"}, {"Host": "h.local:1", "Origin": "https://h.local:1"}):
            status, answered, _ = self.ask(GET, "/api/tags", headers=headers)
            self.assertEqual((status, answered[allow_origin], answered["Vary"]), (200, None, None), headers)

    def test_1_4_more_origins(self):
        os.environ["OLLAMA_ORIGINS"] = "http://example.com,https://*.example.org"
        self.addCleanup(os.environ.pop, "OLLAMA_ORIGINS", None)
        server = self.start()
        for origin, status in (("http://example.com", 200), ("https://a.example.org", 200), ("http://localhost", 200), ("https://example.com", 403)):
            self.assertEqual(self.ask(GET, "/api/tags", headers={"Origin": origin}, server=server)[0], status, origin)
        os.environ["OLLAMA_ORIGINS"] = "*"
        server = self.start()
        for method, status in ((GET, 200), ("OPTIONS", 204)):
            got, headers, _ = self.ask(method, "/api/tags", headers={"Origin": "http://anybody.example"}, server=server)
            self.assertEqual((got, headers["Access-Control-Allow-Origin"], headers["Vary"]), (status, "*", None))
        done = subprocess.run([PROGRAM, "serve"], env={**self.server.environment, "OLLAMA_ORIGINS": "example.com"}, capture_output=True,
                              check=False, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b'allowed origin "example.com"', done.stderr)

    def test_1_5_hosts(self):
        for host, status in (("localhost", 200), ("LOCALHOST:1", 200), ("127.0.0.1", 200), ("[::1]:1", 200), ("10.0.0.1", 200),
                             ("192.168.1.1:1", 200), ("0.0.0.0", 200), (socket.gethostname(), 200), ("a.localhost", 200), ("a.local", 200),
                             ("host.docker.internal", 200), ("a.LOCAL", 200), ("", 200), ("example.com", 403),
                             ("localhost.example.com", 403), ("8.8.8.8", 403)):
            got, _, text = self.ask(GET, "/api/version", headers={"Host": host})
            self.assertEqual(got, status, host)
            if status == 403:
                self.assertIn(host, json.loads(text)["error"])
        self.assertEqual(self.ask("OPTIONS", "/api/chat", headers={"Host": "a.local"})[::2], (204, b""))
        self.assertEqual(self.ask("OPTIONS", "/api/chat", headers={"Host": "example.com"})[0], 403)
        everywhere = self.start(host="0.0.0.0")
        self.assertEqual(self.ask(GET, "/api/version", headers={"Host": "example.com"}, server=everywhere)[0], 200)

    # 2. Inference

    def test_2_2_2_3_rendered_prompts_with_a_model(self):
        for name, path, body, text in RENDERED:
            with self.subTest(name, body=body):
                answer = self.whole(path, {"model": "all", "_debug_render_only": True, **body})
                self.assertRegex(answer.pop("created_at"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$")
                empty = {"response": ""} if path == "/api/generate" else {"message": {"role": "assistant", "content": ""}}
                self.assertEqual(answer, {"model": "all", **empty, "done": False, "_debug_info": {"rendered_template": text}})
        status, headers, text = self.ask(POST, "/api/generate", {"model": "all", "prompt": "x", "_debug_render_only": True})
        self.assertEqual((status, headers["Content-Type"], text.count(b"\n")), (200, JSON_TYPE, 0), "one object, also for a stream")

    def test_2_2_2_3_loads_and_unloads_with_a_model(self):
        for path, body, empty in (("/api/generate", {}, {"response": ""}), ("/api/generate", {"prompt": ""}, {"response": ""}),
                                  ("/api/chat", {}, {"message": {"role": "assistant", "content": ""}}),
                                  ("/api/chat", {"messages": []}, {"message": {"role": "assistant", "content": ""}})):
            for more, reason in (({}, "load"), ({"stream": True}, "load"), ({"stream": False}, "load"), ({"keep_alive": 0}, "unload"),
                                 ({"keep_alive": "0", "stream": True}, "unload"), ({"keep_alive": "0s"}, "unload")):
                with self.subTest(path, body=body, more=more):
                    status, headers, text = self.ask(POST, path, {"model": "M", **body, **more})
                    self.assertEqual((status, headers["Content-Type"]), (200, JSON_TYPE), text)
                    answer = json.loads(text)
                    self.assertRegex(answer.pop("created_at"), "Z$")
                    self.assertEqual(answer, {"model": "M", **empty, "done": True, "done_reason": reason})
        self.wait_for(lambda: self.running() == [], "the model is still loaded")
        self.assertEqual(self.whole("/api/generate", {"model": "m", "keep_alive": 0})["done_reason"], "unload", "also for a model that is not loaded")

    def test_1_1_2_2_streams_of_generate_with_a_model(self):
        parts = self.lines("/api/generate", {"model": "m", "prompt": "Hi", "options": {"num_predict": 6, "temperature": 0}})
        for part in parts[:-1]:
            self.assertEqual((list(part), part["done"]), (["model", "created_at", "response", "done"], False))
        end = parts[-1]
        self.assertEqual(list(end), ["model", "created_at", "response", "done", "done_reason", "context", "total_duration", "load_duration",
                                     "prompt_eval_count", *(["prompt_cached_count"] if "prompt_cached_count" in end else []),
                                     "prompt_eval_duration", "eval_count", "eval_duration"])
        self.assertEqual((end["model"], end["response"], end["done"], end["done_reason"], end["eval_count"]), ("m", "", True, "length", 6))
        self.assertEqual(len(end["context"]), end["prompt_eval_count"] + end["eval_count"], "the context has prompt and answer")
        for field in ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"):
            self.assertIs(type(end[field]), int, field)
            self.assertGreater(end[field], 0, field)
        self.assertGreaterEqual(end["total_duration"], end["eval_duration"])
        again = self.whole("/api/generate", {"model": "m", "prompt": "Hi", "options": {"num_predict": 6, "temperature": 0}})
        self.assertEqual(again["response"], "".join(part["response"] for part in parts))
        self.assertEqual(again["context"], end["context"])
        self.assertEqual(again["prompt_eval_count"], end["prompt_eval_count"], "the count includes cached tokens")
        raw = self.whole("/api/generate", {"model": "m", "prompt": "Hi", "raw": True, "options": {"num_predict": 1}})
        self.assertNotIn("context", raw)
        on = self.whole("/api/generate", {"model": "m", "prompt": "On", "context": end["context"], "options": {"num_predict": 1}})
        self.assertEqual(on["context"][:len(end["context"])], end["context"], "the context begins with the earlier answer")

    def test_1_1_2_3_streams_of_chat_with_a_model(self):
        parts = self.lines("/api/chat", {"model": "m", "messages": USER, "options": {"num_predict": 6, "temperature": 0}})
        for part in parts[:-1]:
            self.assertEqual((list(part), part["done"]), (["model", "created_at", "message", "done"], False))
            self.assertEqual((list(part["message"]), part["message"]["role"]), (["role", "content"], "assistant"))
        end = parts[-1]
        self.assertEqual((end["message"], end["done"], end["done_reason"]), ({"role": "assistant", "content": ""}, True, "length"))
        self.assertNotIn("context", end)
        for field in ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"):
            self.assertGreater(end[field], 0, field)
        again = self.whole("/api/chat", {"model": "m", "messages": USER, "options": {"num_predict": 6, "temperature": 0}})
        self.assertEqual(again["message"], {"role": "assistant", "content": "".join(part["message"]["content"] for part in parts)})
        self.assertTrue(again["done"])

    def test_1_1_each_json_object_is_one_http_chunk_with_a_model(self):
        body = json.dumps({"model": "m", "prompt": "Hi", "options": {"num_predict": 5}}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=120) as connection:
            connection.sendall(b"POST /api/generate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        head, rest_of_it = answer.split(b"\r\n\r\n", 1)
        self.assertIn(b"\r\nTransfer-Encoding: chunked", head)
        chunks = []
        while not rest_of_it.startswith(b"0\r\n"):
            size, rest_of_it = rest_of_it.split(b"\r\n", 1)
            n = int(size, 16)
            chunks.append(rest_of_it[:n])
            rest_of_it = rest_of_it[n + 2:]
        self.assertGreater(len(chunks), 1)
        for chunk in chunks:
            self.assertEqual((chunk.count(b"\n"), chunk[-1:]), (1, b"\n"))
            json.loads(chunk)

    def test_1_1_openai_answers_with_a_model(self):
        for path, body in (("/v1/chat/completions", {"messages": USER}), ("/v1/completions", {"prompt": "Hi"})):
            body = {"model": "m", **body, "max_tokens": 3}
            status, headers, text = self.ask(POST, path, body)
            self.assertEqual((status, headers["Content-Type"], text.count(b"\n"), text[-1:]), (200, "application/json", 1, b"\n"))
            status, headers, text = self.ask(POST, path, {**body, "stream": True})
            self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream"))
            events = text.split(b"\n\n")
            self.assertEqual(events[-2:], [b"data: [DONE]", b""])
            for event in events[:-2]:
                self.assertTrue(event.startswith(b"data: {"), event)
                json.loads(event.removeprefix(b"data: "))

    def test_1_3_names_are_trimmed_and_echoed_with_a_model(self):
        for name in (" all ", "ALL:Latest", "registry.ollama.ai/library/all", "all:local"):
            answer = self.whole("/api/generate", {"model": name, "prompt": "P", "_debug_render_only": True})
            self.assertEqual((answer["model"], answer["_debug_info"]["rendered_template"]), (name, "+[system]S[user]Q[assistant]A[user]P"))

    def test_2_1_done_reasons_with_a_model(self):
        greedy = {"model": "m", **COUNTING}
        text = self.whole("/api/generate", {**greedy, "options": {"temperature": 0, "num_predict": 20}})["response"]
        stop = text[len(text) // 2:][:4]
        ended = self.whole("/api/generate", {**greedy, "options": {"temperature": 0, "num_predict": 20, "stop": ["never there", stop]}})
        self.assertEqual((ended["response"], ended["done_reason"]), (text[:text.index(stop)], "stop"))
        nothing = self.whole("/api/generate", {**greedy, "options": {"num_predict": 0}})
        self.assertEqual((nothing["response"], nothing["done_reason"], nothing.get("eval_count")), ("", "length", None), "a count of 0 is omitted")

    def test_2_1_logprobs_with_a_model(self):
        for path, body in (("/api/generate", {"prompt": "Hi"}), ("/api/chat", {"messages": USER})):
            for top in (0, 3):
                asked = {"model": "m", **body, "logprobs": True, "top_logprobs": top, "options": {"num_predict": 10, "temperature": 0}}
                whole = self.whole(path, asked)
                self.assertEqual(len(whole["logprobs"]), whole["eval_count"], "one entry for each token")
                self.assertEqual(sum((part.get("logprobs", []) for part in self.lines(path, asked)), []), whole["logprobs"])
                for entry in whole["logprobs"]:
                    self.assertEqual(list(entry), ["token", "logprob", "bytes", *(["top_logprobs"] if top else [])])
                    self.assertLessEqual(entry["logprob"], 0)
                    if "\ufffd" not in entry["token"]:
                        self.assertEqual(bytes(entry["bytes"]), entry["token"].encode())
                    best = entry.get("top_logprobs", [])
                    self.assertEqual(len(best), top)
                    self.assertEqual([one["logprob"] for one in best], sorted((one["logprob"] for one in best), reverse=True))
                    for one in best:
                        self.assertEqual(list(one), ["token", "logprob", "bytes"])
        self.assertNotIn("logprobs", self.whole("/api/generate", {"model": "m", "prompt": "Hi", "options": {"num_predict": 2}}))

    def test_2_7_2_8_inputs_with_a_model(self):
        for more in ({}, {"input": None}, {"input": ""}, {"input": []}):
            answer = self.whole("/api/embed", {"model": "m", **more})
            self.assertEqual((answer["model"], answer["embeddings"], answer.get("prompt_eval_count")), ("m", [], None), more)
        answer = self.whole("/api/embed", {"model": "M", "input": ["one", "another text"]})
        self.assertEqual(list(answer), ["model", "embeddings", "total_duration", "load_duration", "prompt_eval_count"])
        self.assertEqual((answer["model"], len(answer["embeddings"])), ("M", 2))
        for vector in answer["embeddings"]:
            self.assertAlmostEqual(sum(value * value for value in vector), 1, places=5)
        size = len(answer["embeddings"][0])
        self.assertEqual(self.whole("/api/embed", {"model": "m", "input": "one"})["embeddings"], answer["embeddings"][:1], "in the order of the inputs")
        self.assertEqual(len(self.whole("/api/embed", {"model": "m", "input": "one", "dimensions": size + 1})["embeddings"][0]), size)
        cut = self.whole("/api/embed", {"model": "m", "input": "one", "dimensions": 8})["embeddings"][0]
        norm = sum(value * value for value in answer["embeddings"][0][:8]) ** 0.5
        for value, full in zip(cut, answer["embeddings"][0][:8], strict=True):
            self.assertAlmostEqual(value, full / norm, places=5)
        self.assertEqual(self.whole("/api/embeddings", {"model": "m", "prompt": ""}), {"embedding": []})
        self.assertEqual(list(self.whole("/api/embeddings", {"model": "m", "prompt": "one"})), ["embedding"])

    def test_2_7_2_8_reference_values_with_an_embedder(self):
        sky, grass = "why is the sky blue?", "why is the grass green?"
        one = self.whole("/api/embed", {"model": "mini", "input": sky})
        self.assertEqual(one["prompt_eval_count"], 8)
        self.assertEqual(len(one["embeddings"][0]), 384)
        for value, known in zip(one["embeddings"][0], (0.0101, -0.0018, 0.0501, 0.0469, 0.0549, 0.0086, 0.1054, -0.0259, 0.1296, 0.0320)):
            self.assertAlmostEqual(value, known, delta=5e-4)
        self.assertEqual(self.whole("/api/embed", {"model": "mini", "input": [sky, grass]})["prompt_eval_count"], 16)
        for value, known in zip(self.whole("/api/embeddings", {"model": "mini", "prompt": sky})["embedding"], (0.066, -0.0116, 0.330, 0.310)):
            self.assertAlmostEqual(value, known, delta=2e-3)
        for n in (0, 3):  # for Ollama num_ctx limits the input; here only with --num-ctx-policy cap
            whole = self.whole("/api/embed", {"model": "mini", "input": sky, "options": {"num_ctx": n}})
            self.assertEqual(whole["embeddings"], one["embeddings"])
        self.check_refused((
            ("1.3 generate without completion", POST, "/api/generate", {"model": "mini", "prompt": "x"}, 400, '"mini" does not support generate'),
            ("1.3 chat without completion", POST, "/api/chat", {"model": "mini:latest", "messages": USER}, 400,
             '"mini:latest" does not support chat')))
        status, _, text = self.ask(POST, "/api/embed", {"model": "mini", "input": ["a", "word " * 1000], "truncate": False})
        self.assertEqual(status, 400, "one bad input fails the whole request")
        self.assertIn("1002", json.loads(text)["error"])
        self.assertEqual(json.loads(self.ask(POST, "/api/show", {"model": "mini"})[2])["capabilities"], ["embedding"])

    # 3. Models

    def test_3_1_tags(self):
        models = json.loads(self.ask(GET, "/api/tags")[2])["models"]
        self.assertEqual([model["modified_at"] for model in models], sorted((model["modified_at"] for model in models), reverse=True))
        small = next(model for model in models if model["name"] == "small:latest")
        manifest = (self.server.models / "manifests/registry.ollama.ai/library/small/latest").read_bytes()
        layers = json.loads(manifest)
        self.assertRegex(small.pop("modified_at"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?\+05:30$")
        self.assertEqual(small, {
            "name": "small:latest", "model": "small:latest", "size": layers["config"]["size"] + sum(layer["size"] for layer in layers["layers"]),
            "digest": hashlib.sha256(manifest).hexdigest(), "capabilities": ["completion"],
            "details": {"parent_model": "", "format": "gguf", "family": "llama", "families": ["llama"], "parameter_size": "24",
                        "quantization_level": "Q4_K_M", "context_length": 2048, "embedding_length": 6}})
        stub = next(model for model in models if model["name"] == "stub:latest")
        self.assertEqual((stub["remote_model"], stub["remote_host"], stub["details"]["families"]), ("big", "https://ollama.com", None))
        broken = self.server.models / "manifests/registry.ollama.ai/library/broken/latest"
        broken.parent.mkdir()
        broken.write_text("{")
        names = [model["name"] for model in json.loads(self.ask(GET, "/api/tags")[2])["models"]]
        self.assertEqual(sorted(names), sorted(model["name"] for model in models), "broken manifests are omitted")
        broken.unlink()
        broken.parent.rmdir()

    def test_3_3_show(self):
        self.server.json(POST, "/api/create", {
            "model": "shown", "from": "small", "stream": False, "template": "{{ .Tools }}{{ .Prompt }}", "system": "Be brief.",
            "license": ["MIT", "Apache"], "parameters": {"stop": ["<a>", "<b>"], "temperature": 0.5, "num_ctx": 4096}, "requires": "0.14.0",
            "messages": [{"role": "user", "content": "Hi"}]})
        shown = json.loads(self.ask(POST, "/api/show", {"name": "Shown"})[2])
        self.assertRegex(shown.pop("modified_at"), r"\+05:30$")
        weights = json.loads((self.server.models / "manifests/registry.ollama.ai/library/small/latest").read_bytes())["layers"][0]["digest"]
        self.assertEqual(shown, {
            "license": "MIT\nApache",
            "modelfile": '# Modelfile generated by "ollama show"\n# To build a new Modelfile based on this, replace FROM with:\n'
                         f'# FROM shown:latest\n\nFROM {self.server.models}/blobs/{weights.replace(":", "-")}\n'
                         "TEMPLATE {{ .Tools }}{{ .Prompt }}\nSYSTEM Be brief.\nREQUIRES 0.14.0\nPARAMETER stop <a>\nPARAMETER stop <b>\n"
                         "PARAMETER temperature 0.5\nPARAMETER num_ctx 4096\nLICENSE MIT\nLICENSE Apache\nMESSAGE user Hi\n",
            "parameters": 'stop                           "<a>"\nstop                           "<b>"\n'
                          "temperature                    0.5\nnum_ctx                        4096",
            "template": "{{ .Tools }}{{ .Prompt }}", "system": "Be brief.", "requires": "0.14.0",
            "details": {"parent_model": "small:latest", "format": "gguf", "family": "llama", "families": ["llama"], "parameter_size": "24",
                        "quantization_level": "Q4_K_M", "context_length": 2048, "embedding_length": 6},
            "messages": [{"role": "user", "content": "Hi"}],
            "model_info": {"general.architecture": "llama", "general.file_type": 15, "llama.context_length": 2048,
                           "llama.embedding_length": 6, "general.parameter_count": 24},
            "tensors": [{"name": "token_embd.weight", "type": "F32", "shape": [6, 4]}], "capabilities": ["completion", "tools"]})
        other = json.loads(self.ask(POST, "/api/show", {"model": "shown", "system": "T", "options": {"temperature": 1}},
                                    {"User-Agent": "GitHubCopilotChat/0.1"})[2])
        self.assertEqual(other["model_info"]["general.basename"], "shown")
        self.assertIn("\nSYSTEM T\n", other["modelfile"])
        self.assertIn("\nPARAMETER temperature 1\n", other["modelfile"])
        self.assertEqual(other["parameters"], shown["parameters"], "options of a request appear only in the Modelfile")
        self.assertEqual(self.ask(DELETE, "/api/delete", {"model": "shown"})[0], 200)

    def test_3_3_projector(self):
        digests = {}
        for name, content in (("a.gguf", small_gguf()), ("mmproj.gguf", small_gguf("clip"))):
            digests[name] = "sha256:" + hashlib.sha256(content).hexdigest()
            self.assertIn(self.ask(POST, "/api/blobs/" + digests[name], content)[0], (200, 201))
        self.server.json(POST, "/api/create", {"model": "eyes", "files": digests, "stream": False})
        shown = json.loads(self.ask(POST, "/api/show", {"model": "eyes"})[2])
        self.assertEqual(shown["projector_info"], {"general.architecture": "clip", "general.file_type": 15, "clip.context_length": 2048,
                                                   "clip.embedding_length": 6, "general.parameter_count": 24})
        self.assertEqual(shown["model_info"]["general.architecture"], "llama")
        self.assertEqual(self.ask(DELETE, "/api/delete", {"model": "eyes"})[0], 200)

    def test_3_3_long_arrays_with_a_model(self):
        for verbose, has_tokens in ((False, False), (True, True)):
            info = json.loads(self.ask(POST, "/api/show", {"model": "m", "verbose": verbose})[2])["model_info"]
            self.assertEqual(info["tokenizer.ggml.tokens"] is not None, has_tokens)
            self.assertNotIn("general.name", info)
            self.assertNotIn("tokenizer.chat_template", info)

    def test_3_4_3_5_copy_and_delete(self):
        def names():
            return sorted(model["name"] for model in json.loads(self.ask(GET, "/api/tags")[2])["models"])

        before = names()
        library = self.server.models / "manifests/registry.ollama.ai/library"
        self.assertEqual(self.ask(POST, "/api/copy", {"source": "SMALL", "destination": "one:Tag"})[::2], (200, b""))
        self.assertEqual((library / "one/Tag").read_bytes(), (library / "small/latest").read_bytes(), "the manifest, byte for byte")
        self.server.json(POST, "/api/create", {"model": "other", "from": "small", "system": "only its own", "stream": False})
        self.assertEqual(self.ask(POST, "/api/copy", {"source": "other", "destination": "ONE:tag"})[::2], (200, b""))
        self.assertEqual(names(), sorted([*before, "one:Tag", "other:latest"]), "the existing spelling is kept, with new content")
        self.assertEqual((library / "one/Tag").read_bytes(), (library / "other/latest").read_bytes())
        own = self.server.models / "blobs" / ("sha256-" + hashlib.sha256(b"only its own").hexdigest())
        for name, is_left in (("other", True), ("One:TAG", False)):
            self.assertEqual(self.ask(DELETE, "/api/delete", {"model": name})[::2], (200, b""))
            self.assertEqual(own.exists(), is_left, "a blob is deleted with the last manifest that refers to it")
        self.assertEqual(names(), before)
        self.assertFalse((library / "one").exists(), "empty folders are removed")
        self.assertEqual(self.ask(POST, "/api/show", {"model": "small"})[0], 200)

    def test_3_6_blobs(self):
        content = b"a blob that nothing refers to"
        path = "/api/blobs/sha256:" + hashlib.sha256(content).hexdigest()
        for method, body, status in ((HEAD, None, 404), (POST, content, 201), (HEAD, None, 200), (POST, content, 200), (POST, b"other", 200)):
            got, _, text = self.ask(method, path, body)
            self.assertEqual((got, text), (status, b""), (method, body))
        self.assertEqual(self.ask(HEAD, "/api/blobs/sha256:xyz")[0], 400)
        self.assertEqual(self.ask(HEAD, path.replace("sha256:", "sha256-"))[0], 200)

    def test_3_7_3_8_progress(self):
        lines = self.lines("/api/create", {"model": "made", "from": "small", "system": "x"})
        self.assertEqual((lines[-2], lines[-1]), ({"status": "writing manifest"}, {"status": "success"}))
        for line in lines[:-2]:
            self.assertRegex(line["status"], "^(using existing|creating new) layer sha256:[0-9a-f]{64}$")
        pushed = [line["status"] for line in self.lines("/api/push", {"model": "made"})]
        self.assertEqual((pushed[0], pushed[-2:]), ("retrieving manifest", ["pushing manifest", "success"]))
        pulled = [line["status"] for line in self.lines("/api/pull", {"model": "made"})]
        self.assertEqual((pulled[0], pulled[-3:]), ("pulling manifest", ["verifying sha256 digest", "writing manifest", "success"]))
        self.assertEqual(self.whole("/api/pull", {"model": "made"}), {"status": "success"})
        self.assertEqual(self.ask(DELETE, "/api/delete", {"model": "made"})[0], 200)

    # 9. Scheduling and contexts

    def expiry(self):
        loaded, = self.running()
        self.assertRegex(loaded["expires_at"], r"\+05:30$")
        return loaded["expires_at"]

    def minutes_left(self):
        at = datetime.datetime.fromisoformat(re.sub(r"\.\d+", "", self.expiry()))
        return (at - datetime.datetime.now(datetime.timezone.utc)).total_seconds() / 60

    def test_2_1_9_2_keep_alive_with_a_model(self):
        self.unload()
        for keep_alive, minutes in ((None, 5), ("1h30m", 90), (None, 90), (7200, 120), (None, 120), ("5400s", 90), (3600.5, 60)):
            more = {} if keep_alive is None else {"keep_alive": keep_alive}
            self.whole("/api/generate", {"model": "m", **more})
            self.assertTrue(minutes - 1 < self.minutes_left() <= minutes + 0.1, (keep_alive, self.expiry()))
        this_year = datetime.datetime.now().year
        for keep_alive in (-1, "-1s"):
            self.whole("/api/generate", {"model": "m", "keep_alive": "5m"})
            self.whole("/api/generate", {"model": "m", "keep_alive": keep_alive})
            self.assertTrue(291 <= int(self.expiry()[:4]) - this_year <= 293, self.expiry())
        self.whole("/api/generate", {"model": "m", "prompt": "Hi", "keep_alive": 0, "options": {"num_predict": 1}})
        self.wait_for(lambda: self.running() == [], "the model is still loaded although idle")

    def test_3_2_9_2_9_4_ps_lists_loaded_models_with_a_model(self):
        self.unload()
        self.assertEqual(self.ask(GET, "/api/ps")[2], b'{"models":[]}')
        status, headers, _ = self.ask(POST, "/api/generate", {"model": "m", "prompt": "Hi", "options": {"num_predict": 1}})
        self.assertEqual(status, 200)
        loaded, = self.running()
        tags = next(model for model in json.loads(self.ask(GET, "/api/tags")[2])["models"] if model["name"] == "m:latest")
        self.assertEqual(list(loaded), ["name", "model", "size", "digest", "details", "expires_at", "size_vram", "context_length"])
        self.assertEqual((loaded["name"], loaded["model"], loaded["size_vram"]), ("m:latest", "m:latest", 0))
        self.assertEqual((loaded["digest"], loaded["details"]), (tags["digest"], tags["details"]))
        self.assertEqual(str(loaded["context_length"]), headers["X-Billow-Context"])
        self.assertGreater(loaded["size"], 0)

    def test_9_2_models_with_the_same_weights_share_a_runner_with_a_model(self):
        self.unload()
        self.whole("/api/generate", {"model": "m"})
        runner, = self.server.runners()
        for body in ({"model": "all"}, {"options": {"num_ctx": 2048}}, {"options": {"num_ctx": 4096}}, {},
                     {"options": {"num_batch": 64, "num_gpu": 1, "main_gpu": 1, "use_mmap": False, "num_thread": 1, "draft_num_predict": 1}},
                     {"shift": False}):
            options_of_it = {**body.pop("options", {}), "num_predict": 1}
            self.whole("/api/generate", {"model": "m", "prompt": "Hi", **body, "options": options_of_it})
            self.assertEqual(self.server.runners(), [runner], "no request reloads the model")
            self.assertEqual([model["name"] for model in self.running()], ["m:latest"], "the name that loaded it")

    def test_3_5_deleted_model_stays_loaded_with_a_model(self):
        self.unload()
        self.assertEqual(self.ask(POST, "/api/copy", {"source": "m", "destination": "gone"})[0], 200)
        self.whole("/api/generate", {"model": "gone"})
        runners = self.server.runners()
        self.assertEqual(self.ask(DELETE, "/api/delete", {"model": "gone"})[0], 200)
        self.assertEqual([model["name"] for model in self.running()], ["gone:latest"])
        self.assertEqual(self.server.runners(), runners)
        self.check_refused((("3.5 deleted", POST, "/api/generate", {"model": "gone"}, 404, "model 'gone' not found"),))
        self.whole("/api/generate", {"model": "m", "keep_alive": 0})
        self.wait_for(lambda: self.running() == [], "the model is still loaded")

    def test_1_3_9_2_unload_waits_for_answers_and_disconnects_end_them_with_a_model(self):
        self.unload()
        body = {"model": "m", **COUNTING, "options": {"temperature": 0, "num_predict": 4000}}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        connection.request(POST, "/api/generate", json.dumps(body))
        answer = connection.getresponse()
        self.assertEqual(json.loads(answer.readline())["done"], False)
        self.assertEqual(self.whole("/api/generate", {"model": "m", "keep_alive": 0})["done_reason"], "unload", "the answer comes immediately")
        self.assertLess(self.minutes_left(), 0.02, "still listed until the answer ends")
        for _ in range(20):
            self.assertEqual(json.loads(answer.readline())["done"], False, "the answer continues")
        answer.close()
        connection.close()
        self.wait_for(lambda: self.running() == [], "the model is still loaded after the client disconnected")
        short = {**body, "options": {"temperature": 0, "num_predict": 40}, "keep_alive": 0}
        end = self.lines("/api/generate", short)[-1]
        self.assertEqual((end["done"], end["eval_count"]), (True, 40))
        self.wait_for(lambda: self.running() == [], "the model is still loaded after the answer")

    def test_1_3_queued_request_is_dropped_after_disconnect_with_a_model(self):
        server = self.start("--parallel", "1")
        body = json.dumps({"model": "m", **COUNTING, "options": {"temperature": 0, "num_predict": 4000}})
        runs, waits = (http.client.HTTPConnection("127.0.0.1", server.port, timeout=120) for _ in range(2))
        runs.request(POST, "/api/generate", body)
        answer = runs.getresponse()
        answer.readline()
        waits.request(POST, "/api/generate", body, {"X-Request-Id": "leaves-the-queue"})
        self.wait_for(lambda: b"billow_requests_waiting 1" in self.ask(GET, "/metrics/load", server=server)[2], "the request is not queued")
        waits.close()
        self.wait_for(lambda: b"billow_requests_waiting 0" in self.ask(GET, "/metrics/load", server=server)[2], "the request is still queued")
        self.wait_for(lambda: re.search(r"499 POST /api/generate [^\n]*id=leaves-the-queue: request canceled", server.log.read_text()), "499")
        answer.close()
        runs.close()

    def test_1_3_9_3_too_little_memory_with_a_model(self):
        server = self.start("--memory", "64MiB")
        status, _, text = self.ask(POST, "/api/generate", {"model": "m", "prompt": "Hi"}, server=server)
        self.assertEqual(status, 500)
        self.assertRegex(json.loads(text)["error"], r"^model requires more system memory \([0-9.]+ [KMG]iB\) than is available \(64\.0 MiB\)$")
        self.assertEqual(self.running(server), [])

    def test_1_3_unusable_model_file(self):
        for path in ("/api/generate", "/api/chat"):
            status, headers, text = self.ask(POST, path, {"model": "small", "prompt": "x", "messages": USER, "stream": True})
            self.assertEqual((status, headers["Content-Type"]), (500, JSON_TYPE), "an error status, not a stream")
            self.assertEqual(list(json.loads(text)), ["error"])

    def test_9_3_max_loaded_models_with_a_model(self):
        server = self.start("--max-loaded-models", "2")
        for name, keep_alive, loaded in (("m", "1h", ["m"]), ("twin", "5m", ["m", "twin"]), ("triplet", -1, ["m", "triplet"]),
                                         ("twin", "5m", ["triplet", "twin"])):
            self.whole("/api/generate", {"model": name, "keep_alive": keep_alive}, server)
            self.assertEqual(sorted(model["name"] for model in self.running(server)), [one + ":latest" for one in loaded],
                             "the model with the shortest keep_alive is evicted")

    def test_9_5_9_6_num_ctx_is_no_limit_with_a_model(self):
        for body in ({"messages": [{"role": "user", "content": "Summarise this. " + "The cat sat on the mat again. " * 60}]},
                     {"messages": [{"role": "user", "content": "Write a story with many emoji \U0001f600\U0001f3f3\ufe0f\u200d\U0001f308."}]}):
            answer = self.whole("/api/chat", {"model": "m", **body, "options": {"num_ctx": 128, "num_predict": 16, "temperature": 0}})
            self.assertIn(answer["done_reason"], ("stop", "length"))
            self.assertNotEqual(answer["message"]["content"], "")

    def test_9_5_9_6_small_contexts_with_a_model(self):
        server = self.start("--max-context-size", "256")
        refusal = (r"^the prompt is longer than the context length currently available to the model: it has \d+ tokens, the context 256; "
                   r"shorten the prompt, adjust the context length in settings, or use a model with a longer context length "
                   r"\(prompt is too long: \d+ tokens > 256 maximum; the maximum context length is 256 tokens\)$")
        long = [{"role": "user", "content": f"number {i} " + "word " * 40} for i in range(12)]
        messages = [{"role": "system", "content": "Be brief."}, *long, {"role": "user", "content": "the last"}]
        for path, body in (("/api/chat", {"messages": messages, "truncate": False}), ("/api/chat", {"messages": messages, "shift": False}),
                           ("/api/chat", {"messages": [{"role": "user", "content": "word " * 600}]}),
                           ("/api/generate", {"prompt": "word " * 600}), ("/api/generate", {"prompt": "word " * 600, "raw": True})):
            status, headers, text = self.ask(POST, path, {"model": "m", **body}, server=server)
            self.assertEqual((status, headers["Content-Type"]), (400, JSON_TYPE), path)
            self.assertRegex(json.loads(text)["error"], refusal)
        status, headers, text = self.ask(POST, "/api/chat", {"model": "m", "messages": messages, "_debug_render_only": True}, server=server)
        self.assertEqual(status, 200)
        rendered = json.loads(text)["_debug_info"]["rendered_template"]
        self.assertTrue(rendered.startswith("<|im_start|>system\nBe brief.<|im_end|>\n"), rendered)
        self.assertTrue(rendered.endswith("the last<|im_end|>\n<|im_start|>assistant\n"), rendered)
        kept = [i for i in range(12) if f"number {i} " in rendered]
        self.assertEqual(kept, list(range(12 - len(kept), 12)), "the newest messages, each whole")
        self.assertTrue(0 < len(kept) < 12, kept)
        before, after = headers["X-Billow-Shortened"].split("->")
        self.assertTrue(int(after) <= 256 < int(before), headers["X-Billow-Shortened"])
        asked = {"model": "m", **COUNTING, "options": {"temperature": 0, "num_predict": 240}}
        on = self.whole("/api/generate", asked, server)
        self.assertEqual((on["done_reason"], on["eval_count"]), ("length", 240), "the answer continues after the context is full")
        off = self.whole("/api/generate", {**asked, "shift": False}, server)
        n_tokens = off["prompt_eval_count"] + off["eval_count"]
        self.assertEqual((off["done_reason"], n_tokens), ("length", 257), "a full context plus one token that needs no position")
        self.assertTrue(on["response"].startswith(off["response"]))


if __name__ == "__main__":
    run_cases(rest)
