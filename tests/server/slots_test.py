"""Slots that are saved, restored and erased over llama-server's routes; the limits of the folders of conversations and packed weights;
and conversations on disk that meet kills, full disks and damage. Saved files change no answer.

slots_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import fcntl
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from run_cases import run_cases
from server import WEIGHTS, Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
options, rest = parser.parse_known_args()

BLOCK = 64  # tokens


def tokens(n, seed):
    source = random.Random(seed)
    return [source.randrange(10, 290) for _ in range(n)]


class Watch(threading.Thread):
    """Measures the bytes of a folder again and again. The folder is locked meanwhile, so that no file grows for another one that has just
    been counted."""

    def __init__(self, folder):
        super().__init__(daemon=True)  # a failed test ends without it
        self.folder = folder
        self.folder.mkdir(exist_ok=True)
        self.ends = threading.Event()
        self.max = self.n = 0
        self.start()

    def run(self):
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        while not self.ends.is_set():
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self.max = max(self.max, bytes_of(self.folder))
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            self.n += 1
            time.sleep(0.002)
        os.close(descriptor)

    def end(self):
        self.ends.set()
        self.join()
        return self.max


def bytes_of(folder):
    """Returns the bytes of the files in a folder and its folders. A file may appear, end or get its name meanwhile."""
    sizes = {}
    for path in pathlib.Path(folder).rglob("*"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if path.is_file() and path.suffix != ".checked":
            sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


class Place(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.made.cleanup)
        subprocess.run([options.make_models, cls.made.name, "--to-serve"], check=True, capture_output=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.servers = []
        self.addCleanup(self.stop_all)

    def stop_all(self):
        for server in self.servers:
            if server.process.poll() is None:
                server.stop()

    def start(self, *arguments, limit="1G", **more):
        server = Server(self.folder, ["--threads", "1", "--sessions-limit", limit, *arguments], options.billow, **more)
        self.servers.append(server)
        return server

    def model(self, name):
        return pathlib.Path(self.made.name) / (name + ".gguf")

    def restart(self, server, *arguments):
        server.stop()
        return self.start(*arguments)

    def complete(self, server, prompt, n=20, **fields):
        body = {"prompt": prompt, "n_predict": n, "cache_prompt": True, "temperature": 0.7, "seed": 3, "ignore_eos": True, **fields}
        return server.json("POST", "/completion", body)

    def slot(self, server, slot, action, filename=None, **fields):
        body = {**({} if filename is None else {"filename": filename}), **fields}
        return server.json("POST", f"/slots/{slot}?action={action}", body)

    def refusal(self, server, path, body):
        status, _, text = server.request("POST", path, body)
        error = json.loads(text)["error"]
        self.assertEqual(error["code"], status)
        return status, error["message"]


class Slots(Place):
    def setUp(self):
        super().setUp()
        self.server = self.start()
        self.server.add_model("m", self.model("writer"))

    def test_a_saved_slot_is_restored_after_a_restart(self):
        prompt = tokens(300, 1)
        answer = self.complete(self.server, prompt, id_slot=1)
        self.assertEqual((answer["id_slot"], answer["timings"]["cache_n"], answer["timings"]["prompt_n"]), (1, 0, 300))
        saved = self.slot(self.server, 1, "save", "slot1.bin")
        self.assertEqual((saved["id_slot"], saved["filename"], saved["n_saved"]), (1, "slot1.bin", 300 + 20 - 1))
        self.assertEqual(saved["n_saved_kv"], 256)
        sessions = self.server.models / "sessions"
        self.assertGreater(saved["n_written"], 4 * saved["n_saved"])
        self.assertLessEqual(saved["n_written"], bytes_of(sessions))
        self.assertGreater(saved["timings"]["save_ms"], 0)

        self.server = self.restart(self.server)
        restored = self.slot(self.server, 0, "restore", "slot1.bin")
        self.assertEqual((restored["id_slot"], restored["filename"], restored["n_restored"]), (0, "slot1.bin", 319))
        self.assertEqual(restored["n_evaluated"], 319 - 256)
        self.assertGreater(restored["timings"]["restore_ms"], 0)
        again = self.complete(self.server, prompt, id_slot=0)
        self.assertEqual((again["timings"]["cache_n"], again["timings"]["prompt_n"]), (256, 44))
        self.assertEqual(again["content"], answer["content"])
        # The whole answer is cached, too.
        more = self.complete(self.server, prompt + tokens(5, 2), id_slot=0)
        self.assertEqual(more["timings"]["cache_n"], 256)

    def test_a_slot_survives_a_kill_right_after_the_reply(self):
        prompt = tokens(700, 1)
        answer = self.complete(self.server, prompt, id_slot=0)
        self.slot(self.server, 0, "save", "a")
        self.server.kill()
        self.server = self.start()
        self.assertLess(self.slot(self.server, 0, "restore", "a")["n_evaluated"], 2 * BLOCK)
        again = self.complete(self.server, prompt, id_slot=0)
        self.assertGreaterEqual(again["timings"]["cache_n"], 640)
        self.assertEqual(again["content"], answer["content"])

    # The steps of llama-server's own tests. Its prompts are shorter than a block.
    def test_another_prompt_with_the_same_beginning(self):
        france, germany = (tokens(256, 1) + tokens(20, seed) for seed in (2, 3))
        answer = self.complete(self.server, france, id_slot=1)
        self.assertEqual(answer["timings"]["prompt_n"], 276)
        self.slot(self.server, 1, "save", "slot1.bin")
        expected = self.complete(self.server, germany, id_slot=1)
        self.assertEqual(expected["timings"]["prompt_n"], 20)
        self.assertEqual(self.slot(self.server, 0, "restore", "slot1.bin")["n_restored"], 276 + 20 - 1)
        for slot in (0, 1):
            again = self.complete(self.server, germany, id_slot=slot)
            self.assertEqual(again["timings"]["prompt_n"], 20)
            self.assertEqual(again["content"], expected["content"])

    def test_an_erased_slot_is_evaluated_again(self):
        prompt = tokens(300, 1)
        answer = self.complete(self.server, prompt, id_slot=1)
        self.assertEqual(self.complete(self.server, prompt, id_slot=1)["timings"]["cache_n"], 256)
        self.assertEqual(self.slot(self.server, 1, "erase"), {"id_slot": 1, "n_erased": 319})
        self.assertEqual(self.slot(self.server, 1, "erase"), {"id_slot": 1, "n_erased": 0})
        again = self.complete(self.server, prompt, id_slot=1)
        self.assertEqual((again["timings"]["cache_n"], again["content"]), (0, answer["content"]))
        # The body is optional.
        self.assertEqual(self.server.request("POST", "/slots/1?action=erase")[0], 200)

    def test_a_slot_is_restored_without_its_keys_and_values(self):
        prompt = tokens(300, 1)
        answer = self.complete(self.server, prompt, id_slot=1)
        self.slot(self.server, 1, "save", "a")
        self.server.stop()
        for path in (self.server.models / "sessions").glob("*.kv"):
            path.unlink()
        self.server = self.start()
        self.assertEqual(self.slot(self.server, 2, "restore", "a")["n_evaluated"], 319)
        again = self.complete(self.server, prompt, id_slot=2)
        self.assertEqual((again["timings"]["cache_n"], again["content"]), (256, answer["content"]))

    def wait_until_idle(self):
        """A request counts as running until shortly after its client has the answer."""
        deadline = time.monotonic() + 60
        while any(slot["is_processing"] for slot in self.server.json("GET", "/slots?model=m")):
            self.assertLess(time.monotonic(), deadline, "a slot is still processing")
            time.sleep(0.01)

    def test_the_server_chooses_a_slot_and_names_it(self):
        first, second = tokens(100, 1), tokens(100, 2)
        self.assertEqual(self.complete(self.server, first)["id_slot"], 0)
        self.assertEqual(self.complete(self.server, second, id_slot=-1)["id_slot"], 1)
        self.wait_until_idle()
        self.assertEqual(self.complete(self.server, first + tokens(10, 3))["id_slot"], 0)
        chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "id_slot": 4}
        self.server.json("POST", "/v1/chat/completions", chat)
        slots = self.server.json("GET", "/slots?model=m")
        self.assertEqual([slot["id"] for slot in slots], list(range(8)))
        held = [slot["n_tokens"] > 0 for slot in slots]
        self.assertEqual(held, [True, True, False, False, True, False, False, False])
        self.wait_until_idle()
        self.assertEqual(self.server.json("GET", "/props?model=m")["total_slots"], 8)
        lines = self.server.request("POST", "/completion", {"prompt": first, "n_predict": 3, "id_slot": 5, "stream": True})[2].decode()
        chunks = [json.loads(line[6:]) for line in lines.splitlines() if line.startswith("data: {")]
        self.assertEqual({chunk["id_slot"] for chunk in chunks}, {5})

    def test_a_running_request_shows_in_its_slot(self):
        body = {"prompt": tokens(50, 1), "n_predict": 1_000_000, "id_slot": 2, "ignore_eos": True, "stream": True}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=600)
        self.addCleanup(connection.close)
        connection.request("POST", "/completion", json.dumps(body))
        answer = connection.getresponse()  # kept, because its end can close the connection
        self.assertTrue(answer.readline())
        self.assertEqual([slot["id"] for slot in self.server.json("GET", "/slots") if slot["is_processing"]], [2])
        # Saving does not wait for the request.
        self.assertEqual(self.slot(self.server, 2, "save", "a")["n_saved"], 50)

    def test_wrong_requests_are_refused(self):
        body = {"filename": "a"}
        for path, wrong, status, message in (
                ("/slots/8?action=save", body, 400, "there is no slot 8"),
                ("/slots/-1?action=save", body, 400, "there is no slot -1"),
                ("/slots/x?action=save", body, 400, "is not the number of a slot"),
                ("/slots/0?action=load", body, 400, "must be save, restore or erase"),
                ("/slots/0", body, 400, "must be save, restore or erase"),
                ("/slots/0?action=save", {}, 400, "\"filename\" is required"),
                ("/slots/0?action=save", {"filename": 1}, 400, "filename"),
                ("/slots/0?action=save", {"filename": "../../a"}, 400, "a plain name"),
                ("/slots/0?action=restore", {"filename": "/etc/passwd"}, 400, "a plain name"),
                ("/slots/0?action=restore", body, 400, "there is no saved slot \"a\""),
                ("/slots/0?action=save", {**body, "model": "no"}, 404, "not found"),
                ("/completion", {"prompt": "a", "id_slot": 8}, 400, "there is no slot 8"),
                ("/completion", {"prompt": "a", "id_slot": -2}, 400, "there is no slot -2")):
            with self.subTest(path=path, body=wrong):
                got = self.refusal(self.server, path, wrong)
                self.assertEqual(got[0], status)
                self.assertIn(message, got[1])

    def test_a_slot_of_another_model_or_a_damaged_file_is_refused(self):
        self.server.add_model("other", self.model("large"))
        self.complete(self.server, tokens(100, 1), id_slot=0, model="m")
        self.slot(self.server, 0, "save", "a", model="m")
        path = "/slots/0?action=restore"
        self.assertEqual(self.refusal(self.server, path, {"filename": "a", "model": "other"}),
                         (400, 'the saved slot "a" belongs to another model'))
        file = self.server.models / "sessions/slots/a"
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        self.assertEqual(self.refusal(self.server, path, {"filename": "a", "model": "m"}), (400, 'the saved slot "a" is damaged'))
        self.assertEqual(self.complete(self.server, tokens(100, 1), id_slot=0, model="m")["timings"]["cache_n"], 64)

    def test_without_a_folder_slots_are_not_saved(self):
        self.server.stop()
        for limit, arguments in (("0", ()), ("1G", ("--read-only",))):
            server = self.start(*arguments, limit=limit)
            self.complete(server, tokens(100, 1), id_slot=0)
            for action in ("save", "restore"):
                status, message = self.refusal(server, f"/slots/0?action={action}", {"filename": "a"})
                self.assertEqual(status, 501)
                self.assertIn("--sessions-limit", message)
            self.assertEqual(self.slot(server, 0, "erase")["n_erased"], 119)
            server.stop()

    def test_saved_slots_have_a_limit(self):
        self.server.stop()
        server = self.start(limit="160K")  # 10K for saved slots
        self.complete(server, tokens(500, 1), id_slot=0)
        n_saved = 0
        while server.request("POST", "/slots/0?action=save", {"filename": f"{n_saved}"})[0] == 200:
            n_saved += 1
        self.assertEqual(n_saved, 10240 // (4 * 519))
        status, message = self.refusal(server, "/slots/0?action=save", {"filename": "more"})
        self.assertEqual(status, 400)
        self.assertIn("remove files in", message)
        self.slot(server, 0, "save", "0")  # replaces
        self.assertLessEqual(bytes_of(server.models / "sessions"), 160 * 1024)


class Limits(Place):
    def test_two_servers_and_three_models_keep_the_limit_of_conversations(self):
        limit = 8 << 20
        first = self.start(limit=str(limit))
        first.add_model("writer", self.model("writer"))
        first.add_model("large", self.model("large"))
        content = bytearray(self.model("writer").read_bytes())
        content[-1] ^= 1
        other = self.folder / "other.gguf"
        other.write_bytes(content)
        first.add_model("other", other)
        second = self.start(limit=str(limit))
        runs = [(first, "writer"), (first, "large"), (second, "other"), (second, "large")]
        watch = Watch(first.models / "sessions")
        expected = {}
        for i in range(60):
            server, name = runs[i % 4]
            seed = i // 4 % 5
            answer = self.complete(server, tokens(200, seed), 5, model=name)
            self.assertEqual(expected.setdefault((name, seed), answer["content"]), answer["content"], i)
            self.slot(server, 0, "save", "a", model=name)
        largest = watch.end()
        self.assertLessEqual(largest, limit)
        self.assertGreater(largest, limit * 3 // 4, "the test writes too little")
        self.assertGreater(watch.n, 100)


class PackedLimit(Place):
    """With copies of the real model: the packed form of the others is too small to be kept."""

    def setUp(self):
        super().setUp()
        if not WEIGHTS.exists():
            self.skipTest(f"no model at {WEIGHTS}")

    def test_two_servers_and_three_models_keep_the_limit_of_packed_weights(self):
        content = bytearray(WEIGHTS.read_bytes())
        limit = 5 * len(content) // 2  # two of the files
        first = self.start("--packed-limit", str(limit), "--keep-alive", "5m")  # an unload would end the packing
        names = ["m0", "m1", "m2"]
        for name in names:
            copy = self.folder / (name + ".gguf")
            copy.write_bytes(content)
            first.add_model(name, copy)
            copy.unlink()
            content[-1] ^= 1 + len(name)  # another digest
            content[-2] ^= int(name[1])
        second = self.start("--packed-limit", str(limit), "--keep-alive", "5m")
        packed = first.models / "packed"
        watch = Watch(packed)
        kept = set()
        for i in range(6):  # only two files fit, so each model has lost its file when its turn comes
            self.complete((first, second)[i % 2], tokens(10, 1), 3, model=names[i % 3])
            deadline = time.monotonic() + 600
            while True:
                now = {path.name for path in packed.glob("*.packed")}
                if len(now - kept) == 1 and not list(packed.glob("*.writing")):
                    break
                self.assertLess(time.monotonic(), deadline, f"model {i} was not packed")
                time.sleep(0.05)
            self.assertLessEqual(len(now), 2)
            kept = now
        largest = watch.end()
        self.assertLessEqual(largest, limit)
        self.assertGreater(largest, limit // 2, "the test writes too little")


class Faults(Place):
    def test_kills_while_conversations_are_saved_change_no_answer(self):
        prompts = [tokens(200 + 40 * i, i // 2) for i in range(8)]
        plain = self.start(limit="0")
        plain.add_model("m", self.model("writer"))
        expected = [self.complete(plain, prompt, 8)["content"] for prompt in prompts]
        plain.stop()
        server = self.start(limit="4M")
        n_cached = 0
        for seed in range(20):
            source = random.Random(seed)
            order = source.sample(range(len(prompts)), 3)
            for i in order:
                answer = self.complete(server, prompts[i], 8)
                self.assertEqual(answer["content"], expected[i], f"seed {seed}, prompt {i}")
                n_cached += answer["timings"]["cache_n"]
            saving = threading.Thread(target=self.save, args=(server,))
            saving.start()
            time.sleep(source.random() * 0.03)
            if seed % 5 == 4:
                server.kill()
                saving.join()
                server = self.start(limit="4M")
            else:
                for pid in server.runners():
                    os.kill(pid, signal.SIGKILL)
                saving.join()
            if seed % 3 == 2:
                self.damage(server, source)
        self.assertGreater(n_cached, 0)
        self.assertLessEqual(bytes_of(server.models / "sessions"), 4 << 20)

    @staticmethod
    def save(server):
        try:
            server.request("POST", "/slots/0?action=save", {"filename": "a"})
        except OSError:
            pass  # the server was killed

    def damage(self, server, source):
        """Truncates a file of conversations, or flips a byte."""
        deadline = time.monotonic() + 60
        while server.runners() and time.monotonic() < deadline:
            time.sleep(0.01)
        files = [path for path in (server.models / "sessions").glob("*.kv") if path.stat().st_size]
        if not files:
            return
        path = source.choice(files)
        content = bytearray(path.read_bytes())
        if source.random() < 0.5:
            content = content[:source.randrange(len(content))]
        else:
            content[source.randrange(len(content))] ^= 1 << source.randrange(8)
        path.write_bytes(content)

    def test_a_full_disk_changes_no_answer(self):
        disk = self.folder / "models"
        disk.mkdir()
        mount = f"mount -t tmpfs -o size=24m none {disk} && exec \"$0\" \"$@\""
        if subprocess.run(["unshare", "-rm", "sh", "-c", f"mount -t tmpfs -o size=1m none {disk}"], capture_output=True).returncode != 0:
            self.skipTest("this system does not allow a user to mount a file system")
        server = self.start(prefix=("unshare", "-rm", "sh", "-c", mount))
        server.add_model("m", self.model("writer"))
        seen = pathlib.Path(f"/proc/{server.process.pid}/root") / disk.relative_to("/")
        prompts = [tokens(300, i) for i in range(6)]
        first = [self.complete(server, prompt)["content"] for prompt in prompts[:3]]
        self.slot(server, 0, "save", "a")
        self.assertGreater(bytes_of(seen / "sessions"), 0)
        with (seen / "filler").open("wb") as filler:
            try:
                while True:
                    filler.write(bytes(1 << 16))
                    filler.flush()
            except OSError:
                pass
        self.assertEqual(shutil.disk_usage(seen).free, 0)
        expected = [self.complete(server, prompt)["content"] for prompt in prompts[3:]]
        self.assertEqual([self.complete(server, prompt)["content"] for prompt in prompts[:3]], first)
        status, _, text = server.request("POST", "/slots/0?action=save", {"filename": "b"})
        self.assertEqual(status, 500, text)
        self.assertIn("No space left on device", json.loads(text)["error"]["message"])
        self.assertEqual(self.slot(server, 1, "restore", "a")["n_restored"], 319)
        server.wait_for_log("conversations are no longer kept on disk")
        # After the disk has space again and a restart of the runner, conversations are kept again.
        (seen / "filler").unlink()
        for pid in server.runners():
            os.kill(pid, signal.SIGKILL)
        for prompt, text in zip(prompts, first + expected):
            self.assertEqual(self.complete(server, prompt)["content"], text)
        self.assertEqual(self.slot(server, 0, "save", "b")["filename"], "b")


if __name__ == "__main__":
    run_cases(rest)
