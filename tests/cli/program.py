"""Shared by tests of the program: runs it like a user, and checks the form of its errors."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "server"))
from ports import free_port  # noqa: E402, F401
from run_cases import run_cases  # noqa: E402

ARGS = argparse.Namespace()


def billow(*args, stdin=b"", env=None):
    environment = dict(os.environ, **(env or {}))
    return subprocess.run([ARGS.billow, *map(str, args)], input=stdin, capture_output=True, env=environment, timeout=300)


class ProgramTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.dir = pathlib.Path(cls.folder.name)
        subprocess.run([ARGS.make_models, str(cls.dir)], check=True, capture_output=True)
        cls.model = sorted(cls.dir.glob("llama*.gguf"))[0]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def ok(self, *args, **kwargs):
        done = billow(*args, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout

    def refused(self, *args, names, status=1, **kwargs):
        """Expects one line on standard error that contains `names`, and nothing on standard output."""
        done = billow(*args, **kwargs)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, status, message)
        self.assertEqual(done.stdout, b"")
        self.assertEqual(message.count("\n"), 1, message)
        self.assertTrue(message.startswith("billow: error: "), message)
        for name in names:
            self.assertIn(str(name), message)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--billow", required=True)
    parser.add_argument("--make-models", required=True)
    parser.parse_args(namespace=ARGS)
    run_cases()
