"""billow generate --in, with a fake server: its requests, results, resumption and exit statuses."""
import hashlib
import json
import os
import signal
import subprocess
import threading

from client_case import DIGEST, ClientCase
from program import ARGS, billow, main

SHOWN = {"modelfile": f"# made\nFROM /models/blobs/sha256-{DIGEST}\nTEMPLATE x", "template": "x"}


def answered(body):
    """The answer to a prompt repeats it."""
    if "bad" in body["prompt"]:
        return 400, {"error": "the prompt is bad"}
    return {"model": "m", "response": body["prompt"].upper(), "done": True, "done_reason": "stop",
            "prompt_eval_count": len(body["prompt"]), "eval_count": 2}


def chatted(body):
    return {"model": "m", "message": {"role": "assistant", "content": body["messages"][-1]["content"].upper()}, "done": True,
            "done_reason": "length", "prompt_eval_count": 5, "eval_count": 3}


class BulkTest(ClientCase):
    def setUp(self):
        super().setUp()
        self.server.answers |= {"POST /api/generate": answered, "POST /api/chat": chatted, "POST /api/show": SHOWN}

    def file(self, name, content):
        path = self.dir / name
        path.write_text(content)
        return path

    def rows_of(self, n, name="in.jsonl"):
        return self.file(name, "".join(json.dumps({"prompt": f"text {i}", "id": f"r{i}"}) + "\n" for i in range(n)))

    def generate(self, *args, status=0, **kwargs):
        done = billow("generate", "--model", "m", *args, env=self.env, **kwargs)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done

    def error(self, *args, status, **kwargs):
        """Runs the command and returns its one line on standard error."""
        message = self.generate(*args, status=status, **kwargs).stderr.decode()
        self.assertEqual(message.count("\n"), 1, message)
        self.assertTrue(message.startswith("billow: error: "), message)
        return message

    def results(self, text):
        return [json.loads(line) for line in text.splitlines()]


class Changes(BulkTest):
    def test_the_input_is_not_replaced(self):
        path = self.rows_of(2)
        before = path.read_bytes()
        for out in (path, self.dir / "." / path.name):
            self.assertIn("is part of the input", self.error("--in", path, "--out", out, status=1))
        self.assertEqual(path.read_bytes(), before)

    def test_results_of_a_changed_model_or_input_are_not_published(self):
        for what in ("model", "input"):
            with self.subTest(what):
                path, out = self.rows_of(3, f"{what}.jsonl"), self.dir / f"{what}-out.jsonl"

                def changed(body, what=what, path=path):
                    if body["prompt"] != "text 2":
                        return answered(body)
                    if what == "model":
                        self.server.answers["POST /api/show"] = {**SHOWN, "modelfile": f"FROM /models/blobs/sha256-{'e' * 64}\n"}
                    else:
                        path.write_text(path.read_text() + json.dumps({"prompt": "more"}) + "\n")
                    return answered(body)

                self.server.answers["POST /api/generate"] = changed
                self.assertIn(f"the model or {path} changed during the job", self.error("--in", path, "--out", out, status=75))
                self.assertFalse(out.exists())
                self.server.answers["POST /api/generate"] = answered
                self.assertIn("starting over", self.generate("--in", path, "--out", out).stderr.decode())
                self.assertEqual(len(self.results(out.read_text())), 3 if what == "model" else 4)


class Outputs(BulkTest):
    def test_rows_of_json_lines_are_prompts_and_chats(self):
        path = self.file("in.jsonl", '{"prompt":"a","id":7}\n\n{"messages":[{"role":"user","content":"b"}],"label":"x"}\n')
        done = self.generate("--in", path)
        self.assertEqual(self.results(done.stdout), [
            {"index": 0, "id": 7, "response": "A", "finish_reason": "stop", "prompt_tokens": 1, "output_tokens": 2},
            {"index": 1, "response": "B", "finish_reason": "length", "prompt_tokens": 5, "output_tokens": 3}])
        self.assertRegex(done.stderr.decode(), r"^2 rows, 0 with errors; 6 tokens of prompts, 5 tokens of answers; [\d.]+ s, [\d.]+ tokens/s\n$")

    def test_a_row_with_an_empty_prompt_has_an_error(self):
        self.server.answers["POST /api/generate"] = lambda body: answered(body) if body["prompt"] else {
            "model": "m", "response": "", "done": True, "done_reason": "load"}
        done = self.generate("--in", self.file("in.jsonl", '{"prompt":"","id":7}\n{"prompt":"a"}\n'))
        self.assertEqual(self.results(done.stdout), [
            {"index": 0, "id": 7, "error": "the prompt is empty"},
            {"index": 1, "response": "A", "finish_reason": "stop", "prompt_tokens": 1, "output_tokens": 2}])
        self.assertRegex(done.stderr.decode(), r"^2 rows, 1 with errors; ")

    def test_rows_of_text_and_csv_are_prompts(self):
        done = self.generate("--in", self.file("in.txt", "a\nb\n"), "--quiet")
        self.assertEqual([row["response"] for row in self.results(done.stdout)], ["A", "B"])
        self.assertEqual(done.stderr, b"")
        done = self.generate("--in", self.file("in.csv", 'id,q\n1,"a, b"\n'), "--column", "q")
        self.assertEqual([row["response"] for row in self.results(done.stdout)], ["A, B"])

    def test_requests_have_bulk_priority_and_one_client(self):
        self.generate("--in", self.rows_of(6))
        heads = self.server.heads[-6:]
        self.assertEqual([head["X-Billow-Priority"] for head in heads], ["bulk"] * 6)
        self.assertEqual(len({head["X-Billow-Client"] for head in heads}), 1)

    def test_options_of_the_command_reach_the_server(self):
        schema = self.file("schema.json", '{"type":"object","properties":{"a":{"type":"integer"}}}')
        self.generate("--in", self.rows_of(1), "--system", "be brief", "--temperature", "0.2", "-n", 5, "--seed", 3, "--stop", "x",
                      "--no-think", "--json-schema", schema, "--draft-max", 4)
        self.assertEqual(self.asked("/api/generate"), [
            {"model": "m", "stream": False, "prompt": "text 0", "system": "be brief", "think": False,
             "format": {"type": "object", "properties": {"a": {"type": "integer"}}},
             "options": {"num_predict": 5, "temperature": 0.2, "seed": 3, "draft_num_predict": 4, "stop": ["x"]}}])

    def test_a_file_of_results_appears_when_it_is_complete(self):
        out = self.dir / "out.jsonl"
        self.generate("--in", self.rows_of(100), "--out", out, "--jobs", 3)
        self.assertEqual([row["id"] for row in self.results(out.read_text())], [f"r{i}" for i in range(100)])
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["in.jsonl", "out.jsonl"])

    def test_ranges_of_rows_are_half_open(self):
        path = self.rows_of(20)
        for rows, expected in (("3:6", range(3, 6)), (":2", range(2)), ("18:", range(18, 20)), ("4:4", range(0))):
            out = self.results(self.generate("--in", path, "--rows", rows).stdout)
            self.assertEqual([row["index"] for row in out], list(expected), rows)
        self.assertIn("it has 20 rows", self.error("--in", path, "--rows", "0:21", status=65))

    def test_several_requests_are_in_flight(self):
        four = threading.Barrier(4)

        def together(body):
            four.wait(60)
            return answered(body)

        self.server.answers["POST /api/generate"] = together
        out = self.results(self.generate("--in", self.rows_of(8), "--jobs", 4).stdout)
        self.assertEqual([row["index"] for row in out], list(range(8)))


class BadRows(BulkTest):
    def test_one_bad_row_costs_one_row(self):
        path = self.file("in.jsonl", '{"prompt":"a"}\nno json\n{"prompt":"bad","id":"x"}\n{"prompt":"b","stream":true}\n{"prompt":"c"}\n')
        out = self.dir / "out.jsonl"
        done = self.generate("--in", path, "--out", out)
        rows = self.results(out.read_text())
        self.assertEqual([row.get("response") for row in rows], ["A", None, None, None, "C"])
        self.assertEqual(rows[1], {"index": 1, "error": "it is not a JSON object"})
        self.assertEqual(rows[2], {"index": 2, "id": "x", "error": "the prompt is bad"})
        self.assertIn('"stream" is not possible in a row', rows[3]["error"])
        self.assertIn("5 rows, 3 with errors", done.stderr.decode())

    def test_too_many_bad_rows_end_the_job(self):
        path = self.file("in.txt", "bad 0\na\nbad 2\nb\n")
        out = self.dir / "out.jsonl"
        self.assertEqual(self.error("--in", path, "--out", out, "--max-errors", 1, "--jobs", 1, status=65),
                         f"billow: error: {path}: row 2: the prompt is bad; 2 rows have errors, more than --max-errors\n")
        self.assertFalse(out.exists())
        self.generate("--in", path, "--out", out, "--max-errors", -1)
        self.assertEqual(len(self.results(out.read_text())), 4)

    def test_a_row_that_crashes_a_model_costs_one_row(self):
        def crashing(body):
            return (500, {"error": "model runner has unexpectedly stopped"}) if "bad" in body["prompt"] else answered(body)

        self.server.answers["POST /api/generate"] = crashing
        rows = self.results(self.generate("--in", self.file("in.txt", "a\nbad\nb\n")).stdout)
        self.assertEqual(rows[1], {"index": 1, "error": "model runner has unexpectedly stopped"})
        self.assertEqual([body["prompt"] for body in self.asked("/api/generate")].count("bad"), 3)


class Hosts(BulkTest):
    def test_errors_of_the_host_are_temporary(self):
        path, out = self.rows_of(3), self.dir / "out.jsonl"
        self.server.answers["POST /api/generate"] = (503, {"error": "server busy"})
        self.assertIn("503 Service Unavailable: server busy", self.error("--in", path, "--out", out, "--timeout", 0, status=75))
        self.server.answers["POST /api/generate"] = (500, {"error": "crashed"})
        self.assertIn("crashed", self.error("--in", path, "--out", out, status=75))
        self.server.answers["POST /api/generate"] = (200, b"no json")
        self.error("--in", path, "--out", out, status=75)
        self.server.answers["POST /api/generate"] = (404, {"error": 'model "m" not found'})
        self.assertEqual(self.error("--in", path, "--out", out, status=1), 'billow: error: model "m" not found\n')
        self.env["OLLAMA_HOST"] = "127.0.0.1:1"
        self.error("--in", path, "--out", out, status=75)
        self.assertFalse(out.exists())

    def test_resumes_after_ctrl_c_and_after_a_kill(self):
        for end, sent in (("int", signal.SIGINT), ("kill", signal.SIGKILL)):
            with self.subTest(end):
                path, out = self.rows_of(100, f"{end}.jsonl"), self.dir / f"{end}-out.jsonl"
                release, reached = threading.Event(), threading.Event()
                self.addCleanup(release.set)

                def held(body, release=release, reached=reached):
                    if body["prompt"] == "text 50":
                        release.wait(120)
                    if body["prompt"] == "text 65":  # 8 rows per request in flight, so row 49 is written
                        reached.set()
                    return answered(body)

                self.server.answers["POST /api/generate"] = held
                command = [ARGS.billow, "generate", "--model", "m", "--in", str(path), "--out", str(out), "--jobs", "2"]
                process = subprocess.Popen(command, env=dict(os.environ, **self.env), stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.addCleanup(process.kill)
                self.assertTrue(reached.wait(120))
                process.send_signal(sent)
                self.assertEqual(process.wait(60), 130 if end == "int" else -sent)
                self.assertFalse(out.exists())
                release.set()
                self.server.answers["POST /api/generate"] = answered
                self.server.asked.clear()
                done = self.generate("--in", path, "--out", out, "--jobs", 2)
                self.assertEqual([row["index"] for row in self.results(out.read_text())], list(range(100)))
                n_asked = len(self.asked("/api/generate"))
                if end == "int":
                    self.assertIn("continuing after 50 rows\n", done.stderr.decode())
                    self.assertEqual(n_asked, 50)
                self.assertIn("100 rows, 0 with errors; ", done.stderr.decode())
                self.assertEqual([p.name for p in self.dir.glob("*.part*")], [])

    def test_the_fingerprint_is_that_of_billow_ray(self):
        path, out = self.file("in.txt", "bad\n"), self.dir / "out.jsonl"
        schema = self.file("schema.json", '{"type":"object","properties":{"b":{},"a":{"type":"integer"}}}')
        self.error("--in", path, "--out", out, "--max-errors", 0, "--system", "be b\u00e4", "--temperature", "0.2", "-n", 5,
                   "--json-schema", schema, status=65)

        def canonical(value):
            return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

        def digest(value):
            return "sha256:" + hashlib.sha256(canonical(value).encode()).hexdigest()

        recipe = {"op": "generate", "format": json.loads(schema.read_text()), "options": {"temperature": 0.2, "num_predict": 5},
                  "model_text": digest({"parameters": "", "system": "", "template": "x"}), "system": "be b\u00e4",
                  "weights": "sha256:" + DIGEST}
        job = json.loads(json.loads((self.dir / "out.jsonl.part.json").read_text())["job"])
        self.assertEqual(job["fingerprint"], digest(recipe))

    def test_another_job_starts_over(self):
        path, out = self.file("in.txt", "a\nbad\n"), self.dir / "out.jsonl"
        self.error("--in", path, "--out", out, "--max-errors", 0, status=65)
        done = self.generate("--in", path, "--out", out, "--seed", 4)
        self.assertIn(f"{out}.part belongs to another job; starting over\n", done.stderr.decode())


class Arguments(BulkTest):
    def test_local_options_are_refused(self):
        path = self.rows_of(1)
        for args, name in ((["--prompt", "a"], "--prompt"), (["--chat"], "--chat"), (["--max-time", 3], "--max-time"),
                           (["--grammar", path], "--grammar"), (["--logprobs", 2], "--logprobs"), (["--json"], "--json"),
                           (["--kv-type", "f32"], "--kv-type"), (["--context-sizes", "64"], "--context-sizes")):
            self.assertEqual(self.error("--in", path, *args, status=2), f"billow: error: {name} is not possible with --in: "
                             "the work is done by a server. See 'billow generate --help'.\n")
        self.assertEqual(self.server.asked, [])

    def test_options_of_bulk_work_need_a_file(self):
        for args in (["--out", "x"], ["--rows", "1:2"], ["--jobs", 3], ["--max-errors", 3], ["--field", "q"]):
            self.assertEqual(self.error(*args, status=2), f"billow: error: {args[0]} needs --in. See 'billow generate --help'.\n")

    def test_wrong_arguments_are_errors(self):
        path = self.rows_of(1)
        self.assertIn("'0' is not a whole number from 1 to 1024", self.error("--in", path, "--jobs", 0, status=2))
        self.assertIn("'nan' is not a number from 0 to 86400", self.error("--in", path, "--timeout", "nan", status=2))
        self.assertIn("--rows must be A:B", self.error("--in", path, "--rows", "5:2", status=2))
        self.assertIn("nowhere.jsonl", self.error("--in", self.dir / "nowhere.jsonl", status=65))
        self.assertIn("there is no column 'prompt'", self.error("--in", self.file("in.csv", "a\n1\n"), status=65))


if __name__ == "__main__":
    main()
