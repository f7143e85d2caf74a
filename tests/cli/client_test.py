"""The commands that talk to a server, with a fake server: their requests, output and exit status."""
import hashlib
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

from client_case import DIGEST, ClientCase
from program import ARGS, billow, main
from terminal import Job

SHOWN = {"details": {"family": "llama", "parameter_size": "1.2B", "quantization_level": "Q8_0"}, "model_info": {},
         "capabilities": ["completion"], "license": "MIT", "modelfile": "FROM x", "parameters": 'stop  "<s>"',
         "system": "Be kind.", "template": "{{ .Messages }}"}
LAST = {"response": "", "done": True, "done_reason": "stop", "total_duration": 51000000, "eval_count": 2,
        "eval_duration": 20000000}


def generated(*pieces):
    return [{"response": piece, "done": False} for piece in pieces] + [LAST]


def chatted(*pieces):
    chunks = [{"message": {"role": "assistant", "content": piece}, "done": False} for piece in pieces]
    return chunks + [{"message": {"role": "assistant", "content": ""}, "done": True, "eval_count": 2}]


class Management(ClientCase):
    def test_list_filters_by_prefix(self):
        self.answer(GET_api_tags={"models": [
            {"name": "llama3.2:1b", "size": 1321098329, "digest": DIGEST, "modified_at": "2020-01-02T03:04:05+01:00"},
            {"name": "other:latest", "size": 512, "digest": DIGEST, "modified_at": "2020-01-02T03:04:05Z"}]})
        lines = self.ok("list").splitlines()
        self.assertRegex(lines[0], r"^NAME            ID              SIZE      MODIFIED +$")
        self.assertRegex(lines[1], r"^llama3.2:1b     baf6a787fdff    1.3 GB    \d+ years ago    $")
        self.assertRegex(lines[2], r"^other:latest    baf6a787fdff    512 B     \d+ years ago    $")
        self.assertEqual(len(self.ok("ls", "LLAMA").splitlines()), 2)

    def test_ps_shows_where_models_are(self):
        self.answer(GET_api_ps={"models": [{"name": "m:latest", "size": 2500000000, "size_vram": 0, "digest": DIGEST,
                                            "context_length": 4096, "expires_at": "2318-01-02T03:04:05Z"}]})
        self.assertRegex(self.ok("ps"), r"m:latest    baf6a787fdff    2.5 GB    100% CPU     4096       Forever    \n$")

    def test_show_prints_the_overview_or_one_field(self):
        self.answer(POST_api_show=SHOWN)
        text = self.ok("show", "m")
        self.assertTrue(text.startswith("  Model\n    architecture    llama    \n"), text)
        self.assertIn("  System\n    Be kind.    \n\n  License\n    MIT    \n", text)
        for field, printed in (("license", "MIT\n"), ("modelfile", "FROM x\n"), ("parameters", 'stop  "<s>"\n'),
                               ("system", "Be kind."), ("template", "{{ .Messages }}")):
            self.assertEqual(self.ok("show", "m", f"--{field}"), printed)
        self.ok("show", "-v", "m")
        self.assertEqual(self.asked("/api/show")[-1], {"model": "m", "verbose": True})
        self.refused("billow: error: only one of '--license', '--modelfile', '--parameters', '--system', or '--template' can be "
                     "specified. See 'billow show --help'.\n", "show", "m", "--license", "--system", status=2)

    def test_cp_rm_and_stop_report_what_they_did(self):
        self.answer(POST_api_copy=(200, b""), DELETE_api_delete=(200, b""), POST_api_generate={"done": True})
        self.assertEqual(self.ok("cp", "a", "b"), "copied 'a' to 'b'\n")
        self.assertEqual(self.ok("rm", "a", "b"), "deleted 'a'\ndeleted 'b'\n")
        self.assertEqual(self.ok("stop", "a"), "")
        unload = {"model": "a", "keep_alive": 0}
        self.assertEqual([(method, body) for method, _, body in self.server.asked],
                         [("POST", {"source": "a", "destination": "b"}), ("POST", unload), ("DELETE", {"model": "a"}),
                          ("POST", {"model": "b", "keep_alive": 0}), ("DELETE", {"model": "b"}), ("POST", unload)])

    def test_errors_are_the_messages_of_the_server(self):
        missing = (404, {"error": "model 'x' not found"})
        self.answer(POST_api_copy=missing, DELETE_api_delete=missing, POST_api_generate=missing, POST_api_show=missing)
        self.refused("billow: error: model 'x' not found\n", "cp", "x", "y")
        self.refused("billow: error: model 'x' not found\n", "rm", "x", "y")
        self.refused("billow: error: couldn't find model \"x\" to stop\n", "stop", "x")
        self.refused("billow: error: model 'x' not found\n", "show", "x")
        self.answer(POST_api_generate=(500, {"error": "oh"}), GET_api_tags=(500, b"plain text"), GET_api_ps=(502, b""))
        self.refused("Warning: unable to stop model 'x'\nbillow: error: model 'x' not found\n", "rm", "x")
        self.refused("billow: error: oh\n", "stop", "x")
        self.refused("billow: error: plain text\n", "list")
        self.refused("billow: error: 502 Bad Gateway\n", "ps")

    def test_a_server_that_is_not_running(self):
        self.env["OLLAMA_HOST"] = "127.0.0.1:1"
        words = "billow: error: could not connect to billow server, run 'billow serve' to start it\n"
        for command in (["list"], ["ps"], ["run", "m", "hi"], ["rm", "m"]):
            self.refused(words, *command)
        self.env["OLLAMA_HOST"] = "https://127.0.0.1:1"
        self.assertIn(b"does not support https", billow("list", env=self.env).stderr)

    def test_billow_host_overrides_ollama_host_and_may_have_a_path(self):
        self.env |= {"OLLAMA_HOST": "127.0.0.1:1", "BILLOW_HOST": f"http://{self.server.host}/below"}
        self.server.answers |= {"HEAD /below/": (200, b""), "GET /below/api/tags": {"models": []}}
        self.assertEqual(self.ok("list"), "NAME    ID    SIZE    MODIFIED \n")

    def test_wrong_usage(self):
        def wrong(message, command, *arguments):
            self.refused(f"billow: error: {message} See 'billow {command} --help'.\n", command, *arguments, status=2)

        wrong("1 argument is needed, 0 given: billow show MODEL.", "show")
        wrong("2 arguments are needed, 3 given: billow cp SOURCE DESTINATION.", "cp", "a", "b", "c")
        wrong("at least 1 argument is needed, 0 given: billow rm MODEL [MODEL...].", "rm")
        wrong("at least 1 argument is needed, 0 given: billow run MODEL [PROMPT...].", "run")
        wrong("at most 1 argument is allowed, 2 given: billow list [PREFIX].", "list", "a", "b")
        wrong("unknown option '--formt'; did you mean '--format'?", "run", "--formt=1", "m")
        wrong("unknown option '-x'.", "list", "-x")

    def test_help_ends_with_the_environment_variables(self):
        for command in ("run", "create", "show", "list", "ps", "cp", "rm", "stop"):
            text = self.ok(command, "--help")
            self.assertRegex(text, r"\nEnvironment Variables:\n(      [A-Z_]+ +\S.*\n)+$")
            self.assertIn(f"      {'OLLAMA_HOST':<27}", text)


class Create(ClientCase):
    def setUp(self):
        super().setUp()
        self.answer(POST_api_create=[{"status": "parsing GGUF"}, {"status": "success"}])
        self.weights = b"GGUF" + bytes(300000)
        self.digest = "sha256:" + hashlib.sha256(self.weights).hexdigest()
        (self.dir / "w.gguf").write_bytes(self.weights)

    def create(self, *args, **kwargs):
        return subprocess.run([ARGS.billow, "create", *args], cwd=self.dir, env=dict(os.environ, **self.env),
                              capture_output=True, timeout=60, **kwargs)

    def test_sends_files_that_the_server_does_not_have(self):
        blob = f"/api/blobs/{self.digest}"
        self.server.answers[f"POST {blob}"] = (201, b"")
        (self.dir / "sub").mkdir()
        (self.dir / "sub" / "F").write_text("FROM ../w.gguf\nPARAMETER temperature 1\n")
        done = self.create("m", "-f", "sub/F", "-q", "q8_0")
        self.assertEqual((done.returncode, done.stdout), (0, b""), done.stderr)
        self.assertEqual(done.stderr.decode(), "gathering model components\nhashing w.gguf 100%\n"
                                               f"copying file {self.digest} 100%\nparsing GGUF\nsuccess\n")
        self.assertEqual([(method, path) for method, path, _ in self.server.asked],
                         [("HEAD", blob), ("POST", blob), ("POST", "/api/create"), ("POST", "/api/show")])
        self.assertEqual(self.asked(blob)[-1], self.weights)
        self.assertEqual(self.asked("/api/create"), [{"model": "m", "parameters": {"temperature": 1},
                                                      "files": {"w.gguf": self.digest}, "quantize": "q8_0"}])

    def test_sends_a_file_again_that_another_creation_removed(self):
        blob = f"/api/blobs/{self.digest}"
        there = iter([(200, b""), (404, b"")])  # found at first, and removed before the creation
        gone = f"w.gguf: blob {self.digest} does not exist; upload it first"
        replies = iter([(404, {"error": gone}), [{"status": "success"}]])
        self.server.answers[f"HEAD {blob}"] = lambda _: next(there)
        self.server.answers[f"POST {blob}"] = (201, b"")
        self.answer(POST_api_create=lambda _: next(replies))
        (self.dir / "F").write_text("FROM ./w.gguf\n")
        done = self.create("m", "-f", "F")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(method, path) for method, path, _ in self.server.asked],
                         [("HEAD", blob), ("POST", "/api/create"), ("HEAD", blob), ("POST", blob),
                          ("POST", "/api/create"), ("POST", "/api/show")])

    def test_sends_a_file_again_if_the_stream_says_that_it_is_gone(self):
        blob = f"/api/blobs/{self.digest}"
        gone = f"w.gguf: blob {self.digest} does not exist; upload it first"
        replies = iter([[{"status": "parsing GGUF"}, {"error": gone}], [{"status": "parsing GGUF"}, {"status": "success"}]])
        self.server.answers[f"HEAD {blob}"] = (200, b"")
        self.answer(POST_api_create=lambda _: next(replies))
        (self.dir / "F").write_text("FROM ./w.gguf\n")
        done = self.create("m", "-f", "F")
        self.assertEqual((done.returncode, len(self.asked("/api/create"))), (0, 2), done.stderr)
        # Other errors are final, and a file that is always gone is one after three attempts.
        for error, n_asked in ((f"blob {self.digest} does not exist", 1), (gone, 3)):
            self.server.asked.clear()
            self.answer(POST_api_create=[{"status": "parsing GGUF"}, {"error": error}])
            done = self.create("m", "-f", "F")
            self.assertEqual((done.returncode, len(self.asked("/api/create"))), (1, n_asked), done.stderr)
            self.assertTrue(done.stderr.decode().endswith(f"billow: error: {error}\n"), done.stderr)

    def test_replacing_a_file_after_it_was_hashed_is_an_error(self):
        (self.dir / "Modelfile").write_text("FROM ./w.gguf\n")
        path = self.dir / "w.gguf"
        for replace, words in ((lambda: os.mkfifo(path), "w.gguf is not a regular file"), (path.mkdir, "w.gguf is a directory"),
                               (lambda: None, "w.gguf: No such file or directory")):
            def replaced(_body, replace=replace):
                path.unlink()
                replace()
                return 404, b""

            path.write_bytes(self.weights)
            self.server.answers[f"HEAD /api/blobs/{self.digest}"] = replaced
            done = self.create("m")
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr.decode().splitlines()[-1])
            self.assertEqual(self.asked("/api/create"), [])

    def test_reads_a_folder_without_modelfile_and_standard_input(self):
        self.server.answers[f"HEAD /api/blobs/{self.digest}"] = (200, b"")
        self.assertEqual(self.create("m").returncode, 0)
        self.assertEqual(self.create("m", "-f", "-", input=b"FROM base\nSYSTEM hi").returncode, 0)
        self.assertEqual(self.asked("/api/create"), [{"model": "m", "files": {"w.gguf": self.digest}},
                                                     {"model": "m", "from": "base", "system": "hi"}])

    def test_sends_a_folder_of_safetensors_with_its_descriptions(self):
        files = {"model.safetensors": b"weights", "config.json": b"{}", "tokenizer.json": b"[]", "vocab.txt": b"a",
                 "1_Pooling/config.json": b"{ }", "modules.json": b"[ ]", "README.md": b"# Model"}
        folder = self.dir / "source"
        (folder / "1_Pooling").mkdir(parents=True)
        for name, content in (files | {"NOTES.md": b"no", "model.onnx": b"no"}).items():
            (folder / name).write_bytes(content)
        digests = {name: "sha256:" + hashlib.sha256(content).hexdigest() for name, content in files.items()}
        for digest in digests.values():
            self.server.answers[f"HEAD /api/blobs/{digest}"] = (200, b"")
        (self.dir / "Modelfile").write_text("FROM ./source\n")
        self.answer(POST_api_create=[{"status": "converting model"},
                                     {"status": "converting model", "digest": "0", "total": 4, "completed": 4},
                                     {"status": "success"}])
        done = self.create("m", "-q", "f32")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"\nconverting model\nconverting model 100%\nsuccess\n", done.stderr)
        self.assertEqual(self.asked("/api/create"), [{"model": "m", "files": digests, "quantize": "f32"}])

    def test_warns_if_the_model_has_no_chat_template(self):
        (self.dir / "Modelfile").write_text("FROM base\n")
        for shown, warned in (({"template": "{{ .Prompt }}"}, True), ({}, True), ({"template": "{{ .Messages }}"}, False)):
            self.answer(POST_api_show={"capabilities": ["completion"]} | shown)
            done = self.create("m")
            lines = done.stderr.decode().splitlines()
            self.assertEqual((done.returncode, done.stdout, lines[2]), (0, b"", "success"))
            self.assertEqual([line.startswith('warning: model "m" has no chat template') for line in lines[3:]], [True] * warned)

    def test_reports_errors(self):
        (self.dir / "Modelfile").write_text("FROM base\n")
        for args, words in ((["a:b:c"], "invalid model name: a:b:c"), (["m", "-f", "none"], "none: there is no such Modelfile")):
            done = self.create(*args)
            self.assertEqual((done.returncode, done.stderr.decode()), (1, f"billow: error: {words}\n"))
        (self.dir / "model.gguf").write_bytes(b"GGUF....")
        path = self.dir / "model.gguf"
        done = self.create("m", "-f", path)
        self.assertEqual(done.stderr.decode(), f"billow: error: {path} is a model, not a Modelfile; write 'FROM {path}' in a Modelfile, "
                                               f"or try 'billow run {path}'\n")
        self.assertEqual(self.server.asked, [])
        self.answer(POST_api_create=(400, {"error": "no good"}))
        self.assertEqual(self.create("m").stderr, b"gathering model components\nbillow: error: 400 Bad Request: no good\n")
        self.answer(POST_api_create=[{"status": "parsing GGUF"}, {"error": "broken"}])
        self.assertEqual(self.create("m").stderr, b"gathering model components\nparsing GGUF\nbillow: error: broken\n")


class Run(ClientCase):
    def setUp(self):
        super().setUp()
        self.answer(POST_api_show=SHOWN, POST_api_generate=generated("Hel", "lo"))

    def test_prints_one_answer(self):
        self.assertEqual(self.ok("run", "m", "Say", "[a, b]", "--", "--x"), "Hello\n\n")
        self.assertEqual(self.asked("/api/generate"), [{"model": "m", "prompt": "Say [a, b] --x"}])

    def test_piped_text_comes_first(self):
        self.ok("run", "m", "what?", stdin=b"text")
        self.assertEqual(self.asked("/api/generate")[0]["prompt"], "text what?")

    def test_options_reach_the_server(self):
        self.ok("run", "--format", "json", "--keepalive", "5m", "--think=high", "--insecure", "m", "x", "--nowordwrap")
        self.ok("run", "m", "x", "--format", '{"type":"object"}', "--keepalive=-1", "--think")
        self.ok("run", "m", "x", "--think=false")
        self.assertEqual(self.asked("/api/generate"), [
            {"model": "m", "prompt": "x", "format": "json", "think": "high", "keep_alive": "5m"},
            {"model": "m", "prompt": "x", "format": {"type": "object"}, "think": True, "keep_alive": -1},
            {"model": "m", "prompt": "x", "think": False}])

    def test_invalid_options(self):
        self.refused('billow: error: invalid value for --think: "hard" (must be true, false, high, medium, low, or max). '
                     "See 'billow run --help'.\n", "run", "m", "x", "--think=hard", status=2)
        self.refused('billow: error: time: invalid duration "soon". See \'billow run --help\'.\n', "run", "m", "x", "--keepalive", "soon", status=2)
        self.assertEqual(billow("run", "m", "x", "--format", "xml", env=self.env).returncode, 2)
        self.assertEqual(self.server.asked, [])

    def test_thinking_is_separated_or_hidden(self):
        self.answer(POST_api_show=SHOWN | {"capabilities": ["completion", "thinking"]},
                    POST_api_generate=[{"response": "", "thinking": "Hm"}] + generated("Yes"))
        self.assertEqual(self.ok("run", "m", "x"), "Thinking...\nHm\n...done thinking.\n\nYes\n\n")
        self.assertEqual(self.ok("run", "m", "x", "--hidethinking"), "Yes\n\n")
        self.assertEqual(self.asked("/api/generate")[0]["think"], True)

    def test_verbose_prints_times_on_standard_error(self):
        done = billow("run", "m", "x", "--verbose", env=self.env)
        self.assertEqual(done.stderr.decode(), "total duration:       51ms\neval count:           2 token(s)\n"
                                               "eval duration:        20ms\neval rate:            100.00 tokens/s\n")

    def test_embedding_models_print_the_vector(self):
        self.answer(POST_api_show=SHOWN | {"capabilities": ["embedding"]},
                    POST_api_embed={"embeddings": [[0.5, -0.25]]})
        self.assertEqual(self.ok("run", "e", "some text", "--dimensions", "2", "--truncate=false"), "[0.5,-0.25]\n")
        self.assertEqual(self.asked("/api/embed"), [{"model": "e", "input": "some text", "truncate": False, "dimensions": 2}])
        self.refused("billow: error: embedding models require input text. Usage: billow run e \"your text here\"\n", "run", "e")

    def test_warns_if_the_model_has_no_chat_template(self):
        self.answer(POST_api_show=SHOWN | {"template": ""})
        done = billow("run", "m", "x", env=self.env)
        self.assertEqual((done.returncode, done.stdout), (0, b"Hello\n\n"))
        self.assertRegex(done.stderr.decode(), r'\Awarning: model "m" has no chat template: .*\n\Z')

    def test_sends_pictures_of_the_prompt(self):
        self.answer(POST_api_show=SHOWN | {"capabilities": ["completion", "vision"]})
        picture = self.dir / "a.png"
        picture.write_bytes(b"\x89PNG\r\n\x1a\n")
        done = billow("run", "m", f"what is {picture}", env=self.env)
        self.assertEqual(done.stderr.decode(), f"Added image '{picture}'\n")
        self.assertEqual(self.asked("/api/generate"), [{"model": "m", "images": ["iVBORw0KGgo="], "prompt": "what is"}])

    def test_reports_a_missing_model(self):
        pulling = {"status": "pulling manifest"}
        self.answer(POST_api_show=(404, {"error": "model 'x:latest' not found"}),
                    POST_api_pull=[pulling, {"error": "pull model manifest: file does not exist"}])
        done = billow("run", "x", "hi", env=self.env)
        self.assertTrue(done.stderr.decode().startswith("pulling manifest\nbillow: error: model 'x' not found, "), done.stderr)
        self.assertIn(b"billow create x", done.stderr)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 2))
        self.answer(POST_api_pull=[pulling, {"error": "max retries exceeded: why"}])
        self.refused("pulling manifest\nbillow: error: max retries exceeded: why\n", "run", "x", "hi")

    def test_pulls_a_missing_model(self):
        shown = iter([(404, {"error": "model 'x:latest' not found"}), {"capabilities": ["completion"]}])
        self.answer(POST_api_show=lambda body: next(shown), POST_api_generate=[{"response": "hello", "done": True}],
                    POST_api_pull=[{"status": "pulling manifest"}, {"status": "success"}])
        done = billow("run", "x", "hi", "--insecure", env=self.env)
        self.assertEqual((done.returncode, done.stdout), (0, b"hello\n\n"), done.stderr)
        self.assertEqual(self.asked("/api/pull"), [{"model": "x", "insecure": True}])

    def test_creates_and_runs_a_model_from_a_file(self):
        file = self.dir / "My Model.gguf"
        file.write_bytes(b"GGUF of a kind")
        self.env["XDG_CACHE_HOME"] = str(self.dir / "cache")
        digest = "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
        made = []
        shown = {"capabilities": ["completion"], "modified_at": "2000-01-01T00:00:00Z"}
        self.answer(POST_api_show=lambda body: shown if made else (404, {"error": "not found"}),
                    POST_api_create=lambda body: made.append(body) or [{"status": "success"}],
                    POST_api_generate=[{"response": "hello", "done": True}])
        self.server.answers["HEAD /api/blobs/" + digest] = (404, b"")
        self.server.answers["POST /api/blobs/" + digest] = (201, b"")
        for path, n_made in ((str(file), 1), (str(file), 2)):  # the model is older than the file, so it is created again
            done = billow("run", path, "hi", env=self.env)
            self.assertEqual((done.returncode, done.stdout, len(made)), (0, b"hello\n\n", n_made), done.stderr)
        shown["modified_at"] = "2999-01-01T00:00:00Z"
        self.assertEqual(self.ok("run", str(file), "hi"), "hello\n\n")
        self.assertEqual(len(made), 2)
        name = made[0]["model"]
        self.assertRegex(name, "^file/My-Model:[0-9a-f]{12}$")
        self.assertEqual(made, [{"model": name, "files": {"My Model.gguf": digest}}] * 2)
        self.assertEqual({body["model"] for body in self.asked("/api/generate")}, {name})
        # An old file that is moved to this path later is another model.
        shown["modified_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 1))
        time.sleep(0.1)
        other = self.dir / "old download.gguf"
        other.write_bytes(b"GGUF of another kind")
        os.utime(other, (1, 1))
        other.rename(file)
        digest = "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
        self.server.answers["HEAD /api/blobs/" + digest] = (200, b"")
        self.assertEqual(self.ok("run", str(file), "hi"), "hello\n\n")
        self.assertEqual(made[2:], [{"model": name, "files": {"My Model.gguf": digest}}])
        self.refused("billow: error: ./none.gguf: there is no such file or folder\n", "run", "./none.gguf", "hi")

    def test_runs_another_file_after_a_folder_was_renamed_or_a_link_changed(self):
        made = []
        digests = {}
        for name in ("models", "other"):
            (self.dir / name).mkdir()
            (self.dir / name / "x.gguf").write_bytes(b"GGUF of " + name.encode())
            digests[name] = "sha256:" + hashlib.sha256(b"GGUF of " + name.encode()).hexdigest()
            self.server.answers["HEAD /api/blobs/" + digests[name]] = (200, b"")
        shown = {"capabilities": ["completion"], "modified_at": "2999-01-01T00:00:00Z"}  # after every change of the files
        self.answer(POST_api_show=shown, POST_api_create=lambda body: made.append(body) or [{"status": "success"}],
                    POST_api_generate=[{"response": "hello", "done": True}])
        self.env["XDG_CACHE_HOME"] = str(self.dir / "cache")

        def run(path, n_made, name):
            self.assertEqual(self.ok("run", str(path), "hi"), "hello\n\n")
            self.assertEqual((len(made), *made[-1]["files"].values()), (n_made, digests[name]))

        path = self.dir / "models" / "x.gguf"
        link = self.dir / "link.gguf"
        link.symlink_to("models/x.gguf")
        run(path, 1, "models")
        run(path, 1, "models")
        run(link, 2, "models")
        run(link, 2, "models")
        link.unlink()
        link.symlink_to("other/x.gguf")
        run(link, 3, "other")
        (self.dir / "models").rename(self.dir / "old")
        (self.dir / "other").rename(self.dir / "models")
        run(path, 4, "other")
        run(path, 4, "other")

    def test_transfers_show_their_steps(self):
        layer = {"status": "pulling 0123456789ab", "digest": "sha256:01", "total": 100}
        steps = [{"status": "pulling manifest"}, layer, {**layer, "completed": 50}, {**layer, "completed": 100}, {"status": "success"}]
        self.answer(POST_api_pull=steps, POST_api_push=[{"status": "retrieving manifest"}, {"error": "no: 403"}])
        done = billow("pull", "m", env=self.env)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, "pulling manifest\npulling 0123456789ab: 100%\nsuccess\n"))
        self.refused("retrieving manifest\nbillow: error: no: 403\n", "push", "me/m")
        self.refused("billow: error: invalid model name: a b\n", "pull", "a b")
        self.assertEqual((self.asked("/api/pull"), self.asked("/api/push")), ([{"model": "m"}], [{"model": "me/m"}]))

    def test_progress_bars_are_not_wider_than_the_terminal(self):
        layer = {"status": "pulling 0123456789ab", "digest": "sha256:01", "total": 3_000_000}
        steps = [{"status": "pulling manifest"}, *({**layer, "completed": n} for n in range(0, 3_000_001, 500_000)), {"status": "success"}]
        for columns in (100, 80, 40, 20):
            half = threading.Event()  # the terminal shows the half
            self.addCleanup(half.set)
            self.answer(POST_api_pull=[part for step in steps for part in (step, 0.15, *([half] if step.get("completed") == 1_500_000 else []))])
            term = Job(self.env, "pull", "m", columns=columns)
            self.addCleanup(term.close)
            term.wait_for("50%" if columns >= 40 else "pulling 01234567")
            if columns >= 80:
                term.wait_for("MB/s")
            half.set()
            term.wait_for("success")
            lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", term.shown.decode()).replace("\r", "\n").split("\n")
            self.assertLess(max(map(len, lines)), columns, lines)
            self.assertTrue(any(line.startswith("pulling 01234567") for line in lines), lines)
            if columns >= 40:
                self.assertTrue(any(re.search(r"pulling 0123456789ab:  50% ▕█+ +▏", line) for line in lines), lines)
                self.assertTrue(any(re.search(r"pulling 0123456789ab: 100% ▕█+▏", line) for line in lines), lines)
            if columns >= 80:
                self.assertTrue(any(re.search(r" 50% ▕█+ +▏ 1.5 MB/  3 MB", line) for line in lines), lines)
                self.assertTrue(any(re.search(r"[0-9] MB/s +\d+s", line) for line in lines), lines)
                self.assertEqual(max(len(line) for line in lines if "100%" in line), columns - 26, "the bar fills the rest")

    def test_control_characters_have_no_effect_on_a_terminal(self):
        title, clipboard = "\x1b]0;mine\x07", "\x1b]52;c;aGk=\x1b\\"
        self.answer(POST_api_show=SHOWN | {"system": title, "messages": [{"role": "assistant", "content": clipboard}]},
                    POST_api_chat=chatted(f"a{title}b", f"{clipboard}\x9b2J end"), POST_api_generate=generated(title),
                    GET_api_tags={"models": [{"name": title, "size": 1, "digest": DIGEST, "modified_at": "2020-01-02T03:04:05Z"}]})
        self.assertEqual(self.ok("show", "m", "--system"), title)  # not a terminal: the exact bytes
        self.assertEqual(self.ok("run", "m", "x"), f"{title}\n\n")
        self.answer(POST_api_generate={"done": True, "done_reason": "load"})
        term = Job(self.env, "run", "m")
        self.addCleanup(term.close)
        term.wait_for("␛]52;c;aGk=␛\\")
        term.ask("hi", "␛]52;c;aGk=␛\\\N{REPLACEMENT CHARACTER}2J end")
        term.ask("/show system", "␛]0;mine␇")
        term.ask("/list", "␛]0;mine␇")
        self.answer(POST_api_chat=(500, {"error": title}))
        term.ask("hi", "␛]0;mine␇")
        self.assertEqual(term.leave("\x04"), 0)
        for text in (title, clipboard, "\x9b"):
            self.assertNotIn(text.encode(), term.shown)
        template, messages = (pathlib.Path(self.env["HOME"]) / name for name in ("template", "messages"))
        template.write_text(title)
        messages.write_text("[]")
        term = Job(self.env, "render", "--template", template, "--input", messages)
        self.addCleanup(term.close)
        term.wait_for("␛]0;mine␇")

    def test_errors_before_and_during_an_answer(self):
        self.answer(POST_api_generate=(500, {"error": "oh no"}))
        self.refused("billow: error: 500 Internal Server Error: oh no\n", "run", "m", "x")
        self.answer(POST_api_generate=[{"response": "Hel"}, {"error": "runner died"}])
        self.refused("billow: error: runner died\n", "run", "m", "x", out="Hel")
        self.answer(POST_api_generate=[{"response": "Hel"}, "cut"])
        done = billow("run", "m", "x", env=self.env)
        self.assertEqual((done.returncode, done.stdout), (1, b"Hel"), done.stderr)
        self.assertTrue(done.stderr.startswith(b"billow: error: "), done.stderr)

    def test_ctrl_c_ends_it_without_an_error(self):
        self.answer(POST_api_generate=[{"response": "Hel"}, 20.0])
        run = subprocess.Popen([ARGS.billow, "run", "m", "x"], env=dict(os.environ, **self.env), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(run.stdout.read(3), b"Hel")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
        self.assertEqual((run.returncode, out, err), (130, b"\n\n", b""))


class Interactive(ClientCase):
    def setUp(self):
        super().setUp()
        self.answer(POST_api_show=SHOWN, POST_api_generate={"done": True, "done_reason": "load"},
                    POST_api_chat=chatted("Hel", "lo"), POST_api_create=[{"status": "success"}])

    def terminal(self, **env):
        term = Job(self.env | env, "run", "m")
        self.addCleanup(term.close)
        return term

    def test_a_question_that_is_interrupted_before_its_answer_is_dropped(self):
        replies = iter([[30.0], chatted("Hel", "lo")])  # the first answer has no text for long
        self.answer(POST_api_chat=lambda _: next(replies))
        term = self.terminal()
        term.wait_for("Send a message (/? for help)")
        term.send("forget me\r")
        term.until(lambda: self.asked("/api/chat"), "a request")
        term.kill(signal.SIGINT)
        term.wait_for(">>> ")
        term.send("hi\r")
        term.wait_for("Hello")
        self.assertEqual(term.leave("\x04"), 0)
        self.assertEqual(self.asked("/api/chat")[1]["messages"], [{"role": "user", "content": "hi"}])

    def test_a_conversation(self):
        term = self.terminal()
        term.wait_for("Send a message (/? for help)")
        term.send("hi\r")
        term.wait_for("Hello")
        term.ask("/set parameter seed 7", "Set parameter 'seed' to '7'")
        term.ask('"""one', "... ")
        term.send('two"""\r')
        term.wait_for("Hello")
        term.ask("/show license", "MIT")
        term.ask("/frob", "Unknown command '/frob'. Type /? for help")
        term.ask("/save mine", "Created new model 'mine'")
        term.ask("/clear", "Cleared session context")
        self.assertEqual(term.leave("\x04"), 0)
        first, second = self.asked("/api/chat")
        self.assertEqual(first, {"model": "m", "messages": [{"role": "user", "content": "hi"}], "options": {}})
        self.assertEqual(second["options"], {"seed": 7})
        self.assertEqual([message["content"] for message in second["messages"]], ["hi", "Hello", "one\ntwo"])
        self.assertEqual(self.asked("/api/create")[0]["from"], "m")
        history = (self.dir / ".ollama" / "history").read_text().splitlines()
        self.assertEqual(history[:2], ["hi", "/set parameter seed 7"])

    def test_ctrl_c_stops_an_answer_and_clears_a_line(self):
        self.answer(POST_api_chat=lambda body: [{"message": {"content": "Wait"}}, 20.0] if len(body["messages"]) == 1
                    else chatted("Again"))
        term = self.terminal(OLLAMA_NOHISTORY="1")
        term.wait_for("help)")
        term.send("\x03")
        term.wait_for("Use Ctrl + d or /bye to exit.")
        term.wait_for(">>> ")
        term.send("never sent")
        term.wait_for("never sent")
        term.send("\x03")
        term.ask("go", "Wait")
        term.send("\x03")
        term.ask("more", "Again")
        self.assertEqual(term.leave("/bye\r"), 0)
        self.assertEqual([message["content"] for message in self.asked("/api/chat")[1]["messages"]], ["go", "Wait", "more"])
        self.assertFalse((self.dir / ".ollama").exists())

    def test_pasted_lines_are_one_message(self):
        term = self.terminal()
        term.wait_for("help)")
        term.send("\x1b[200~one\rtwo\x1b[201~ end\r")
        term.wait_for("Hello")
        term.ask("ü€", "Hello")
        self.assertEqual(term.leave("/exit\r"), 0)
        self.assertEqual([body["messages"][-1]["content"] for body in self.asked("/api/chat")], ["one\ntwo end", "ü€"])

    def test_an_error_leaves_the_session_open(self):
        answers = iter([(400, {"error": "too long"}), chatted("Hello")])
        self.answer(POST_api_chat=lambda body: next(answers))
        term = self.terminal()
        term.ask("one", "error: too long")
        term.ask("two", "Hello")
        self.answer(POST_api_show=(404, {"error": "no"}))
        term.ask("/load other", "Couldn't find model 'other'")
        self.assertEqual(term.leave("/bye\r"), 0)
        self.assertEqual([message["content"] for message in self.asked("/api/chat")[1]["messages"]], ["two"])

    def test_a_broken_answer_leaves_the_session_open(self):
        answers = iter([[{"message": {"content": "Hel"}}, "cut"], [{"message": {"content": "Hel"}}, {"error": "runner died"}],
                        chatted("Hello")])
        self.answer(POST_api_chat=lambda body: next(answers))
        term = self.terminal()
        term.ask("one", "error: ")
        term.ask("two", "Hel\r\nerror: runner died")
        term.ask("three", "Hello")
        self.assertEqual(term.leave("/bye\r"), 0)
        self.assertEqual([message["content"] for message in self.asked("/api/chat")[2]["messages"]], ["three"])

    def test_does_not_request_thinking_from_a_model_that_cannot_think(self):
        term = self.terminal()
        term.ask("/set think", 'warning: model "m" does not support thinking output')
        term.ask("hi", "Hello")
        self.assertEqual(term.leave("/bye\r"), 0)
        self.assertNotIn("think", self.asked("/api/chat")[0])

    def test_a_session_warns_if_the_model_has_no_chat_template(self):
        self.answer(POST_api_show=SHOWN | {"template": "{{ .Prompt }}"})
        term = self.terminal()
        term.wait_for('warning: model "m" has no chat template')
        term.ask("hi", "Hello")
        self.assertEqual(term.leave("/bye\r"), 0)

    def test_thinking_is_grey_and_initial_messages_come_first(self):
        self.answer(POST_api_show=SHOWN | {"capabilities": ["completion", "thinking"],
                                           "messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]},
                    POST_api_chat=[{"message": {"content": "", "thinking": "Hm"}}] + chatted("Yes"))
        term = self.terminal()
        term.wait_for(">>> Q\r\nA\r\n\r\n")
        term.ask("hi", "\x1b[1mThinking...\r\n\x1b[0m\x1b[38;5;245mHm\r\n")
        term.wait_for("...done thinking.\r\n\r\n\x1b[0mYes")
        self.assertEqual(term.leave("/bye\r"), 0)
        self.assertEqual(self.asked("/api/chat")[0]["think"], True)


if __name__ == "__main__":
    main()
