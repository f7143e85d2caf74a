"""deploy/slurm/bulk.sbatch as Slurm runs it, without Slurm: its variables, and a stand-in for scontrol. With the real program.

slurm_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from ports import free_port
from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
ARGS, REST = parser.parse_known_args()

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy/slurm/bulk.sbatch"


class Array(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.bin = self.dir / "bin"
        self.bin.mkdir()
        (self.bin / "billow").symlink_to(pathlib.Path(ARGS.billow).resolve())
        (self.bin / "scontrol").write_text(f'#!/bin/sh\necho "$@" >>{self.dir}/requeued\n')
        (self.bin / "scontrol").chmod(0o755)
        made = self.dir / "made"
        made.mkdir()
        subprocess.run([ARGS.make_models, str(made), "--to-serve"], check=True, capture_output=True)
        server = Server(self.dir, program=str(pathlib.Path(ARGS.billow).resolve()))
        try:
            server.add_model("encoder", made / "encoder.gguf")
            self.models = server.models
            (self.dir / "in.jsonl").write_text("".join(json.dumps({"text": f"text {i}"}) + "\n" for i in range(60)))
            self.ray("embed", "-m", "encoder", "--in", self.dir / "in.jsonl", "--out", self.dir / "out", "--shard-rows", 10, "--plan-only",
                     host=f"127.0.0.1:{server.port}")
        finally:
            server.stop()

    def ray(self, *words, host=""):
        return subprocess.run([sys.executable, "-m", "billow_ray", *map(str, words)], check=True, capture_output=True, text=True,
                              env={**os.environ, "BILLOW_HOST": host}).stdout

    def task(self, index, count, **variables):
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": str(index),
                       "SLURM_ARRAY_TASK_MAX": str(count - 1), "SLURM_ARRAY_JOB_ID": "77", "BULK_JOB": str(self.dir / "out"),
                       "BULK_MODEL": "encoder", "BULK_PORT": str(free_port()), "OLLAMA_MODELS": str(self.models), **variables}
        return subprocess.run(["bash", SCRIPT], env=environment, capture_output=True, text=True, check=False)

    @unittest.skipUnless(shutil.which("shellcheck"), "no shellcheck here; tools/setup packaging installs it")
    def test_shellcheck_finds_nothing(self):
        done = subprocess.run(["shellcheck", SCRIPT], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_the_tasks_of_an_array_do_all_shards(self):
        for index in range(2):
            done = self.task(index, 2)
            self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(self.ray("verify", self.dir / "out", "--deep", "--json"))
        self.assertEqual((report["rows"], report["wrong"]), (60, []))
        self.assertFalse((self.dir / "requeued").exists())

    def test_a_task_whose_billow_does_not_start_fails_with_its_log(self):
        done = self.task(0, 2, BULK_SERVE_OPTIONS="--no-such-option")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--no-such-option", done.stderr)

    def test_a_task_whose_billow_does_not_answer_is_queued_again(self):
        stand_in = self.bin / "python3"
        stand_in.write_text("#!/bin/sh\nexit 75\n")
        stand_in.chmod(0o755)
        done = self.task(1, 2)
        self.assertEqual(done.returncode, 75, done.stderr)
        self.assertEqual((self.dir / "requeued").read_text(), "requeue 77_1\n")


if __name__ == "__main__":
    run_cases(REST)
