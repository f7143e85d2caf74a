"""billow-ray's shards without Ray: with a fake server that fails on demand, and with the real program.

ray_work_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import base64
import collections
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import uuid

import fsspec
import numpy
import pyarrow as pa
import pyarrow.parquet as pq
from fake_server import FakeServer
from server import Server

from billow_ray import BillowEmbed
from billow_ray.client import Billow
from billow_ray.errors import BillowUnavailable, InputFault, JobError
from billow_ray.job import part_names
from billow_ray.prepare import Wish, prepare
from billow_ray.storage import list_files, place_of
from billow_ray.verify import verify
from billow_ray.work import run_shard
from run_cases import run_cases

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
ARGS, REST = parser.parse_known_args()

DIGEST = "c" * 64
SHOWN = {"modelfile": f"FROM /models/blobs/sha256-{DIGEST}\n", "template": "", "parameters": ""}
PATIENCE_S = 0.6


def vector(text):
    """The vector of a text in the fake server: its length, and the number in it."""
    digits = "".join(c for c in text if c.isdigit())
    return [float(len(text)), float(digits or 0)]


def coded(text):
    return {"embedding": base64.b64encode(numpy.array(vector(text), "<f4").tobytes()).decode()}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.out = place_of(str(self.dir / "out"))

    def lines(self, values, name="in.jsonl"):
        (self.dir / name).write_text("".join(json.dumps(value) + "\n" for value in values))
        return str(self.dir / name)

    def texts(self, n):
        return self.lines({"id": i, "text": f"text {i}"} for i in range(n))

    def rows(self, out=None):
        """The rows of all parts, in order."""
        out = out or self.out
        facts = [fact for fact in list_files(out) if fact.name.startswith("part-")]
        tables = []
        for fact in facts:
            with out.fs.open_input_file(fact.path) as source:
                tables.append(pq.read_table(source))
        return [row for table in tables for row in table.to_pylist()]


class Fake(Case):
    """The fake server fails as `self.fail(texts)` says: with a status, or with None if it does not."""

    def setUp(self):
        super().setUp()
        self.server = FakeServer()
        self.addCleanup(self.server.close)
        self.fail = lambda texts: None
        self.patience_s = PATIENCE_S
        self.server.answers |= {
            "POST /api/show": SHOWN, "GET /api/server": {"version": "1.2.3", "node": "n1"},
            "GET /metrics": (200, b'billow_build_info{version="1.2.3",isa="avx9"} 1\n'), "POST /v1/embeddings": self.embedded}

    def embedded(self, body):
        status = self.fail(body["input"])
        if status:
            return status, {"error": {"message": "as the test wants"}}
        data = [{"error": "no tokens", "status": 400} if "empty" in text else coded(text) for text in body["input"]]
        return {"data": data}

    def billow(self):
        billow = Billow(self.server.host, self.patience_s)
        self.addCleanup(billow.close)
        return billow

    def prepare(self, path, out=None, **fields):
        wish = Wish("embed", "m", [path], {"text": "text"}, **{"keep": ["id"], "batch_rows": 8, "jobs": 2, "max_errors": 3, **fields})
        return prepare(wish, out or self.out, self.billow())

    def run_all(self, job, out=None):
        return [run_shard(job.head(i), out or self.out, self.billow()) for i in range(len(job.shards))]

    def asked(self):
        return [text for _, path, body in self.server.asked if path == "/v1/embeddings" for text in body["input"] if text != "billow"]


class Results(Fake):
    def test_all_rows_have_their_vectors_and_the_footer_counts_them(self):
        job = self.prepare(self.texts(100), shard_rows=30)
        results = self.run_all(job)
        self.assertEqual([row["id"] for row in self.rows()], list(range(100)))
        self.assertEqual([row["embedding"] for row in self.rows()], [vector(f"text {i}") for i in range(100)])
        self.assertEqual({row["error"] for row in self.rows()}, {None})
        self.assertEqual(sum(result.rows for result in results), 100)
        report = verify(job, self.out, deep=True)
        self.assertEqual((report.wrong, report.rows, report.errors), ([], 100, 0))
        self.assertEqual((report.versions, report.nodes), ({"1.2.3 avx9": len(job.shards)}, {"n1": len(job.shards)}))
        names = sorted(path.name for path in (self.dir / "out").iterdir())
        self.assertEqual(names, ["_job.json", *sorted(part_names(job))])

    def test_requests_are_bulk_and_in_base64(self):
        self.run_all(self.prepare(self.texts(5)))
        heads = [head for head, (_, path, _) in zip(self.server.heads, self.server.asked) if path == "/v1/embeddings"]
        self.assertEqual({head["X-Billow-Priority"] for head in heads}, {"bulk"})
        bodies = [body for _, path, body in self.server.asked if path == "/v1/embeddings"]
        self.assertEqual(bodies[-1], {"model": "m", "encoding_format": "base64", "partial": True, "input": [f"text {i}" for i in range(5)]})

    def test_requests_have_the_api_key_of_the_environment(self):
        for variables, key in (({"OLLAMA_API_KEY": "a"}, "Bearer a"), ({"OLLAMA_API_KEY": "a", "BILLOW_API_KEY": " b\n"}, "Bearer b")):
            with unittest.mock.patch.dict(os.environ, variables):
                self.billow().get("/api/server")
            self.assertEqual(self.server.heads[-1]["Authorization"], key)

    def test_shards_without_rows_have_empty_parts(self):
        path = self.lines([{"id": 0, "text": "a" * 3000}, {"id": 1, "text": "b"}])
        job = self.prepare(path, shard_rows=1)
        self.assertGreater(len(job.shards), 1)
        pathlib.Path(path).write_text("\n" * 2000 + pathlib.Path(path).read_text() + "\n" * 2000)
        out = place_of(str(self.dir / "blank"))
        job = self.prepare(path, out, shard_rows=1)
        self.run_all(job, out)
        self.assertEqual([row["id"] for row in self.rows(out)], [0, 1])
        report = verify(job, out, deep=True)
        self.assertEqual((report.rows, report.wrong), (2, []))
        self.assertGreater(report.present, 2)

    def test_settings_of_a_run_may_change_but_not_its_plan(self):
        path = self.texts(40)
        first = self.prepare(path, shard_rows=10)
        again = self.prepare(path, max_errors=99, jobs=7)
        self.assertEqual((again.shards, again.max_errors, again.jobs), (first.shards, 99, 7))
        with self.assertRaisesRegex(JobError, "has another plan: .* Leave --shard-rows out"):
            self.prepare(path, shard_rows=20)

    def test_settings_reach_the_server(self):
        settings = {"dimensions": 2, "normalize": False, "pooling": "cls", "prefix": "query: ", "truncate": "none"}
        self.run_all(self.prepare(self.texts(1), settings=settings))
        body = self.server.asked[-1][2]
        self.assertEqual(body, {"model": "m", "encoding_format": "base64", "partial": True, "input": ["query: text 0"], "dimensions": 2,
                                "normalize": False, "pooling": "cls", "truncate": False})

    def test_float16_takes_half_the_bytes(self):
        self.run_all(self.prepare(self.texts(3), dtype="float16"))
        (part,) = (self.dir / "out").glob("part-*")
        self.assertEqual(pq.read_schema(part).field("embedding").type, pa.list_(pa.float16(), 2))
        self.assertEqual(self.rows()[2]["embedding"], vector("text 2"))

    def test_parts_of_another_file_system_are_one_put(self):
        uri = f"memory://{uuid.uuid4()}/out"
        out = place_of(uri)
        job = self.prepare(self.texts(40), out, shard_rows=15)
        self.run_all(job, out)
        self.assertEqual([row["embedding"] for row in self.rows(out)], [vector(f"text {i}") for i in range(40)])
        self.assertEqual(verify(job, out, deep=True).wrong, [])
        self.assertFalse([path for path in fsspec.filesystem("memory").find(uri[8:]) if ".tmp-" in path])

    def test_input_and_parts_in_s3(self):
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        s3 = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        s3.start()
        self.addCleanup(s3.stop)
        variables = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_EC2_METADATA_DISABLED": "true"}
        with unittest.mock.patch.dict(os.environ, variables):
            options = f"?endpoint_override=127.0.0.1:{s3.get_host_and_port()[1]}&scheme=http&region=us-east-1&allow_bucket_creation=true"
            source = place_of(f"s3://bucket/in{options}")
            source.fs.create_dir("bucket")
            for name in ("a.jsonl", "b.jsonl"):
                text = pathlib.Path(self.texts(20)).read_bytes()
                with source.fs.open_output_stream(source.child(name).path) as stream:
                    stream.write(text)
            out = place_of(f"s3://bucket/out{options}")
            job = self.prepare(source.uri, out, shard_rows=8)
            self.assertEqual([entry.path for entry in job.inputs], [f"s3://bucket/in/{name}{options}" for name in ("a.jsonl", "b.jsonl")])
            self.run_all(job, out)
            self.assertEqual([row["embedding"] for row in self.rows(out)], [vector(f"text {i}") for i in range(20)] * 2)
            self.assertEqual(verify(job, out, deep=True).wrong, [])
            self.assertEqual({result.status for result in self.run_all(self.prepare(source.uri, out), out)}, {"present"})

    def test_a_finished_shard_is_not_computed_again(self):
        job = self.prepare(self.texts(40), shard_rows=10)
        run_shard(job.head(1), self.out, self.billow())
        self.server.asked.clear()
        self.assertEqual([result.status for result in self.run_all(job)].count("present"), 1)
        self.assertEqual(len(self.asked()), 40 - 10)


class Failures(Fake):
    def test_a_bad_row_costs_one_row(self):
        values = [{"id": i, "text": f"text {i}"} for i in range(50)]
        values[7]["text"], values[20]["text"] = "empty 7", "poison 20"
        del values[33]["text"]
        self.fail = lambda texts: 400 if any("poison" in text for text in texts) else None
        job = self.prepare(self.lines(values), shard_rows=100)
        (result,) = self.run_all(job)
        rows = self.rows()
        self.assertEqual({row["id"]: row["error"] for row in rows if row["error"]}, {
            7: "no tokens", 20: "as the test wants (status 400)", 33: "it has no text 'text'"})
        self.assertEqual([row["embedding"] for row in rows],
                         [None if i in (7, 20, 33) else vector(f"text {i}") for i in range(50)])
        self.assertEqual((result.errors, len(result.examples)), (3, 3))
        report = verify(job, self.out, deep=True)
        self.assertEqual((report.wrong, report.errors), ([], 3))

    def test_a_row_that_always_fails_has_an_error_if_the_host_works(self):
        self.fail = lambda texts: 500 if "text 9" in texts else None
        (result,) = self.run_all(self.prepare(self.texts(20)))
        self.assertEqual([row["id"] for row in self.rows() if row["error"]], [9])
        self.assertEqual(result.errors, 1)

    def test_a_row_that_fails_once_has_its_vector(self):
        failed = collections.Counter()

        def once(texts):
            failed[texts[0]] += 1
            return 500 if texts[0] == "text 8" and failed[texts[0]] == 1 else None

        self.fail = once
        self.run_all(self.prepare(self.texts(20)))
        self.assertEqual([row["error"] for row in self.rows()], [None] * 20)

    def test_a_host_on_which_everything_fails_is_unavailable(self):
        job = self.prepare(self.texts(20))
        self.fail = lambda texts: 500
        with self.assertRaises(BillowUnavailable):
            self.run_all(job)
        self.assertEqual(list((self.dir / "out").glob("*part-*")), [])

    def test_a_busy_host_is_asked_again(self):
        job = self.prepare(self.texts(20))
        left = [4]

        def busy(texts):
            left[0] -= 1
            return 503 if left[0] >= 0 else None

        self.fail = busy
        self.patience_s = 60
        (result,) = self.run_all(job)
        self.assertEqual((result.counts["busy"], result.errors), (4, 0))

    def test_a_host_that_stays_busy_is_unavailable_after_the_patience(self):
        job = self.prepare(self.texts(20))
        self.fail = lambda texts: 503
        with self.assertRaisesRegex(BillowUnavailable, "did nothing for 1 s: as the test wants"):
            self.run_all(job)

    def test_a_host_without_billow_is_unavailable(self):
        job = self.prepare(self.texts(20))
        self.server.close()
        with self.assertRaisesRegex(BillowUnavailable, "no answer"):
            self.run_all(job)

    def test_an_answer_that_is_wrong_is_not_stored(self):
        job = self.prepare(self.texts(3))
        for answer in ({"data": []}, {"data": [coded("a")] * 2}, {"data": [{"embedding": "AAA"}] * 3}, {"data": [{"embedding": "AAAA"}] * 3}, b"x"):
            self.server.answers["POST /v1/embeddings"] = lambda body, answer=answer: self.embedded(body) if body["input"] == ["billow"] else answer
            with self.assertRaisesRegex(BillowUnavailable, "wrong answer"):
                self.run_all(job)

    def test_too_many_errors_stop_the_job(self):
        path = self.lines([{"id": i, "text": "empty"} for i in range(4)] + [{"id": 4, "text": "a"}])
        with self.assertRaisesRegex(InputFault, "more than 3 rows have errors.*row 0: no tokens"):
            self.run_all(self.prepare(path))
        self.assertEqual(list((self.dir / "out").glob("part-*")), [])

    def test_other_weights_are_refused_with_both_digests(self):
        job = self.prepare(self.texts(3))
        self.server.answers["POST /api/show"] = {**SHOWN, "modelfile": f"FROM /models/blobs/sha256-{'d' * 64}\n"}
        with self.assertRaisesRegex(JobError, "d{64}.*c{64}"):
            self.run_all(job)
        with self.assertRaisesRegex(JobError, "another job: fingerprint .* is not .*weights"):
            self.prepare(self.texts(3))

    def test_adapters_messages_and_projectors_change_the_digests(self):
        seen = set()
        for change in ({}, {"modelfile": f"{SHOWN['modelfile']}ADAPTER /models/blobs/sha256-{'d' * 64}\n"},
                       {"messages": [{"role": "assistant", "content": "YES"}]}, {"modelfile": f"{SHOWN['modelfile']}PARSER p\n"},
                       {"modelfile": f"{SHOWN['modelfile']}FROM /models/blobs/sha256-{'e' * 64}\n"}):
            self.server.answers["POST /api/show"] = {**SHOWN, **change}
            seen.add(self.billow().digests("m"))
        self.assertEqual(len(seen), 5)
        self.assertEqual(len({weights for weights, _ in seen}), 2)
        self.assertEqual(len({text for _, text in seen}), 4)

    def test_an_absent_model_is_an_error_of_the_job(self):
        job = self.prepare(self.texts(3))
        self.server.answers["POST /api/show"] = (404, {"error": "model 'm' not found"})
        with self.assertRaisesRegex(JobError, "model 'm' not found"):
            self.run_all(job)

    def test_verify_finds_lost_doubled_and_foreign_parts(self):
        job = self.prepare(self.texts(40), shard_rows=10)
        self.run_all(job)
        first, second = (self.dir / "out" / name for name in part_names(job)[:2])
        whole = first.read_bytes()
        first.unlink()
        self.assertIn("is missing", verify(job, self.out).wrong[0])
        first.write_bytes(second.read_bytes())
        self.assertIn("it is of shard 1", verify(job, self.out).wrong[0])
        first.write_bytes(whole[:-9])
        self.assertIn("cannot be read", verify(job, self.out).wrong[0])
        table = pq.read_table(second)
        footer = {key: value for key, value in table.schema.metadata.items() if key.startswith(b"billow.")} if table.schema.metadata else {}
        footer = footer or {key: value for key, value in pq.read_metadata(second).metadata.items() if key.startswith(b"billow.")}
        doubled = pa.concat_tables([table.slice(0, 1), table.slice(0, len(table) - 1)]).replace_schema_metadata(footer)
        first.write_bytes(whole)
        pq.write_table(doubled, second)
        self.assertEqual(verify(job, self.out).wrong, [])
        self.assertIn("one is there twice", verify(job, self.out, deep=True).wrong[0])
        (self.dir / "out" / "part-000000-0123456789abcdef.parquet").write_bytes(b"")
        self.assertIn("not a part of this job", verify(job, self.out).wrong[0])


class Stage(Fake):
    def test_adds_vectors_and_errors_to_a_batch(self):
        stage = BillowEmbed("m", host=self.server.host, batch_size=2)
        out = stage({"text": numpy.array(["text 1", None, "empty", "text 44"], object), "id": numpy.arange(4)})
        self.assertEqual(out["embedding"].shape, (4, 2))
        self.assertEqual(out["embedding"][[0, 3]].tolist(), [vector("text 1"), vector("text 44")])
        self.assertTrue(numpy.isnan(out["embedding"][[1, 2]]).all())
        self.assertEqual(out["error"].tolist(), [None, "it has no text 'text'", "no tokens", None])
        self.assertEqual(out["id"].tolist(), [0, 1, 2, 3])


class Commands(Fake):
    def command(self, *words, status=0, environment=None):
        variables = {**os.environ, "BILLOW_HOST": self.server.host, **(environment or {})}
        done = subprocess.run([sys.executable, "-m", "billow_ray", *map(str, words)], env=variables, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def plan(self, path, *words, status=0):
        return self.command("embed", "-m", "m", "--in", path, "--out", self.dir / "out", "--shard-rows", 10, "--plan-only", *words, status=status)

    def test_an_array_of_tasks_does_all_shards_once(self):
        self.assertRegex(self.plan(self.texts(55), "--keep", "id").stdout, r"^\d shards of about 5\d rows: ")
        threads = [threading.Thread(target=self.command, args=("shard", "--job", self.dir / "out", "--index", i, "--of", 3)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(self.asked()), sorted(f"text {i}" for i in range(55)))
        report = json.loads(self.command("verify", self.dir / "out", "--deep", "--json").stdout)
        self.assertEqual((report["rows"], report["wrong"]), (55, []))

    def test_the_index_comes_from_the_array(self):
        self.plan(self.texts(30))
        for name in ("SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"):
            self.assertRegex(self.command("shard", "--job", self.dir / "out", environment={name: "1"}).stdout, "^shard 1: p")

    def test_exit_statuses(self):
        path = self.texts(30)
        self.plan(path, "--max-errors", 0)
        self.assertIn("the job has", self.command("shard", "--job", self.dir / "out", "--index", 99, status=1).stderr)
        self.assertIn("has no job", self.command("shard", "--job", self.dir, "--index", 0, status=1).stderr)
        self.assertIn("is missing", self.command("verify", self.dir / "out", status=1).stderr)
        self.assertIn("fingerprint sha256", self.plan(path, "--prefix", "x", status=1).stderr)
        self.assertIn("no column", self.plan(self.parquet(), status=65).stderr)
        self.command("shard", status=2)
        self.assertIn("SLURM_ARRAY_TASK_ID", self.command("shard", "--job", self.dir / "out", status=1).stderr)
        refused = self.command("shard", "--job", self.dir / "out", "--index", 0, "--host", "127.0.0.1:9", "--patience", 0.2, status=75).stderr
        self.assertRegex(refused, "^billow-ray: error: Billow at 127.0.0.1:9 did nothing for 0 s: no answer: .*\n$")
        self.fail = lambda texts: 400 if "text 1" in texts else None
        self.assertIn("--max-errors", self.command("shard", "--job", self.dir / "out", "--index", 0, status=65).stderr)

    def parquet(self):
        path = self.dir / "b.parquet"
        pq.write_table(pa.table({"body": ["a"]}), path)
        return path

    def test_rows_with_errors_of_other_tasks_count(self):
        self.plan(self.lines([{"text": "empty"} for _ in range(40)]), "--max-errors", 25)
        n_shards = len(json.loads((self.dir / "out/_job.json").read_text())["shards"])
        self.assertGreaterEqual(n_shards, 3)
        statuses = []
        for i in range(n_shards):
            done = subprocess.run([sys.executable, "-m", "billow_ray", "shard", "--job", self.dir / "out", "--index", str(i)],
                                  env={**os.environ, "BILLOW_HOST": self.server.host}, capture_output=True, text=True, check=False)
            statuses.append(done.returncode)
        self.assertEqual(statuses[:2], [0, 0])
        self.assertIn(65, statuses)
        self.command("shard", "--job", self.dir / "out", "--index", n_shards - 1, "--max-errors", "-1")


class Real(Case):
    """The real program, with generated models."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        made = pathlib.Path(folder.name) / "made"
        made.mkdir()
        subprocess.run([ARGS.make_models, str(made), "--to-serve"], check=True, capture_output=True)
        cls.server = Server(folder.name, ["--threads", "1"], program=str(pathlib.Path(ARGS.billow).resolve()))
        cls.addClassCleanup(cls.server.stop)
        for name in ("encoder", "ranker", "writer"):
            cls.server.add_model(name, made / f"{name}.gguf")

    def billow(self):
        billow = Billow(f"127.0.0.1:{self.server.port}")
        self.addCleanup(billow.close)
        return billow

    def job(self, wish):
        return prepare(wish, self.out, self.billow())

    def run_all(self, job):
        results = [run_shard(job.head(i), self.out, self.billow()) for i in range(len(job.shards))]
        self.assertEqual(verify(job, self.out, deep=True).wrong, [])
        return results

    def test_vectors_and_fingerprint_equal_the_programs(self):
        texts = [f"a text {i}" for i in range(300)]
        job = self.job(Wish("embed", "encoder", [self.lines({"text": text} for text in texts)], {"text": "text"}, shard_rows=90,
                            settings={"prefix": "query: ", "truncate": "left"}))
        self.run_all(job)
        expected = self.server.json("POST", "/api/embed", {"model": "encoder", "input": ["query: " + text for text in texts]})["embeddings"]
        vectors = numpy.array([row["embedding"] for row in self.rows()])
        self.assertLess(numpy.abs(vectors - numpy.array(expected)).max(), 1e-6)
        done = subprocess.run([self.server.program, "fingerprint", "--model", "encoder", "--prefix", "query: ", "--truncate", "left"],
                              env=self.server.environment, capture_output=True, text=True, check=True)
        self.assertEqual(job.recipe.fingerprint, done.stdout.strip())

    def test_a_text_without_tokens_costs_one_row(self):
        long = "word " * 5000
        job = self.job(Wish("embed", "encoder", [self.lines([{"text": "a"}, {"text": long}, {"text": "b"}])], {"text": "text"},
                            settings={"truncate": "none"}))
        (result,) = self.run_all(job)
        self.assertEqual([bool(row["error"]) for row in self.rows()], [False, True, False])
        self.assertEqual(result.errors, 1)

    def test_cut_texts_are_counted(self):
        job = self.job(Wish("embed", "encoder", [self.lines([{"text": "a"}, {"text": "word " * 5000}])], {"text": "text"}))
        (result,) = self.run_all(job)
        self.assertEqual((result.errors, result.counts["shortened"]), (0, 1))

    def test_scores_equal_the_servers(self):
        pairs = [{"query": f"q {i}", "documents": [f"d {i} {k}" for k in range(3)]} for i in range(10)]
        self.run_all(self.job(Wish("rerank", "ranker", [self.lines(pairs)], {"query": "query", "documents": "documents"})))
        for row, pair in zip(self.rows(), pairs):
            answer = self.server.json("POST", "/v1/rerank", {"model": "ranker", **pair})
            expected = {entry["index"]: entry["relevance_score"] for entry in answer["results"]}
            self.assertEqual(len(row["scores"]), 3)
            for k, score in enumerate(row["scores"]):
                self.assertAlmostEqual(score, expected[k], places=5)

    def test_answers_to_prompts_and_messages(self):
        options = {"num_predict": 5, "temperature": 0}
        job = self.job(Wish("generate", "writer", [self.lines({"prompt": f"word {i}"} for i in range(6))], {"prompt": "prompt"},
                            settings={"options": options}, shard_rows=4))
        self.run_all(job)
        rows = self.rows()
        self.assertEqual(len(rows), 6)
        answer = self.server.json("POST", "/api/generate", {"model": "writer", "prompt": "word 3", "stream": False, "options": options})
        self.assertEqual((rows[3]["response"], rows[3]["output_tokens"], rows[3]["finish_reason"]),
                         (answer["response"], answer["eval_count"], answer["done_reason"]))

    def test_a_row_with_an_empty_prompt_has_an_error(self):
        job = self.job(Wish("generate", "writer", [self.lines([{"prompt": ""}, {"prompt": "a"}])], {"prompt": "prompt"},
                            settings={"options": {"num_predict": 2}}))
        (result,) = self.run_all(job)
        self.assertEqual([row["error"] for row in self.rows()], ["the prompt is empty", None])
        self.assertEqual(([row["response"] is None for row in self.rows()], result.errors), ([True, False], 1))

    def test_messages_are_sent_as_a_chat(self):
        talks = [[{"role": "user", "content": f"word {i}"}] for i in range(3)]
        options = {"num_predict": 4, "temperature": 0}
        self.run_all(self.job(Wish("generate", "writer", [self.lines({"talk": talk} for talk in talks)], {"messages": "talk"},
                                   settings={"options": options, "system": "be brief"})))
        messages = [{"role": "system", "content": "be brief"}, *talks[1]]
        answer = self.server.json("POST", "/api/chat", {"model": "writer", "messages": messages, "stream": False, "options": options})
        self.assertEqual(self.rows()[1]["response"], answer["message"]["content"])

    def test_a_model_that_cannot_do_the_operation_is_refused(self):
        with self.assertRaisesRegex(JobError, "does not support"):
            self.job(Wish("generate", "encoder", [self.lines([{"prompt": "a"}])], {"prompt": "prompt"}))


if __name__ == "__main__":
    run_cases(REST)
