"""billow-ray on a cluster of Ray: two simulated hosts, each with a Billow, and a head. Processes are killed meanwhile.

ray_cluster_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import simulated_hosts
from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
ARGS, REST = parser.parse_known_args()

ROWS = 12_000
SHARD_ROWS = 500
SMALL_SHARD_ROWS = 200
WAIT_S = 900  # a few seconds on a machine with nothing else to do
TASK = ["ray::_task"]  # the name of a worker process while it does a shard


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")  # the hosts do not share /tmp
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)
        made = cls.dir / "made"
        made.mkdir()
        subprocess.run([ARGS.make_models, str(made), "--to-serve"], check=True, capture_output=True)
        cls.network = simulated_hosts.Network(cls.dir / "hosts")
        cls.addClassCleanup(cls.network.close)
        cls.head, *cls.hosts = (cls.network.add(name) for name in ("head", "one", "two"))
        cls.program = str(pathlib.Path(ARGS.billow).resolve())
        cls.models = cls.dir / "models"
        for host in cls.hosts:
            cls.start_billow(host)
        (made / "Modelfile").write_text(f"FROM {made / 'encoder.gguf'}\n")
        create = cls.hosts[0].start([cls.program, "create", "m", "-f", made / "Modelfile"], "create.log",
                                    {"BILLOW_HOST": "127.0.0.1:11434"})
        assert create.wait(60) == 0, (cls.hosts[0].folder / "create.log").read_text()
        cls.head.start_ray()
        for host in cls.hosts:
            host.start_ray(cls.head)
        cls.texts = [f"text number {i} of the table" for i in range(ROWS)]
        pq.write_table(pa.table({"id": pa.array(range(ROWS)), "text": cls.texts}), cls.dir / "in.parquet", row_group_size=1000)

    @classmethod
    def start_billow(cls, host):
        host.start_billow(cls.program, cls.models, ["--threads", "1"])

    def begin(self, out, *words):
        """The driver, on the head. It asks the Billow of the first host for the fingerprint."""
        command = [sys.executable, "-m", "billow_ray", "embed", "-m", "m", "--in", self.dir / "in.parquet", "--out", self.dir / out, "--keep", "id",
                   "--shard-rows", SHARD_ROWS, "--ray-address", f"{self.head.address}:{simulated_hosts.RAY_PORT}", "--patience", "20", *words]
        return self.head.start(command, f"{out}.log", {"BILLOW_HOST": f"{self.hosts[0].address}:11434"})

    def log(self, out):
        return (self.head.folder / f"{out}.log").read_text()

    def wait_for_end(self, process, out, status=0):
        """Waits until the driver has ended with this status."""
        try:
            found = process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            found = f"none after {WAIT_S} s"
        if found != status:
            print(f"load {os.getloadavg()[0]:.1f}", *(host.state() for host in (self.head, *self.hosts)), sep="\n", flush=True)
        self.assertEqual(found, status, self.log(out))

    def parts(self, out):
        return sorted((self.dir / out).glob("part-*.parquet"))

    def wait_for_parts(self, out, n, process):
        deadline = time.monotonic() + WAIT_S
        while len(self.parts(out)) < n:
            self.assertIsNone(process.poll(), self.log(out))
            self.assertLess(time.monotonic(), deadline, self.log(out))
            time.sleep(0.02)

    def check(self, out):
        """Every row is there once, with its own vector."""
        table = pa.concat_tables(pq.read_table(part) for part in self.parts(out))
        self.assertEqual(table.column("id").to_pylist(), list(range(ROWS)))
        self.assertEqual(table.column("error").null_count, ROWS)
        vectors = numpy.array(table.column("embedding").combine_chunks().flatten()).reshape(ROWS, -1)
        if not hasattr(type(self), "expected"):
            type(self).expected = vectors
        self.assertLess(numpy.abs(vectors - self.expected).max(), 1e-6)
        return json.loads((self.dir / out / "_summary.json").read_text())

    def kill_one(self, host, words):
        """Waits until the host runs such a process: between two shards, it has none."""
        deadline = time.monotonic() + WAIT_S
        while host.kill(words) == 0:
            self.assertLess(time.monotonic(), deadline, f"no process of {words} in {WAIT_S} s")
            time.sleep(0.05)

    def whole(self):
        """Returns the summary of the job of all rows, with which others are compared. The first call runs it."""
        if not (self.dir / "whole" / "_summary.json").exists():
            process = self.begin("whole")
            self.wait_for_end(process, "whole")
        return self.check("whole")

    def test_1_all_hosts_work_and_every_row_is_there_once(self):
        summary = self.whole()
        self.assertEqual((summary["rows"], summary["errors"], summary["wrong"], summary["shards_lost"]), (ROWS, 0, [], 0))
        self.assertEqual(set(summary["nodes"]), {"one", "two"})
        again = self.begin("whole")
        self.wait_for_end(again, "whole")
        self.assertIn(f"continuing after {summary['shards']}", self.log("whole"))

    def test_2_killed_workers_billows_and_hosts_lose_no_row(self):
        process = self.begin("killed")
        one, two = self.hosts
        self.wait_for_parts("killed", 2, process)
        self.kill_one(two, TASK)
        self.wait_for_parts("killed", 5, process)
        self.assertGreater(one.kill(["serve --node-name"]), 0)
        time.sleep(0.5)
        self.start_billow(one)
        self.wait_for_parts("killed", 10, process)
        two.kill_all()
        self.start_billow(two)
        two.start_ray(self.head)
        self.wait_for_end(process, "killed")
        summary = self.check("killed")
        self.assertEqual((summary["rows"], summary["wrong"]), (ROWS, []))
        self.assertGreater(summary["shards_lost"], 0)
        self.assertIn("was lost and runs again", self.log("killed"))
        self.assertEqual([path.name for path in (self.dir / "killed").iterdir() if path.name.startswith(".tmp")], [])

    def test_3_a_killed_driver_continues_where_it_was(self):
        # Many small shards: the driver is killed long before the last one.
        process = self.begin("driver", "--shard-rows", SMALL_SHARD_ROWS)
        self.wait_for_parts("driver", 6, process)
        done = {part.name: part.stat().st_mtime_ns for part in self.parts("driver")}
        self.head.kill(["-m billow_ray embed"])
        self.assertEqual(process.wait(30), -signal.SIGKILL)
        again = self.begin("driver", "--shard-rows", SMALL_SHARD_ROWS)
        began = time.monotonic()
        self.wait_for_parts("driver", len(done) + 4, again)  # at most two shards of each host were in flight
        print(f"a new part {time.monotonic() - began:.1f} s after the driver's start, load {os.getloadavg()[0]:.1f}", flush=True)
        self.wait_for_end(again, "driver")
        self.check("driver")
        self.assertEqual({part.name: part.stat().st_mtime_ns for part in self.parts("driver") if part.name in done}, done)

    def test_4_a_host_without_billow_does_not_hold_the_job(self):
        one, two = self.hosts
        two.kill(["serve --node-name"])
        try:
            process = self.begin("lame", "--patience", "2")
            self.wait_for_end(process, "lame")
            summary = self.check("lame")
            self.assertEqual(set(summary["nodes"]), {"one"})
            self.assertIn("did nothing for 2 s", self.log("lame"))
        finally:
            self.start_billow(two)

    def test_6_a_pipeline_of_ray_data_has_a_stage(self):
        script = self.dir / "pipeline.py"
        script.write_text(f"""
import faulthandler
import ray
from billow_ray import BillowEmbed
faulthandler.dump_traceback_later({WAIT_S - 10})
ray.init(address="{self.head.address}:{simulated_hosts.RAY_PORT}", log_to_driver=False)
table = ray.data.read_parquet("{self.dir}/in.parquet").limit(300)
table = table.map_batches(BillowEmbed("m"), batch_size=100, resources={{"billow": 1}})
rows = sorted(table.take_all(), key=lambda row: row["id"])
assert [row["id"] for row in rows] == list(range(300)), len(rows)
assert all(row["error"] is None for row in rows)
print("SUM", float(sum(row["embedding"].sum() for row in rows)))
""")
        process = self.head.start([sys.executable, script], "pipeline.log")
        self.wait_for_end(process, "pipeline")
        self.whole()
        found = float(self.log("pipeline").split("SUM ")[1].split()[0])
        self.assertAlmostEqual(found, float(self.expected[:300].sum()), places=2)

    def test_7_too_many_errors_end_the_job_with_status_65(self):
        pq.write_table(pa.table({"id": [1, 2], "text": ["a", None]}), self.dir / "bad.parquet")
        command = [sys.executable, "-m", "billow_ray", "embed", "-m", "m", "--in", self.dir / "bad.parquet", "--out", self.dir / "bad", "--max-errors", "0",
                   "--ray-address", f"{self.head.address}:{simulated_hosts.RAY_PORT}"]
        process = self.head.start(command, "bad.log", {"BILLOW_HOST": f"{self.hosts[0].address}:11434"})
        self.wait_for_end(process, "bad", 65)
        self.assertIn("row 1: it has no text 'text'", self.log("bad"))

    def test_5_another_fingerprint_is_refused(self):
        self.whole()
        process = self.begin("whole", "--prefix", "query: ")
        self.wait_for_end(process, "whole", 1)
        self.assertRegex(self.log("whole"), r"fingerprint sha256:\w+ is not sha256:\w+ \(prefix '' is not 'query: '\)")


class OneHost(unittest.TestCase):
    """A cluster that the driver starts itself, on this machine. Needs no root rights."""

    def test_a_killed_worker_costs_no_row(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            made = folder / "made"
            made.mkdir()
            subprocess.run([ARGS.make_models, str(made), "--to-serve"], check=True, capture_output=True)
            server = Server(name, ["--threads", "1"], program=str(pathlib.Path(ARGS.billow).resolve()))
            self.addCleanup(server.stop)
            server.add_model("m", made / "encoder.gguf")
            with (folder / "in.jsonl").open("w") as file:
                file.writelines(json.dumps({"id": i, "text": f"text {i}"}) + "\n" for i in range(6000))
            command = [sys.executable, "-m", "billow_ray", "embed", "-m", "m", "--in", folder / "in.jsonl", "--out", folder / "out", "--keep", "id",
                       "--shard-rows", "300", "--ray-address", "local", "--host", f"127.0.0.1:{server.port}"]
            with (folder / "log").open("w") as log:
                driver = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, start_new_session=True,
                                          env={**os.environ, "HOME": name})  # Ray writes a token there
            self.addCleanup(driver.kill)
            killed = self.kill_a_worker(driver)
            self.assertEqual(driver.wait(WAIT_S), 0, (folder / "log").read_text())
            self.assertIn("was lost and runs again", (folder / "log").read_text(), killed)
            tables = [pq.read_table(part, columns=["id", "error"]) for part in sorted((folder / "out").glob("part-*"))]
            table = pa.concat_tables(tables)
            self.assertEqual((table.column("id").to_pylist(), table.column("error").null_count), (list(range(6000)), 6000))

    def kill_a_worker(self, driver):
        """Kills the first worker that does a shard of this driver. Returns its command line."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and driver.poll() is None:
            for pid in self.descendants(driver.pid):
                with contextlib.suppress(OSError):
                    command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                    if TASK[0] in command:
                        os.kill(pid, signal.SIGKILL)
                        return command
            time.sleep(0.02)
        return "none"

    def descendants(self, pid):
        found = []
        with contextlib.suppress(OSError):
            for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                for child in children.read_text().split():
                    found += [int(child), *self.descendants(int(child))]
        return found


if __name__ == "__main__":
    why_not = simulated_hosts.available()
    if why_not:
        print(f"only one host: {why_not}")
        REST.append("OneHost")
    run_cases(REST)
