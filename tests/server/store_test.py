"""Tests the server on a faulty store: files that hang, kills at every step, other servers, missing rights, a clock that jumps.

store_test.py --billow PROGRAM --make-models PROGRAM --shim LIBRARY
"""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
import unittest

import store_case
from run_cases import run_cases
from store_case import HOUR, LONG, PROGRAM, Place, all_of, ask, check_other_requests, rest, until

NOBODY = 65534
setUpModule, tearDownModule = store_case.set_up, store_case.tear_down


def ends(server):
    """Checks that SIGTERM ends the server although calls hang."""
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(LONG)


class HangsBlockOnlyTheirModel(unittest.TestCase):
    def requests_of_slow(self, server):
        """Sends requests for the model in the background. They may hang, but must not break the server."""
        asked = [("/api/generate", {"model": "slow", "prompt": "a"}), ("/api/show", {"model": "slow"}),
                 ("/api/embed", {"model": "slow", "input": "a"}), ("/tokenize", {"model": "slow", "inputs": "a"})]

        def send(path, body):
            with contextlib.suppress(OSError, Exception):
                server.request("POST", path, body)

        for path, body in asked:
            threading.Thread(target=send, args=(path, body), daemon=True).start()

    def test_hanging_file_of_one_model_blocks_no_other(self):
        def check(case):
            kind, calls = case
            with Place(store_case.prepared) as place:
                file = place.manifest("slow") if kind == "manifest" else place.blob("slow", kind)
                server = place.server()
                place.rule(f"hang {calls} {file}")
                self.requests_of_slow(server)
                check_other_requests(server)
                ends(server)

        all_of([(kind, calls) for kind in ("manifest", "config", "image.model", "image.system")
                for calls in ("open", "read", "stat")], check)

    def test_hanging_model_works_again_later(self):
        with Place(store_case.prepared) as place:
            server = place.server()
            place.rule(f"hang all {place.manifest('slow')}")
            self.requests_of_slow(server)
            check_other_requests(server)
            place.rule("")
            body = {"model": "slow", "prompt": "a", "options": {"num_predict": 2}, "stream": False}
            until(lambda: server.request("POST", "/api/generate", body)[0] == 200, "the model is never found again")
            until(lambda: b"slow:latest" in ask(server, "GET", "/api/tags"), "the model is never listed again")
            self.assertEqual(server.stop(), 0)

    def test_hanging_change_blocks_no_other_request(self):
        changes = {
            "write": lambda server: server.add_model("new", store_case.OTHER, system="new"),
            "fsync": lambda server: server.add_model("new", store_case.OTHER, system="new"),
            "rename": lambda server: server.add_model("new", store_case.OTHER, system="new"),
            "mkdir": lambda server: server.request("POST", "/api/copy", {"source": "slow", "destination": "x/new"}),
            "unlink": lambda server: server.request("DELETE", "/api/delete", {"model": "slow"}),
        }

        def check(call):
            with Place(store_case.prepared) as place:
                server = place.server()
                ask(server, "POST", "/api/generate", {"model": "quick"})  # is loaded
                place.rule(f"hang {call} {place.store}")

                def change():
                    with contextlib.suppress(Exception):
                        changes[call](server)

                threading.Thread(target=change, daemon=True).start()
                check_other_requests(server)
                ends(server)

        all_of(changes, check)

    def test_pipes_instead_of_files(self):
        def check(kind):
            with Place(store_case.prepared) as place:
                file = place.manifest("slow") if kind == "manifest" else place.blob("slow", kind)
                file.unlink()
                os.mkfifo(file)
                server = place.server(shim=False)
                for path, body in (("/api/generate", {"model": "slow", "prompt": "a"}), ("/api/show", {"model": "slow"}),
                                   ("/api/create", {"model": "new", "from": "slow", "stream": False}),
                                   ("/api/copy", {"source": "slow", "destination": "copy"})):
                    self.assertIn(server.request("POST", path, body)[0], (200, 400, 404, 500), path)
                check_other_requests(server)
                self.assertEqual(server.stop(), 0)

        all_of(("manifest", "config", "image.model", "image.system"), check)

    def test_manifest_with_too_many_layers(self):
        with Place(store_case.prepared) as place:
            manifest = json.loads(place.manifest("slow").read_text())
            manifest["layers"] = [layer for layer in manifest["layers"] if "system" in layer["mediaType"]] * 20000
            place.manifest("slow").write_text(json.dumps(manifest))
            server = place.server(shim=False)
            check_other_requests(server)
            status, _, text = server.request("POST", "/api/show", {"model": "slow"})
            self.assertEqual(status, 500)
            self.assertIn("20000 layers", json.loads(text)["error"])
            server.stop()


class KilledAtEachStep(unittest.TestCase):
    """Kills the process before each call that changes the disk."""

    def upload(self, server):
        return server.request("POST", "/api/blobs/sha256:" + hashlib.sha256(b"x" * 100000).hexdigest(), b"x" * 100000)

    def create(self, server):
        server.add_model("new", store_case.OTHER, system="new", template="{{ .Prompt }}", parameters={"top_k": 3})

    def replace(self, server):
        server.add_model("slow", store_case.OTHER, system="another")

    def copy(self, server):
        return ask(server, "POST", "/api/copy", {"source": "slow", "destination": "u/copy"})

    def delete(self, server):
        return ask(server, "DELETE", "/api/delete", {"model": "slow"}, (200, 404))

    def check(self, operation, step):
        """Kills the operation at this step. Returns whether there was such a step."""
        with Place(store_case.prepared) as place:
            before = place.models()
            place.rule("")
            server = place.server()
            place.rule(f"kill {step} {place.store}")
            with contextlib.suppress(OSError, AssertionError, Exception):
                operation(server)
            killed = server.process.poll() is not None or self.dies(server)
            place.rule("")
            if not killed:
                server.stop()
            after = set(place.models())
            self.assertEqual(place.fault_in(), "", (operation.__name__, step))
            self.assertLessEqual(len(after.symmetric_difference(before)), 1)
            place.age()
            server = place.server(shim=False)  # cleans up at startup
            self.assertEqual(place.fault_in(), "", (operation.__name__, step, "after the restart"))
            self.assertEqual(place.leftovers(), [], (operation.__name__, step))
            listed = json.loads(ask(server, "GET", "/api/tags"))["models"]
            self.assertEqual(len(listed), len(after))
            operation(server)
            self.assertEqual(place.fault_in(), "", (operation.__name__, step, "done again"))
            self.assertEqual(server.stop(), 0)
            return killed

    def dies(self, server):
        """Returns whether the server is being killed and no longer answers."""
        with contextlib.suppress(OSError):
            server.request("GET", "/healthz")
            return False
        server.process.wait(LONG)
        return True

    def every_step(self, operation, min_steps):
        step = 1
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            while True:
                killed = [*pool.map(lambda one: self.check(operation, one), range(step, step + 4))]
                if not all(killed):
                    break
                step += 4
        self.assertGreaterEqual(step + killed.index(False) - 1, min_steps, "steps with a kill")

    def test_upload(self):
        self.every_step(self.upload, 4)

    def test_create(self):
        self.every_step(self.create, 12)

    def test_replace(self):
        self.every_step(self.replace, 12)

    def test_copy(self):
        self.every_step(self.copy, 5)

    def test_delete(self):
        self.every_step(self.delete, 4)

    def test_prune(self):
        """Kills the cleanup at startup at each step. It must delete no needed file, and the next startup must finish it."""
        n_killed = 0
        for step in range(1, 100):
            with Place(store_case.prepared) as place:
                for text in ("a", "b"):
                    (place.store / "blobs" / ("sha256-" + hashlib.sha256(text.encode()).hexdigest())).write_text(text)
                (place.store / "blobs/sha256-x.partial-7").write_text("c")
                (place.store / "manifests/host/space/model").mkdir(parents=True)
                place.age()
                place.rule(f"kill {step} {place.store}")
                try:
                    place.server().stop()
                    killed = False
                except AssertionError:  # the server ended before it answered
                    killed = True
                    n_killed += 1
                place.rule("")
                self.assertEqual(place.fault_in(), "", step)
                place.server(shim=False).stop()
                self.assertEqual((place.fault_in(), place.leftovers()), ("", []), step)
                self.assertEqual(len(place.models()), 2)
                if not killed:
                    break
        self.assertGreaterEqual(n_killed, 4)


class TwoServersOnOneStore(unittest.TestCase):
    def in_the_middle(self, place, first, rule, work, then):
        """Lets `work` of the first server hang by the rule, runs `then`, and ends the hang."""
        place.rule(rule)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            working = pool.submit(work, first)
            try:
                until(lambda: any("partial" in path.name for path in place.store.glob("blobs/*")), "no file is written")
                place.age()
                then()
            finally:
                place.rule("")
            return working.result(LONG)

    def test_cleanup_keeps_uploads_of_another_server(self):
        with Place(store_case.prepared) as place:
            first = place.server()
            digest = hashlib.sha256(b"x" * 1000).hexdigest()
            status = self.in_the_middle(
                place, first, f"hang fsync {digest}",
                lambda server: server.request("POST", "/api/blobs/sha256:" + digest, b"x" * 1000)[0],
                lambda: place.server(shim=False).stop())
            self.assertEqual(status, 201)
            self.assertEqual((place.store / "blobs" / ("sha256-" + digest)).read_bytes(), b"x" * 1000)

    def test_cleanup_keeps_blobs_that_another_server_creates_a_model_from(self):
        with Place(store_case.prepared) as place:
            first = place.server()
            text = "the system text of a new model"
            digest = hashlib.sha256(text.encode()).hexdigest()

            def others():
                second = place.server(shim=False)  # cleans up at startup
                ask(second, "DELETE", "/api/delete", {"model": "slow"})  # has the same weights
                second.stop()

            body = {"model": "new", "from": "slow", "system": text, "stream": False}
            status, _, answer = self.in_the_middle(place, first, f"hang rename {digest}",
                                                   lambda server: server.request("POST", "/api/create", body), others)
            self.assertEqual(status, 200, answer)
            self.assertEqual(place.fault_in(), "")
            ask(first, "POST", "/api/generate", {"model": "new"})
            place.age()
            first.stop()
            place.server(shim=False).stop()
            self.assertEqual((place.fault_in(), place.leftovers()), ("", []))

    def test_both_servers_change_the_store_continuously(self):
        with Place(store_case.prepared) as place:
            servers = [place.server(shim=False) for _ in range(2)]
            for server in servers:
                server.add_model("base", store_case.TINY, system="base")

            def change(number):
                server = servers[number % 2]
                for i in range(15):
                    name = f"m{(number + i) % 3}"
                    ask(server, "POST", "/api/create",
                        {"model": name, "from": "base", "system": f"{number} {i % 4}", "stream": False})
                    ask(server, "POST", "/api/copy", {"source": name, "destination": name + "copy"}, (200, 404))
                    ask(server, "DELETE", "/api/delete", {"model": name}, (200, 404))

            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                for result in [pool.submit(change, number) for number in range(4)]:
                    result.result()
            self.assertEqual(place.fault_in(), "")
            for server in servers:
                self.assertEqual(server.stop(), 0)
            place.age()
            place.server(shim=False).stop()
            self.assertEqual((place.fault_in(), place.leftovers()), ("", []))


class WithoutRights(unittest.TestCase):
    """Runs the server as another user if this user is root."""

    prefix = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups") if os.getuid() == 0 else ()

    def program(self, place):
        """Copies the program to a place that the user can read. Returns its path."""
        return shutil.copy(PROGRAM, place.folder / "billow")

    def allow(self, place, mode):
        for path in [place.store, *place.store.glob("**/")]:
            path.chmod(mode)
        for path in place.store.glob("blobs/*"):
            path.chmod(0o644)
        place.folder.joinpath("log").touch()

    def test_read_only_store(self):
        with Place(store_case.prepared) as place:
            self.allow(place, 0o555)
            server = place.server(shim=False, prefix=self.prefix, program=self.program(place))
            self.assertEqual(len(server.json("GET", "/api/tags")["models"]), 2)
            check_other_requests(server)
            digest = "sha256:" + hashlib.sha256(b"x").hexdigest()
            for method, path, body in (("POST", "/api/blobs/" + digest, b"x"),
                                       ("POST", "/api/create", {"model": "new", "from": "slow", "stream": False}),
                                       ("POST", "/api/copy", {"source": "slow", "destination": "new"}),
                                       ("DELETE", "/api/delete", {"model": "slow"})):
                status, _, text = server.request(method, path, body)
                self.assertEqual(status, 403, (path, text))
                error = json.loads(text)["error"]
                self.assertIn("cannot write to the model store", error)
                self.assertIn(str(place.store), error)
                self.assertNotIn("\n", error)
            self.assertEqual(server.stop(), 0)
            self.allow(place, 0o755)

    def refusal(self, place, arguments=(), variables=None):
        environment = {**os.environ, "OLLAMA_HOST": "127.0.0.1:0", **(variables or {})}
        environment = {name: value for name, value in environment.items() if value is not None}
        ended = subprocess.run([*self.prefix, self.program(place), "serve", *arguments], env=environment, capture_output=True, text=True,
                               timeout=LONG, cwd=place.folder)
        self.assertEqual(ended.returncode, 1, ended.stderr)
        return ended.stderr.splitlines()[-1]

    def test_unreadable_store(self):
        for part in ("", "manifests", "blobs"):
            with Place(store_case.prepared) as place:
                (place.store / part).chmod(0)
                line = self.refusal(place, ["--models", str(place.store)])
                self.assertIn("cannot read the model store", line)
                self.assertIn(str(place.store / part).rstrip("/"), line)
                (place.store / part).chmod(0o755)

    def test_no_folder_for_the_store(self):
        for home in ("", None):
            with Place() as place:
                line = self.refusal(place, variables={"HOME": home, "OLLAMA_MODELS": None, "BILLOW_MODELS": None})
                self.assertIn("HOME is not set", line)

    def test_file_size_limit(self):
        with Place(store_case.prepared) as place:
            server = place.server(shim=False, prefix=("prlimit", "--fsize=65536"))
            data = b"x" * 1000000
            status, _, text = server.request("POST", "/api/blobs/sha256:" + hashlib.sha256(data).hexdigest(), data)
            self.assertEqual(status, 500)
            self.assertIn("File too large", json.loads(text)["error"])
            check_other_requests(server)
            self.assertEqual([path.name for path in place.store.glob("blobs/*partial*")], [])
            self.assertEqual(server.stop(), 0)


class TheClockJumps(unittest.TestCase):
    """The wall clock jumps, as if an administrator had set it. The steady clock continues."""

    def loaded(self, server):
        return [model["name"] for model in server.json("GET", "/api/ps")["models"]]

    def test_clock_jump_changes_no_timers(self):
        year = 365 * 24 * HOUR
        for jump in (10 * year, -10 * year):
            with Place(store_case.prepared) as place:
                place.rule("")
                server = place.server()
                ask(server, "POST", "/api/generate", {"model": "quick", "keep_alive": "1h"})
                body = {"model": "quick", "prompt": "a", "options": {"num_predict": 200, "ignore_eos": True}, "keep_alive": "1h"}
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    writing = pool.submit(server.request, "POST", "/api/generate", body)
                    place.rule(f"clock {jump}")
                    status, headers, text = writing.result(LONG)
                last = json.loads(text.splitlines()[-1])
                self.assertEqual((status, last["done"]), (200, True))
                self.assertTrue(0 < last["total_duration"] < LONG * 1e9, last)
                trace = server.json("GET", "/api/trace/" + headers["X-Request-Id"])
                self.assertTrue(trace["spans"])
                for span in trace["spans"]:
                    self.assertTrue(0 <= span["begin"] <= span["end"] < LONG * 1e9, span)
                check_other_requests(server)
                self.assertEqual(self.loaded(server), ["quick:latest"], "an hour has not passed")
                ask(server, "POST", "/api/generate", {"model": "quick", "keep_alive": "100ms"})
                until(lambda: not self.loaded(server), "the model is not unloaded after 100 ms")
                place.rule("")
                check_other_requests(server)
                self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    run_cases(rest)
