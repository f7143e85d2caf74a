"""billow embed and fingerprint, with a fake server: their requests, output and exit status."""
import base64
import hashlib
import json
import os
import signal
import struct
import subprocess
import threading
import time

from client_case import DIGEST, ClientCase
from program import ARGS, billow, main

SHOWN = {"modelfile": f"# made\nFROM /models/blobs/sha256-{DIGEST}\nTEMPLATE x"}


def vector(text):
    """The vector of a text has two values: the length of the text, and the number in it."""
    digits = "".join(c for c in text if c.isdigit())
    return [float(len(text)), float(digits or 0)]


def embedded(body):
    data = []
    for i, text in enumerate(body["input"]):
        if "bad" in text:
            data.append({"index": i, "error": "the input has no tokens", "status": 400})
            continue
        data.append({"object": "embedding", "index": i,
                     "embedding": base64.b64encode(struct.pack("<2f", *vector(text))).decode()})
    return {"object": "list", "data": data, "model": body["model"]}


def read_npy(path):
    raw = path.read_bytes()
    assert raw[:8] == b"\x93NUMPY\x01\x00", raw[:8]
    (n_header,) = struct.unpack("<H", raw[8:10])
    header = eval(raw[10:10 + n_header], {"__builtins__": {}})  # a dict of literals
    assert header["descr"] == "<f4" and header["fortran_order"] is False
    rows, size = header["shape"]
    values = struct.unpack(f"<{rows * size}f", raw[10 + n_header:])
    return [list(values[i * size:(i + 1) * size]) for i in range(rows)]


class EmbedTest(ClientCase):
    def setUp(self):
        super().setUp()
        self.server.answers |= {"POST /v1/embeddings": embedded, "POST /api/show": SHOWN}

    def file(self, name, content):
        path = self.dir / name
        path.write_text(content)
        return path

    def lines(self, n, name="in.txt"):
        return self.file(name, "".join(f"text {i}\n" for i in range(n)))

    def embed(self, *args, status=0, **kwargs):
        done = billow("embed", "--model", "m", *args, env=self.env, **kwargs)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done

    def error(self, *args, status, **kwargs):
        """Runs the command and returns its one line on standard error."""
        message = self.embed(*args, status=status, **kwargs).stderr.decode()
        self.assertEqual(message.count("\n"), 1, message)
        self.assertTrue(message.startswith("billow: error: "), message)
        return message

    def rows(self, text):
        return [json.loads(line) for line in text.splitlines()]

    def requests(self):
        return self.asked("/v1/embeddings")


class Outputs(EmbedTest):
    def test_arguments_give_json_lines(self):
        self.assertEqual(self.rows(self.embed("a1", "bc 22").stdout), [
            {"index": 0, "embedding": vector("a1")}, {"index": 1, "embedding": vector("bc 22")}])
        self.assertEqual(self.requests(), [
            {"model": "m", "encoding_format": "base64", "partial": True, "input": ["a1", "bc 22"]}])

    def test_lines_of_standard_input_give_json_lines(self):
        out = self.embed("--batch", 2, stdin=b"one 1\n\nthree 3\n").stdout
        self.assertEqual([row["embedding"] for row in self.rows(out)],
                         [vector("one 1"), vector(""), vector("three 3")])

    def test_options_reach_the_server(self):
        self.embed("--dimensions", 2, "--no-normalize", "--truncate", "none", "--prefix", "query: ", "--pooling", "cls", "a")
        body = self.requests()[0]
        self.assertEqual(body, {"model": "m", "encoding_format": "base64", "partial": True, "input": ["query: a"],
                                "dimensions": 2, "normalize": False, "pooling": "cls", "truncate": False})

    def test_only_texts_from_a_file_have_bulk_priority(self):
        self.embed("a")
        self.assertNotIn("X-Billow-Priority", self.server.heads[-1])
        self.embed("--in", self.lines(6), "--batch", 2)
        heads = self.server.heads[-3:]
        self.assertEqual([head["X-Billow-Priority"] for head in heads], ["bulk"] * 3)
        self.assertEqual(len({head["X-Billow-Client"] for head in heads}), 1)

    def test_a_pipe_is_not_replaced(self):
        pipe = self.dir / "pipe.npy"
        os.mkfifo(pipe)
        self.assertIn("pipe.npy is not a regular file", self.error("--in", self.lines(3), "--out", pipe, status=1))
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["in.txt", "pipe.npy"])

    def test_the_input_is_not_replaced(self):
        path = self.file("in.jsonl", '{"text":"a 1"}\n')
        self.assertIn("is part of the input", self.error("--in", path, "--out", path, status=1))
        self.assertEqual(path.read_text(), '{"text":"a 1"}\n')

    def test_vectors_of_a_changed_model_are_not_published(self):
        out = self.dir / "v.npy"

        def changed(body):
            self.server.answers["POST /api/show"] = {"modelfile": f"FROM /models/blobs/sha256-{'e' * 64}\n"}
            return embedded(body)

        self.server.answers["POST /v1/embeddings"] = changed
        self.assertIn("changed during the job", self.error("--in", self.lines(3), "--out", out, status=75))
        self.assertFalse(out.exists())

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([ARGS.billow, "embed", "--model", "m", "--in", str(self.lines(3))], stdout=full,
                                  stderr=subprocess.PIPE, env=dict(os.environ, **self.env), timeout=60)
        self.assertIn(b"cannot write standard output", done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def test_the_first_character_of_standard_input_stays(self):
        for text in ("（株）", "\ufeff", "ﾃｽﾄ", "\uf000x"):
            got = self.rows(self.embed(stdin=f"{text}a 1\n".encode()).stdout)
            self.assertEqual(got[0]["embedding"], vector(text.strip("\ufeff") + "a 1"))

    def test_npy_has_all_rows_in_order(self):
        out = self.dir / "v.npy"
        self.embed("--in", self.lines(100), "--out", out, "--batch", 7)
        self.assertEqual(read_npy(out), [vector(f"text {i}") for i in range(100)])
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["in.txt", "v.npy"])

    def test_reads_texts_from_csv_and_jsonl(self):
        csv = self.file("in.csv", 'id,body\n1,"a, 1"\n2,"b\n""2"""\n')
        rows = self.rows(self.embed("--in", csv, "--column", "body").stdout)
        self.assertEqual([row["embedding"] for row in rows], [vector("a, 1"), vector('b\n"2"')])
        jsonl = self.file("in.jsonl", '{"q":"x 5"}\n\n{"q":"y 6"}\n')
        rows = self.rows(self.embed("--in", jsonl, "--field", "q").stdout)
        self.assertEqual([row["embedding"] for row in rows], [vector("x 5"), vector("y 6")])

    def test_ranges_of_rows_are_half_open(self):
        path = self.lines(20)
        for rows, expected in (("3:6", range(3, 6)), (":2", range(2)), ("18:", range(18, 20)), ("4:4", range(0)),
                               ("18:20", range(18, 20))):
            out = self.rows(self.embed("--in", path, "--rows", rows, "--batch", 2).stdout)
            self.assertEqual([row["index"] for row in out], list(expected), rows)
            self.assertEqual([row["embedding"] for row in out], [vector(f"text {i}") for i in expected])

    def test_order_is_kept_with_several_requests_in_flight(self):
        lock, n_active, max_active = threading.Lock(), [0], [0]
        two = threading.Barrier(2)  # the first two requests wait for each other

        def slow(body):
            with lock:
                n_active[0] += 1
                max_active[0] = max(max_active[0], n_active[0])
            number = int(body["input"][0].split()[1])
            if number < 2:
                two.wait(60)
            time.sleep(0.15 if number % 3 == 0 else 0.01)  # later requests overtake
            with lock:
                n_active[0] -= 1
            return embedded(body)

        self.server.answers["POST /v1/embeddings"] = slow
        out = self.rows(self.embed("--in", self.lines(24), "--batch", 1, "--jobs", 4).stdout)
        self.assertEqual([row["index"] for row in out], list(range(24)))
        self.assertEqual([row["embedding"] for row in out], [vector(f"text {i}") for i in range(24)])
        self.assertGreater(max_active[0], 1)
        self.assertLessEqual(max_active[0], 4)

    def test_an_empty_input_gives_an_empty_file(self):
        out = self.dir / "v.npy"
        self.embed("--in", self.file("in.txt", ""), "--out", out)
        self.assertEqual(read_npy(out), [])


class Interruptions(EmbedTest):
    """The response for row 50 is blocked until release. Work continues up to row 69: twice as many batches as jobs can be in flight."""

    def begin(self, out, *args):
        self.release = threading.Event()
        self.addCleanup(self.release.set)
        last_asked = threading.Event()

        def held(body):
            if "text 50" in body["input"]:
                self.release.wait(60)
            if "text 65" in body["input"]:
                last_asked.set()
            return embedded(body)

        self.server.answers["POST /v1/embeddings"] = held
        command = [ARGS.billow, "embed", "--model", "m", "--in", str(self.path), "--out", str(out), "--batch", "5",
                   "--jobs", "2", *args]
        process = subprocess.Popen(command, env=dict(os.environ, **self.env), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        self.assertTrue(last_asked.wait(60))  # so row 49 has been written
        return process

    def finish(self, out, n=100):
        self.server.answers["POST /v1/embeddings"] = embedded
        self.release.set()
        self.server.asked.clear()
        done = self.embed("--in", self.path, "--out", out, "--batch", 5)
        self.assertEqual(read_npy(out), [vector(f"text {i}") for i in range(n)])
        self.assertEqual([p.name for p in self.dir.glob("v.npy.*")], [])
        return sum(len(body["input"]) for body in self.requests()), done.stderr.decode()

    def test_resumes_after_ctrl_c(self):
        self.path, out = self.lines(100), self.dir / "v.npy"
        process = self.begin(out)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(120), 130, process.stderr.read())
        self.assertFalse(out.exists())
        n_asked, message = self.finish(out)
        self.assertEqual((n_asked, message), (50, "continuing after 50 rows\n"))

    def test_resumes_after_a_kill(self):
        self.path, out = self.lines(100), self.dir / "v.npy"
        process = self.begin(out)
        process.kill()
        process.wait(120)
        self.assertFalse(out.exists())
        n_asked, _ = self.finish(out)  # from the last state on the disk, at most a second old
        self.assertIn(n_asked, range(50, 101))

    def test_ctrl_c_ends_a_command_that_waits_for_a_line(self):
        out = self.dir / "v.npy"
        process = subprocess.Popen([ARGS.billow, "embed", "--model", "m", "--out", str(out)], stdin=subprocess.PIPE, env=dict(os.environ, **self.env))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdin.close)
        process.stdin.write(b"first\n")
        process.stdin.flush()
        while not (self.dir / "v.npy.part").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), -signal.SIGINT)
        self.assertFalse(out.exists())

    def test_two_processes_do_not_write_one_file(self):
        self.path, out = self.lines(100), self.dir / "v.npy"
        self.begin(out)
        self.assertIn("another process is writing it", self.error("--in", self.path, "--out", out, status=75))

    def test_another_job_starts_over(self):
        self.path, out = self.lines(100), self.dir / "v.npy"
        process = self.begin(out)
        process.send_signal(signal.SIGINT)
        process.wait(120)
        self.lines(99)  # the same file with other content
        n_asked, message = self.finish(out, 99)
        self.assertEqual((n_asked, message), (99, f"{out}.part belongs to another job; starting over\n"))


class Failures(EmbedTest):
    def test_names_the_row_of_an_invalid_text(self):
        path, out = self.file("in.txt", "a 0\nb 1\nc bad\nd 3\n"), self.dir / "v.npy"
        self.assertEqual(self.error("--in", path, "--out", out, "--batch", 1, "--jobs", 1, status=65),
                         f"billow: error: {path}: row 2: the input has no tokens\n")
        self.assertFalse(out.exists())
        self.assertIn("row 1: it has no text \"text\"",
                      self.error("--in", self.file("in.jsonl", '{"text":"a"}\n{}\n'), status=65))
        self.assertIn("it has 4 rows", self.error("--in", path, "--rows", "0:9", status=65))
        self.assertIn("nowhere.txt", self.error("--in", self.dir / "nowhere.txt", status=65))
        self.server.answers["POST /v1/embeddings"] = (413, {"error": {"message": "too large"}})
        self.assertIn("rows 0 to 3: too large", self.error("--in", path, "--rows", ":4", status=65))

    def test_errors_of_the_host_are_temporary(self):
        path, out = self.lines(3), self.dir / "v.npy"
        self.server.answers["POST /v1/embeddings"] = (503, {"error": {"message": "server busy"}})
        self.assertIn("503 Service Unavailable: server busy",
                      self.error("--in", path, "--out", out, "--timeout", 0, status=75))
        self.server.answers["POST /v1/embeddings"] = (500, {"error": {"message": "crashed"}})
        self.error("--in", path, "--out", out, status=75)
        self.server.answers["POST /v1/embeddings"] = (200, b"no json")
        self.error("--in", path, "--out", out, status=75)
        self.env["OLLAMA_HOST"] = "127.0.0.1:1"
        self.error("--in", path, "--out", out, status=75)
        self.error("a text", status=75)
        self.assertFalse(out.exists())

    def test_retries_while_the_host_is_busy(self):
        answers = [(503, {"error": {"message": "busy"}})] * 2

        def busy(body):
            return answers.pop() if answers else embedded(body)

        self.server.answers["POST /v1/embeddings"] = busy
        self.assertEqual(len(self.rows(self.embed("a", "--timeout", 20).stdout)), 1)
        self.assertEqual(len(self.requests()), 3)

    def test_a_missing_model_is_not_temporary(self):
        self.server.answers["POST /v1/embeddings"] = (404, {"error": {"message": 'model "m" not found'}})
        self.assertEqual(self.error("a", status=1), 'billow: error: model "m" not found\n')

    def test_checks_arguments_before_the_first_request(self):
        for args, words in ((["--in", "x", "text"], "not both"), (["--rows", "1:2"], "--rows needs --in"),
                            (["--in", "x", "--rows", "5:2"], "--rows must be A:B"), (["--in", "x", "--rows", "5"], "A:B"),
                            (["--truncate", "up", "a"], "none, left or right"), (["--jobs", "0", "a"], "'0' is not a whole number from 1 to 1024"),
                            (["--jobs", "1025", "a"], "from 1 to 1024"), (["--batch", "0", "a"], "of at least 1"),
                            (["--timeout", "-1", "a"], "'-1' is not a number from 0 to 86400"), (["--timeout", "nan", "a"], "not a number"),
                            (["--pooling", "none", "a"], "does not give one vector"),
                            (["a", "--out", "v.parquet"], "Parquet is not supported")):
            message = self.error(*args, status=2)
            self.assertIn(words, message)
            self.assertTrue(message.endswith("See 'billow embed --help'.\n"), message)
        self.assertEqual(self.server.asked, [])


class Fingerprints(EmbedTest):
    def fingerprint(self, *args):
        done = billow("fingerprint", "--model", "m", *args, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def test_is_the_digest_of_everything_that_the_vectors_depend_on(self):
        canonical = ('{"dimensions":0,"normalize":true,"op":"embed","pooling":"","prefix":"","truncate":"right",'
                     f'"weights":"sha256:{DIGEST}"}}')
        expected = "sha256:" + hashlib.sha256(canonical.encode()).hexdigest() + "\n"
        self.assertEqual(self.fingerprint("--op", "embed"), expected)
        self.assertNotEqual(self.fingerprint("--pooling", "cls"), expected)
        self.assertEqual(json.loads(self.fingerprint("--json"))["of"], json.loads(canonical))

    def test_wrong_arguments_are_refused(self):
        for args, message in ((["--op", "chat"], "--op must be embed, not 'chat'."), (["--truncate", "up"], "--truncate must be none, left or right, not 'up'.")):
            done = billow("fingerprint", "--model", "m", *args, env=self.env)
            self.assertEqual((done.returncode, done.stderr.decode()), (2, f"billow: error: {message} See 'billow fingerprint --help'.\n"))
        self.assertEqual(billow("fingerprint", env=self.env).returncode, 2)
        self.assertEqual(self.server.asked, [])

    def test_fails_if_the_server_reports_no_digest(self):
        self.server.answers["POST /api/show"] = {"modelfile": "FROM m"}
        done = billow("fingerprint", "--model", "m", env=self.env)
        self.assertEqual((done.returncode, done.stdout), (1, b""))


if __name__ == "__main__":
    main()
