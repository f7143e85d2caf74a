"""billow-ray on a cluster of Ray: two simulated hosts, each with a Billow, and a head. Processes are killed meanwhile.

ray_cluster_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
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

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
ARGS, REST = parser.parse_known_args()

ROWS = 12_000
SHARD_ROWS = 500
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

    def parts(self, out):
        return sorted((self.dir / out).glob("part-*.parquet"))

    def wait_for_parts(self, out, n, process):
        deadline = time.monotonic() + 120
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

    def test_1_all_hosts_work_and_every_row_is_there_once(self):
        process = self.begin("whole")
        self.assertEqual(process.wait(120), 0, self.log("whole"))
        summary = self.check("whole")
        self.assertEqual((summary["rows"], summary["errors"], summary["wrong"], summary["shards_lost"]), (ROWS, 0, [], 0))
        self.assertEqual(set(summary["nodes"]), {"one", "two"})
        again = self.begin("whole")
        self.assertEqual(again.wait(60), 0, self.log("whole"))
        self.assertIn(f"continuing after {summary['shards']}", self.log("whole"))

    def test_2_killed_workers_billows_and_hosts_lose_no_row(self):
        process = self.begin("killed")
        one, two = self.hosts
        self.wait_for_parts("killed", 2, process)
        self.assertGreater(two.kill(TASK), 0)
        self.wait_for_parts("killed", 5, process)
        self.assertGreater(one.kill(["serve --node-name"]), 0)
        time.sleep(0.5)
        self.start_billow(one)
        self.wait_for_parts("killed", 10, process)
        two.kill_all()
        self.start_billow(two)
        two.start_ray(self.head)
        self.assertEqual(process.wait(120), 0, self.log("killed"))
        summary = self.check("killed")
        self.assertEqual((summary["rows"], summary["wrong"]), (ROWS, []))
        self.assertGreater(summary["shards_lost"], 0)
        self.assertIn("was lost and runs again", self.log("killed"))
        self.assertEqual([path.name for path in (self.dir / "killed").iterdir() if path.name.startswith(".tmp")], [])

    def test_3_a_killed_driver_continues_where_it_was(self):
        process = self.begin("driver")
        self.wait_for_parts("driver", 6, process)
        done = {part.name: part.stat().st_mtime_ns for part in self.parts("driver")}
        self.head.kill(["-m billow_ray embed"])
        self.assertEqual(process.wait(30), -signal.SIGKILL)
        again = self.begin("driver")
        began = time.monotonic()
        self.wait_for_parts("driver", len(done) + 4, again)  # at most two shards of each host were in flight
        print(f"a new part {time.monotonic() - began:.1f} s after the driver's start, load {os.getloadavg()[0]:.1f}", flush=True)
        self.assertEqual(again.wait(120), 0, self.log("driver"))
        self.check("driver")
        self.assertEqual({part.name: part.stat().st_mtime_ns for part in self.parts("driver") if part.name in done}, done)

    def test_4_a_host_without_billow_does_not_hold_the_job(self):
        one, two = self.hosts
        two.kill(["serve --node-name"])
        try:
            process = self.begin("lame", "--patience", "2")
            self.assertEqual(process.wait(120), 0, self.log("lame"))
            summary = self.check("lame")
            self.assertEqual(set(summary["nodes"]), {"one"})
            self.assertIn("did nothing for 2 s", self.log("lame"))
        finally:
            self.start_billow(two)

    def test_5_another_fingerprint_is_refused(self):
        process = self.begin("whole", "--prefix", "query: ")
        self.assertEqual(process.wait(60), 1)
        self.assertRegex(self.log("whole"), r"fingerprint sha256:\w+ is not sha256:\w+ \(prefix '' is not 'query: '\)")


if __name__ == "__main__":
    why_not = simulated_hosts.available()
    if why_not:
        print(f"skipped: {why_not}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], "-v", *REST])
