"""Tests servers in odd surroundings: closed standard files, a log whose reader ends, a parent that ignores its children, and a
folder of runners that somebody removes.

surroundings_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
options, rest = parser.parse_known_args()


def shell(words):
    """Words before a command, with which a shell runs the command and does `words`."""
    return ("sh", "-c", words, "sh")


class Surroundings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.made = pathlib.Path(folder.name)
        subprocess.run([options.make_models, str(cls.made)], check=True, capture_output=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, **more):
        runtime = self.folder / "runtime"
        runtime.mkdir(mode=0o700)
        server = Server(self.folder, ["--threads", "1", "--memory", "1G"], program=options.billow,
                        variables={"XDG_RUNTIME_DIR": str(runtime), "BILLOW_LOG": "info"}, **more)
        self.addCleanup(server.stop)
        return server

    def add_models(self, server, *names):
        for name in names:
            server.add_model(name, self.made / f"{name}.gguf")

    @staticmethod
    def ask(server, model):
        body = {"model": model, "prompt": "one two three", "stream": False, "options": {"num_predict": 4, "temperature": 0}}
        status, _, text = server.request("POST", "/api/generate", body)
        return status if status == 200 else f"{status} {text}"

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.01)

    def test_removed_folder_of_runners_is_made_again(self):
        server = self.start()
        self.add_models(server, "llama", "qwen2")
        self.assertEqual(self.ask(server, "llama"), 200)
        [before] = server.runners()
        [folder] = (self.folder / "runtime").iterdir()
        shutil.rmtree(folder)
        self.assertEqual(self.ask(server, "qwen2"), 200)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(lambda _: self.ask(server, "llama"), range(8))), [200] * 8)
        server.wait_for_log("was removed")
        self.wait_for(lambda: len(server.runners()) == 2, "two runners")
        self.assertNotIn(before, server.runners())
        [folder] = (self.folder / "runtime").iterdir()
        self.assertEqual(len(list(folder.glob("*.sock"))), 2)

    def test_removed_folder_while_a_model_loads(self):
        server = self.start()
        self.add_models(server, "llama")
        for _ in range(10):
            self.assertEqual(self.ask(server, "llama"), 200)
            server.json("POST", "/api/generate", {"model": "llama", "keep_alive": 0, "stream": False})
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                asked = pool.submit(self.ask, server, "llama")
                for folder in (self.folder / "runtime").iterdir():
                    shutil.rmtree(folder, ignore_errors=True)
                asked.result(300)  # it may fail, but it ends

    def test_removed_runtime_folder_is_replaced(self):
        server = self.start()
        self.add_models(server, "llama")
        shutil.rmtree(self.folder / "runtime")
        self.assertEqual(self.ask(server, "llama"), 200)

    def test_server_and_runners_may_open_all_files_that_the_system_allows(self):
        server = self.start(prefix=shell('ulimit -Sn 200; exec "$@"'))
        self.add_models(server, "llama")
        self.assertEqual(self.ask(server, "llama"), 200)
        for pid in (server.process.pid, *server.runners()):
            [line] = [line for line in pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith("Max open files")]
            soft, hard = (int(number) for number in line.split()[3:5])
            self.assertEqual(soft, min(hard, 1 << 20), line)

    def test_closed_standard_files_stay_empty(self):
        server = self.start(prefix=shell('exec "$@" <&- >&- 2>&-'))
        for number in range(3):
            self.assertEqual(os.readlink(f"/proc/{server.process.pid}/fd/{number}"), "/dev/null")
        self.add_models(server, "llama")
        self.assertEqual(self.ask(server, "llama"), 200)

    def test_messages_do_not_get_into_files(self):
        outputs = []
        for number, words in enumerate(('exec "$@"', 'exec "$@" 2>&-', 'exec "$@" >&- 2>&-', 'exec "$@" <&- >&- 2>&-')):
            output = self.folder / f"{number}.gguf"
            command = [*shell(words), options.billow, "quantize", str(self.made / "llama.gguf"), str(output), "Q8_0"]
            subprocess.run(command, check=True, capture_output=True)
            outputs.append(output.read_bytes())
        self.assertEqual([len(output) for output in outputs], [len(outputs[0])] * 4)
        self.assertEqual(outputs, [outputs[0]] * 4)

    def test_server_outlives_the_reader_of_its_log(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        server = self.start(prefix=shell(f'exec "$@" 2> "{pipe}"'))
        self.add_models(server, "llama")
        os.close(reader)
        for _ in range(3):
            self.assertEqual(self.ask(server, "llama"), 200)
            server.json("POST", "/api/generate", {"model": "llama", "keep_alive": 0, "stream": False})
        self.assertIsNone(server.process.poll())

    def test_other_commands_end_with_the_reader_of_their_output(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([options.billow, "help", "serve"], stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, b""))

    def test_parent_that_ignores_its_children(self):
        ignoring = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
        server = self.start(prefix=(sys.executable, "-c", ignoring))
        self.add_models(server, "llama")
        self.assertEqual(self.ask(server, "llama"), 200)
        [runner] = server.runners()
        os.kill(runner, signal.SIGKILL)
        self.wait_for(lambda: "the runner has ended" in server.log.read_text(), "the end of the runner")
        self.assertIn("the runner has ended: signal 9 (Killed)", server.log.read_text())
        self.assertEqual(self.ask(server, "llama"), 200)

    def test_runner_takes_all_that_its_server_takes(self):
        path = self.folder / "runner.sock"
        command = [options.billow, "runner", "--model", str(self.made / "llama.gguf"), "--socket", str(path)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.wait_for(path.exists, "the socket")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            self.wait_for(lambda: connection.connect_ex(str(path)) == 0, "the listening")  # comes after the file
            connection.sendall(b"POST /completion HTTP/1.1\r\nHost: runner\r\nExpect: 100-continue\r\nContent-Length: 68719476736\r\n\r\n")
            self.assertEqual(connection.recv(64).split(b"\r\n")[0], b"HTTP/1.1 100 Continue")


if __name__ == "__main__":
    run_cases(rest)
