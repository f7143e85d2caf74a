"""The pure parts of billow-ray: shards of files, rows of shards, names of parts, fingerprints, storage. Needs no server."""

import json
import pathlib
import random
import socket
import tempfile
import threading
import unittest
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

from billow_ray import job as jobs
from billow_ray import plan, reading, storage
from billow_ray.client import Answer, Billow, address_of
from billow_ray.errors import InputFault, JobError
from billow_ray.recipe import embed_recipe, generate_recipe, rerank_recipe
from run_cases import run_cases

WEIGHTS = "sha256:" + "a" * 64


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def table(self, name, n, group_rows, **columns):
        columns = columns or {"id": pa.array(range(n), pa.int64()), "text": [f"text {i}" for i in range(n)]}
        pq.write_table(pa.table(columns), self.dir / name, row_group_size=group_rows)
        return str(self.dir / name)

    def lines(self, name, text):
        (self.dir / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(self.dir / name)

    def job(self, *uris, shard_rows=10, roles=None, keep=(), recipe=None):
        columns = plan.Columns(roles or {"text": "text"}, keep)
        inputs, shards = plan.plan_shards(uris, columns, shard_rows)
        return jobs.Job(op="embed", model="m", recipe=recipe or embed_recipe(WEIGHTS), columns=columns.roles, keep=columns.keep,
                        keep_schema=columns.schema, dtype="float32", dimensions=4, batch_rows=8, jobs=2, max_errors=0,
                        inputs=inputs, shards=shards)

    def read(self, job):
        """(position, row or error, kept values) of all rows, shard by shard, and the bytes of each shard."""
        rows, spans = [], []
        for shard in job.shards:
            reader = reading.ShardReader(job.head(shard.number))
            for block in reader:
                kept = block.kept.to_pylist() if job.keep else [{}] * len(block.rows)
                rows += [(at, row if error is None else ValueError(error), values)
                         for at, row, error, values in zip(block.positions, block.rows, block.errors, kept)]
            spans.append((reader.begin, reader.end))
        return rows, spans


class Cuts(unittest.TestCase):
    def test_groups_are_covered_once_whatever_their_sizes(self):
        chance = random.Random(3)
        for _ in range(300):
            groups = [chance.choice((0, 1, 5, 99, 100, 101, 149, 151, 1000)) for _ in range(chance.randrange(12))]
            target = chance.choice((1, 10, 100, 5000))
            starts = [sum(groups[:i]) for i in range(len(groups) + 1)]
            rows = []
            for begin, end, skip, first, n in plan.cut_groups(groups, target):
                self.assertGreater(n, 0)
                self.assertEqual(first, starts[begin] + skip)
                self.assertLessEqual(first + n, starts[end])
                self.assertLessEqual(n, max(target + target // 2, 1))
                rows += range(first, first + n)
            self.assertEqual(rows, list(range(sum(groups))))

    def test_bytes_are_covered_once(self):
        for size in (0, 1, 999, 1000, 1001, 12345):
            cuts = list(plan.cut_bytes(size, 1000, 10.0))
            self.assertEqual([cut[0] for cut in cuts], ([0] + [cut[1] for cut in cuts])[:len(cuts)])
            self.assertEqual(cuts[-1][1] if cuts else 0, size)


class Plans(Folder):
    def test_the_same_files_give_the_same_parts(self):
        paths = [self.table("b.parquet", 95, 20), self.lines("a.jsonl", '{"text":"x"}\n' * 50)]
        one, two = self.job(*paths), self.job(*paths)
        self.assertEqual(jobs.part_names(one), jobs.part_names(two))
        self.assertEqual(len(set(jobs.part_names(one))), len(one.shards))
        other = self.job(*paths, recipe=embed_recipe(WEIGHTS, prefix="query: "))
        self.assertFalse(set(jobs.part_names(one)) & set(jobs.part_names(other)))

    def test_a_folder_gives_its_files_in_order_and_leaves_hidden_ones_out(self):
        self.table("b.parquet", 5, 5)
        self.lines("a.jsonl", '{"text":"x"}\n')
        self.lines("_job.json", "{}")
        (self.dir / "_old").mkdir()
        self.table("_old/c.parquet", 5, 5)
        self.lines("notes.md", "x")
        job = self.job(str(self.dir))
        self.assertEqual([source.path for source in job.inputs], [str(self.dir / "a.jsonl"), str(self.dir / "b.parquet")])

    def test_wrong_inputs_are_refused_by_name(self):
        good = self.table("a.parquet", 5, 5)
        for uris, roles, words in (
                (["/nowhere/x.parquet"], None, "no such file"), ([self.lines("a.csv", "x")], None, "must end in"),
                ([good], {"text": "body"}, "no column 'body'; it has id, text"), ([good], {"text": "id"}, "is int64, not text"),
                ([self.lines("bad.parquet", "no")], None, "bad.parquet"),
                ([self.lines("z.jsonl", b"\x1f\x8b\x08rest")], None, "compressed"), ([good, good], None, "twice")):
            with self.assertRaises(JobError) as caught:
                self.job(*uris, roles=roles)
            self.assertIn(words, str(caught.exception))

    def test_copied_columns_must_have_one_type(self):
        one = self.table("a.parquet", 5, 5)
        two = self.table("b.parquet", 2, 2, id=["x", "y"], text=["a", "b"])
        with self.assertRaisesRegex(InputFault, "column 'id' is string, but int64 in"):
            self.job(one, two, keep=["id"])

    def test_the_job_file_gives_the_job_back(self):
        job = self.job(self.table("a.parquet", 95, 20), keep=["id"])
        self.assertEqual(jobs.from_json(jobs.to_json(job).encode(), "x"), job)
        for text in (b"", b"{}", b"[1]", jobs.to_json(job).replace('"prefix": ""', '"prefix": "x"').encode()):
            with self.assertRaises(JobError):
                jobs.from_json(text, "x")

    def test_another_job_is_refused_with_both_values(self):
        path = self.table("a.parquet", 95, 20)
        job, other = self.job(path), self.job(path, recipe=embed_recipe(WEIGHTS, dimensions=64))
        with self.assertRaises(JobError) as caught:
            jobs.check_same(job, other, "out")
        for words in (job.recipe.fingerprint, other.recipe.fingerprint, "dimensions 0 is not 64"):
            self.assertIn(words, str(caught.exception))
        jobs.check_same(job, self.job(path, shard_rows=7), "out")  # the plan of the folder holds
        self.table("a.parquet", 96, 20)
        with self.assertRaisesRegex(JobError, "has changed"):
            jobs.check_same(job, self.job(path), "out")


class Rows(Folder):
    def test_parquet_rows_are_read_once_and_in_order(self):
        for n, group_rows, shard_rows in ((0, 5, 10), (1, 5, 10), (95, 20, 10), (95, 7, 30), (5000, 5000, 700), (3000, 100, 1300)):
            job = self.job(self.table("a.parquet", n, group_rows), shard_rows=shard_rows, keep=["id"])
            rows, _ = self.read(job)
            self.assertEqual(rows, [(i, f"text {i}", {"id": i}) for i in range(n)])

    def test_lines_are_read_once_wherever_the_cuts_are(self):
        chance = random.Random(5)
        for round_number in range(60):
            parts, expected, at = [], [], 0
            for i in range(chance.randrange(40)):
                kind = chance.random()
                text = "" if kind < 0.2 else "  " if kind < 0.25 else json.dumps({"text": "é" * chance.choice((0, 1, 30, 300)), "n": i})
                line = (text + chance.choice(("\n", "\r\n"))).encode()
                if text.strip():
                    expected.append((at, json.loads(text)["text"], {"n": i}))
                parts.append(line)
                at += len(line)
            data = b"".join(parts)
            if round_number % 2 and data:
                data = data.rstrip(b"\r\n")
            job = self.job(self.lines("a.jsonl", data), shard_rows=chance.choice((1, 3, 100)), keep=["n"] if expected else [])
            rows, spans = self.read(job)
            self.assertEqual([row[:2] for row in rows], [row[:2] for row in expected])
            if expected:
                self.assertEqual(rows, expected)
            self.assertEqual([begin for begin, _ in spans], ([0] + [end for _, end in spans])[:len(spans)])
            self.assertEqual(spans[-1][1] if spans else 0, len(data))

    def test_a_bad_row_has_an_error_that_says_why(self):
        deep = '{"text":"a","n":%s}' % ("[" * 200_000 + "]" * 200_000)
        text = deep + '\n{"text":"a","n":1}\n[1]\nnonsense\n{"n":2}\n{"text":7}\n{"text":"b","n":"x"}\n{"text":"c"}\n'
        rows, _ = self.read(self.job(self.lines("a.jsonl", '{"text":"0","n":0}\n' * 1000 + text), shard_rows=9999, keep=["n"]))
        self.assertEqual([str(row[1]) for row in rows[1000:]], [
            "it is not a JSON object", "a", "it is not a JSON object", "it is not a JSON object", "it has no text 'text'", "it has no text 'text'",
            "its 'n' is not int64", "c"])
        path = self.table("a.parquet", 3, 3, text=pa.array(["a", None, "c"]))
        self.assertEqual([str(row[1]) for row in self.read(self.job(path))[0]], ["a", "it has no text 'text'", "c"])

    def test_a_line_that_is_too_long_costs_one_row(self):
        limit, reading.MAX_LINE_BYTES = reading.MAX_LINE_BYTES, 2000
        self.addCleanup(setattr, reading, "MAX_LINE_BYTES", limit)
        chunk, reading._CHUNK_BYTES = reading._CHUNK_BYTES, 512
        self.addCleanup(setattr, reading, "_CHUNK_BYTES", chunk)
        lines = ['{"text":"a"}', '{"text":"%s"}' % ("x" * 5000), '{"text":"b"}', '{"text":"%s"}' % ("y" * 1500)]
        for shard_rows in (1, 2, 100):
            rows, _ = self.read(self.job(self.lines("a.jsonl", "\n".join(lines)), shard_rows=shard_rows))
            self.assertEqual([str(row[1])[:24] for row in rows], ["a", "it is longer than 64 MiB", "b", "y" * 24])

    def test_pairs_and_messages(self):
        roles = {"query": "q", "documents": "d"}
        path = self.lines("a.jsonl", '{"q":"x","d":["a","b"]}\n{"q":"x","d":"a"}\n{"q":"x","d":[]}\n{"d":["a"]}\n')
        rows = [row[1] for row in self.read(self.job(path, roles=roles))[0]]
        self.assertEqual([(row.query, row.documents) for row in rows[:2]], [("x", ["a", "b"]), ("x", ["a"])])
        self.assertEqual([str(row) for row in rows[2:]], ["it has no documents 'd'", "it has no text 'q'"])
        talk = [{"role": "user", "content": "hi"}]
        for values in ([talk, None], [json.dumps(talk), "[" * 200_000 + "]" * 200_000]):
            path = self.table("a.parquet", 2, 2, m=values)
            rows = [row[1] for row in self.read(self.job(path, roles={"messages": "m"}))[0]]
            self.assertEqual((rows[0], str(rows[1])), (talk, "it has no messages 'm'"))

    def test_a_changed_file_is_refused(self):
        path = self.lines("a.jsonl", '{"text":"a"}\n')
        job = self.job(path)
        self.lines("a.jsonl", '{"text":"ab"}\n')
        with self.assertRaisesRegex(InputFault, "has changed"):
            self.read(job)


class Recipes(unittest.TestCase):
    def test_each_field_changes_the_fingerprint(self):
        recipes = [embed_recipe(WEIGHTS), embed_recipe(WEIGHTS, dimensions=2), embed_recipe(WEIGHTS, normalize=False),
                   embed_recipe(WEIGHTS, pooling="cls"), embed_recipe(WEIGHTS, prefix="x"), embed_recipe(WEIGHTS, truncate="left"),
                   embed_recipe("sha256:" + "b" * 64), rerank_recipe(WEIGHTS), rerank_recipe(WEIGHTS, raw_scores=True),
                   generate_recipe(WEIGHTS, "t"), generate_recipe(WEIGHTS, "u"), generate_recipe(WEIGHTS, "t", system="x"),
                   generate_recipe(WEIGHTS, "t", format="json"), generate_recipe(WEIGHTS, "t", options={"seed": 1})]
        self.assertEqual(len({recipe.fingerprint for recipe in recipes}), len(recipes))


class Addresses(unittest.TestCase):
    def test_forms_of_an_address(self):
        for text, expected in (("127.0.0.1:11434", ("127.0.0.1", 11434)), ("0.0.0.0", ("127.0.0.1", 11434)), ("h:1", ("h", 1)),
                               ("http://h:5/", ("h", 5)), ("http://h", ("h", 80)), ("[::1]:7", ("::1", 7)), (":8080", ("127.0.0.1", 8080))):
            self.assertEqual(address_of(text), expected, text)
        for text in ("https://h", "h:port", "h:99999"):
            with self.assertRaises(JobError):
                address_of(text)

    def test_waits_as_long_as_the_server_asks_within_limits(self):
        for asked, expected in (("1", 1.0), ("99", 5.0), ("", 0.1), ("soon", 0.1)):
            self.assertEqual(Answer(503, {"retry-after": asked}, b"").seconds_to_wait(), expected)

    def test_an_answer_may_take_hours_but_a_lost_host_is_noticed(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def answer():
                peer, _ = server.accept()
                with peer:
                    peer.recv(65536)
                    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                    peer.recv(1)  # until the client has closed

            thread = threading.Thread(target=answer)
            thread.start()
            billow = Billow(f"127.0.0.1:{server.getsockname()[1]}")
            self.assertEqual(billow.get("/").json(), {})
            (connection,) = billow._connections
            self.assertGreaterEqual(connection.sock.gettimeout(), 3600)
            self.assertEqual(connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1)
            self.assertLessEqual(connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), 60)
            billow.close()
            thread.join()


class Storage(Folder):
    def test_a_file_appears_whole_or_not_at_all(self):
        place = storage.place_of(str(self.dir)).child("a")
        publication = storage.Publication(place)
        publication.sink.write(b"half")
        self.assertIsNone(storage.fact_of(place))
        publication.abandon()
        self.assertEqual(list(self.dir.iterdir()), [])
        storage.publish_bytes(place, b"one")
        storage.publish_bytes(place, b"two")
        self.assertEqual([path.name for path in self.dir.iterdir()], ["a"])
        self.assertEqual(storage.read_bytes(place), b"two")

    def test_the_first_of_two_creators_wins(self):
        for uri in (str(self.dir), f"memory://{uuid.uuid4()}"):
            place = storage.place_of(uri).child("job")
            self.assertEqual(storage.create_bytes(place, b"one"), b"one")
            self.assertEqual(storage.create_bytes(place, b"two"), b"one")
        self.assertEqual([path.name for path in self.dir.iterdir()], ["job"])

    def test_what_killed_writers_left_is_removed(self):
        storage.Publication(storage.place_of(str(self.dir)).child("a")).sink.write(b"half")
        storage.publish_bytes(storage.place_of(str(self.dir)).child("b"), b"x")
        self.assertEqual(len(list(self.dir.iterdir())), 2)
        storage.remove_temporary_files(storage.place_of(str(self.dir)))
        self.assertEqual([path.name for path in self.dir.iterdir()], ["b"])

    def test_an_unknown_scheme_is_an_error(self):
        with self.assertRaises(JobError):
            storage.place_of("nosuch://x/y")


if __name__ == "__main__":
    run_cases()
