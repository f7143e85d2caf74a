"""HAProxy with the configuration of `billow fleet config`, in front of stand-ins: which host gets which request, and what happens to requests
when hosts fail.

haproxy_test.py --billow PROGRAM [unittest arguments]
"""

import argparse
import collections
import concurrent.futures
import hashlib
import http.client
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from fleet_place import HAPROXY, Balancer, StandIn, send, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))
from run_cases import run_cases  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
options, rest = parser.parse_known_args()


def chat(first, model="m", system=None, turns=(), **more):
    messages = ([{"role": "system", "content": system}] if system else []) + [{"role": "user", "content": first}]
    for turn in turns:
        messages += [{"role": "assistant", "content": "answer to it"}, {"role": "user", "content": turn}]
    return {"model": model, "messages": messages, "stream": False, **more}


class Place(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def fleet(self, n_hosts, *arguments, **more):
        self.hosts = [StandIn(f"n{i}", *arguments) for i in range(n_hosts)]
        for host in self.hosts:
            self.addCleanup(host.end)
        self.balancer = Balancer(options.billow, self.folder, self.hosts, **more)
        self.addCleanup(self.balancer.end)
        return self.balancer

    def host(self, name):
        return next(host for host in self.hosts if host.name == name)


class Configuration(Place):
    def test_haproxy_accepts_it_without_a_warning(self):
        example = pathlib.Path(__file__).parents[2] / "deploy/haproxy/haproxy.cfg"
        done = subprocess.run([HAPROXY, "-c", "-f", example], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("WARNING", done.stderr)


class Keys(Place):
    def setUp(self):
        super().setUp()
        self.fleet(4)

    def test_a_conversation_stays_on_its_host_and_conversations_spread(self):
        nodes = collections.Counter()
        for i in range(32):
            system = f"You are helper {i % 2}."
            first = self.balancer.node("/api/chat", chat(f"question {i}", system=system))
            nodes[first] += 1
            for turns in (["and then?"], ["and then?", "and after that?"]):
                self.assertEqual(self.balancer.node("/api/chat", chat(f"question {i}", system=system, turns=turns)), first, i)
        self.assertEqual(set(nodes), {"n0", "n1", "n2", "n3"})
        self.assertLess(max(nodes.values()), 20, nodes)

    def test_without_a_system_prompt_a_conversation_stays_too(self):
        for i in range(12):
            first = self.balancer.node("/v1/chat/completions", chat(f"question {i}"))
            self.assertEqual(self.balancer.node("/v1/chat/completions", chat(f"question {i}", turns=["more", "even more"])), first)

    def test_all_apis_name_the_same_host(self):
        for i in range(8):
            system, first = f"You are helper {i}.", f'say "{i}"\n\u00e9'
            body = chat(first, system=system)
            parts = {"model": "m", "stream": False, "messages": [
                {"role": "developer", "content": [{"type": "text", "text": system}]},
                {"role": "user", "content": [{"type": "text", "text": first}]}]}
            anthropic = {"model": "m", "system": system, "max_tokens": 4, "messages": [{"role": "user", "content": first}]}
            anthropic_parts = anthropic | {"system": [{"type": "text", "text": system}]}
            responses = {"model": "m", "instructions": system, "input": first}
            response_items = {"model": "m", "input": [{"role": "system", "content": system}, {"role": "user", "content": first}]}
            generate = {"model": "m", "system": system, "prompt": first, "stream": False}
            prompts = {"model": "m", "system": system, "prompt": [first]}
            nodes = {self.balancer.node(path, request) for path, request in [
                ("/api/chat", body), ("/v1/chat/completions", body), ("/v1/chat/completions", parts), ("/v1/messages", anthropic),
                ("/v1/messages", anthropic_parts), ("/v1/responses", responses), ("/v1/responses", response_items),
                ("/api/generate", generate), ("/v1/completions", prompts)]}
            self.assertEqual(len(nodes), 1, nodes)

    def test_names_of_a_model_are_one_model(self):
        for i in range(8):
            names = ["m", "M:latest", "library/m", "registry.ollama.ai/library/m:latest"]
            self.assertEqual(len({self.balancer.node("/api/chat", chat(f"question {i}", model=name)) for name in names}), 1)

    def test_the_order_of_fields_does_not_matter(self):
        for i in range(8):
            body = chat(f"question {i}", system="short")
            self.assertEqual(self.balancer.node("/api/chat", body), self.balancer.node("/api/chat", dict(reversed(body.items()))))

    def test_a_session_header_decides(self):
        nodes = {self.balancer.node("/api/chat", chat(f"question {i}"), {"X-Session-Id": "one"}) for i in range(12)}
        self.assertEqual(len(nodes), 1)
        nodes = {self.balancer.node("/api/chat", chat("the same"), {"X-Session-Id": f"session {i}"}) for i in range(24)}
        self.assertGreater(len(nodes), 1)

    def test_a_body_larger_than_the_buffer_keeps_its_key(self):
        for i in range(6):
            small = self.balancer.node("/api/chat", chat(f"question {i}", system="short"))
            self.assertEqual(self.balancer.node("/api/chat", chat(f"question {i}", system="short", turns=["x" * 400000])), small)
            # The first message itself is too large: the beginning of the body is the key.
            large = [self.balancer.node("/api/chat", chat(f"{i}" + "x" * 400000, turns=turns)) for turns in ([], ["more"])]
            self.assertEqual(len(set(large)), 1)

    def test_bodies_arrive_unchanged(self):
        for size in (10, 5000, 400000):
            data = json.dumps(chat("x" * size, unknown_field={"a": [1, 2.50, None]})).encode()
            status, fields, _ = self.balancer.send("POST", "/api/chat", data)
            self.assertEqual(status, 200)
            self.assertEqual(self.host(fields["X-Billow-Node"]).got()[-1]["sha256"], hashlib.sha256(data).hexdigest())

    def test_requests_have_an_id_and_keep_their_own(self):
        node = self.balancer.node("/api/chat", chat("a"))
        self.assertRegex(self.host(node).got()[-1]["id"], "^[0-9a-f-]{36}$")
        node = self.balancer.node("/api/chat", chat("a"), {"X-Request-Id": "my-own"})
        self.assertEqual(self.host(node).got()[-1]["id"], "my-own")

    def test_a_body_that_is_no_json_goes_to_a_host(self):
        status, _, _ = self.balancer.send("POST", "/api/ps", b"{}")
        self.assertEqual(status, 200)
        self.assertNotEqual(self.balancer.send("POST", "/nothing", json.dumps({"x": 1}).encode())[0], 503)


class Answers(Place):
    def setUp(self):
        super().setUp()
        self.fleet(2)

    def test_writes_are_refused(self):
        for method, path in [("POST", "/api/pull"), ("POST", "/api/push"), ("POST", "/api/create"), ("DELETE", "/api/delete"),
                             ("POST", "/api/copy"), ("POST", "/api/blobs/sha256:0"), ("HEAD", "/api/blobs/sha256:0"), ("POST", "/api/%70ull")]:
            status, _, text = self.balancer.send(method, path, b"{}")
            self.assertEqual(status, 403, path)
            if method != "HEAD":
                self.assertIn("read-only", json.loads(text)["error"])
        self.assertEqual([host.got() for host in self.hosts], [[], []])

    def test_state_of_one_host_is_refused(self):
        for path in ("/metrics", "/metrics/load", "/api/trace", "/api/trace/x", "/api/events", "/slots", "/ui/"):
            status, _, text = self.balancer.send("GET", path)
            self.assertEqual(status, 403, path)
            self.assertIn("one host", json.loads(text)["error"])

    def test_health_is_that_of_the_fleet(self):
        self.assertEqual(self.balancer.send("GET", "/healthz")[0], 200)
        self.assertEqual(self.balancer.send("GET", "/readyz")[::2], (200, b'{"ready":true}'))
        for host in self.hosts:
            host.control(not_ready=True)
        wait_for("no host is ready", lambda: self.balancer.n_ready() == 0)
        status, fields, text = self.balancer.send("GET", "/readyz")
        self.assertEqual((status, json.loads(text)["reasons"]), (503, ["no host is ready"]))
        self.assertEqual(fields["Retry-After"], "2")
        for path, error in [("/api/chat", "no host is ready, or all are full"),
                            ("/v1/chat/completions", {"type": "api_error", "message": "no host is ready, or all are full"})]:
            status, fields, text = self.balancer.send("POST", path, chat("a"))
            self.assertEqual((status, fields["Retry-After"], json.loads(text)["error"]), (503, "2", error))

    def test_questions_without_a_model_get_an_answer(self):
        self.assertEqual(self.balancer.send("GET", "/api/tags")[0], 200)
        self.assertEqual(self.balancer.send("GET", "/v1/models")[0], 200)

    def test_metrics_of_haproxy(self):
        text = send(self.balancer.metrics, "GET", "/metrics")[2].decode()
        self.assertRegex(text, r'haproxy_server_status\{proxy="hosts",server="n0",state="UP"\} 1')

    def test_the_log_has_a_line_with_the_model_and_no_prompt(self):
        self.balancer.node("/api/chat", chat("secret words", model="M:latest"))
        wait_for("the log has the request", lambda: "POST /api/chat" in self.balancer.text())
        line = next(line for line in self.balancer.text().splitlines() if "POST /api/chat" in line)
        self.assertIn(" others/n", line)
        self.assertIn(" model=m ", line)
        self.assertNotIn("secret", line)

    def test_streams_pass_piece_by_piece(self):
        slow = StandIn("slow", "--decode", 10, "--piece", 1)
        self.addCleanup(slow.end)
        balancer = Balancer(options.billow, self.folder, [slow])
        self.addCleanup(balancer.end)
        for path, is_last in (("/api/chat", b'"done": true'), ("/v1/chat/completions", b"[DONE]")):
            connection = http.client.HTTPConnection("127.0.0.1", balancer.port, timeout=120)
            connection.request("POST", path, json.dumps(chat("a", max_tokens=30) | {"stream": True}))
            answer = connection.getresponse()
            times, last = [], b""
            while line := answer.readline():
                if line.strip():
                    times.append(time.monotonic())
                    last = line
            connection.close()
            self.assertIn(is_last, last)
            self.assertGreater(times[-1] - times[0], 0.3, "pieces were held back")


class Pools(Place):
    MODELS = """
[[model]]
name = "both"
memory = "1G"
[[model]]
name = "second"
hosts = ["n1"]
[[model]]
name = "rare:1b"
memory = "1G"
tail = true
[[model]]
name = "odd"
memory = "1G"
tail = true
"""

    def setUp(self):
        super().setUp()
        self.fleet(3, models=self.MODELS, keys='memory = "8G"')

    def test_each_model_goes_to_its_hosts(self):
        self.assertEqual({self.balancer.node("/api/chat", chat(f"q {i}", model="both")) for i in range(24)}, {"n0", "n1", "n2"})
        self.assertEqual({self.balancer.node("/api/chat", chat(f"q {i}", model="second:latest")) for i in range(8)}, {"n1"})

    def test_a_rare_model_and_an_unknown_one_stay_on_one_host_each(self):
        for model in ("rare:1B", "odd", "unknown"):
            self.assertEqual(len({self.balancer.node("/api/chat", chat(f"q {i}", model=model)) for i in range(12)}), 1)
            self.assertEqual(len({self.balancer.node("/api/embed", {"model": model, "input": f"{i}", "stream": False}) for i in range(6)}), 1)

    def test_a_model_at_the_end_of_a_large_body_is_not_lost_at_its_beginning(self):
        body = json.dumps({"messages": chat("x" * 400000)["messages"], "stream": False})
        front = ('{"model": "second", ' + body[1:]).encode()
        self.assertEqual({self.balancer.send("POST", "/api/chat", front)[1]["X-Billow-Node"] for _ in range(4)}, {"n1"})
        # At the end it cannot be seen. The request still gets one host, always the same.
        back = (body[:-1] + ', "model": "both"}').encode()
        self.assertEqual(len({self.balancer.send("POST", "/api/chat", back)[1]["X-Billow-Node"] for _ in range(4)}), 1)


class Load(Place):
    def test_embeddings_go_to_the_host_with_the_fewest_requests(self):
        self.fleet(2, "--decode", 1)  # all requests arrive before the first one ends
        body = {"model": "m", "input": "text", "max_tokens": 8, "stream": False}
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            nodes = collections.Counter(pool.map(lambda i: self.balancer.send("POST", "/v1/embeddings", body)[1]["X-Billow-Node"], range(12)))
        self.assertEqual(nodes, {"n0": 6, "n1": 6})

    def test_the_bound_moves_requests_of_a_host_with_more_than_its_share(self):
        self.fleet(4, "--decode", 2)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            body = chat("the same", max_tokens=16)
            nodes = collections.Counter(pool.map(lambda i: self.balancer.send("POST", "/api/chat", body)[1]["X-Billow-Node"], range(16)))
        self.assertGreaterEqual(max(nodes.values()), 5)
        self.assertLessEqual(max(nodes.values()), 7, "at most 1.5 times the mean of 4, and one that was rounded up")
        self.assertGreater(len(nodes), 1)


class Failures(Place):
    def conversations(self, n, seconds, **more):
        """Runs n conversations in parallel, turn after turn. Returns the statuses of all requests and the nodes that answered."""
        statuses, nodes, end = collections.Counter(), collections.Counter(), time.monotonic() + seconds

        def run(i):
            turns = []
            while time.monotonic() < end:
                try:
                    status, fields, _ = self.balancer.send("POST", "/api/chat", chat(f"conversation {i}", turns=turns[-3:], **more))
                    nodes[fields["X-Billow-Node"]] += 1
                except (OSError, http.client.HTTPException) as error:
                    status = type(error).__name__
                statuses[status] += 1
                turns.append("more")
                time.sleep(0.01)

        threads = [threading.Thread(target=run, args=[i]) for i in range(n)]
        for thread in threads:
            thread.start()
        return threads, statuses, nodes

    def test_a_killed_host_costs_no_request_that_has_not_begun_to_stream(self):
        self.fleet(3, "--decode", 40)
        threads, statuses, nodes = self.conversations(12, 5, max_tokens=8)
        wait_for("answers", lambda: sum(list(nodes.values())) >= 12, seconds=60)
        victim = nodes.most_common(1)[0][0]
        self.host(victim).kill()
        for thread in threads:
            thread.join()
        self.assertEqual(set(statuses), {200}, statuses)
        self.assertGreater(sum(statuses.values()), 12)

    def test_a_stream_that_has_begun_on_a_killed_host_breaks(self):
        self.fleet(2, "--decode", 10, "--piece", 1)
        connection = http.client.HTTPConnection("127.0.0.1", self.balancer.port, timeout=120)
        connection.request("POST", "/api/chat", json.dumps(chat("a", max_tokens=600) | {"stream": True}))
        answer = connection.getresponse()
        self.assertIn(b"w0", answer.readline())
        self.host(answer.headers["X-Billow-Node"]).kill()
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            text = answer.read()
            self.assertNotIn(b'"done": true', text)
            raise ConnectionError("the stream ended without its last line")
        connection.close()
        self.assertEqual(self.balancer.send("POST", "/api/chat", chat("a"))[0], 200, "the next request gets the other host")

    def test_a_host_that_answers_503_is_passed_over(self):
        self.fleet(3)
        full = self.balancer.node("/api/chat", chat("a"))
        self.host(full).control(refuse=True)
        for i in range(30):
            self.assertNotEqual(self.balancer.node("/api/chat", chat("a" if i == 0 else f"q {i}")), full)
        self.assertGreater(self.host(full).state()["refused"], 0)
        for host in self.hosts:
            host.control(refuse=True)
        status, fields, text = self.balancer.send("POST", "/api/chat", chat("a"))
        self.assertEqual((status, json.loads(text)["error"], fields["Retry-After"]), (503, "this host is full", "1"), "the host's own words")

    def test_drains_lose_nothing(self):
        self.fleet(3, "--decode", 40, "--drain-delay", 4)
        threads, statuses, nodes = self.conversations(8, 14, max_tokens=8)
        for host in self.hosts[:2]:
            time.sleep(0.5)
            host.terminate()
            host.process.wait()
            host.process.stdout.close()
            host.start()
            wait_for("HAProxy finds it again", lambda: self.balancer.n_ready() == 3)
        for thread in threads:
            thread.join()
        self.assertEqual(set(statuses), {200}, statuses)
        self.assertEqual(set(nodes), {"n0", "n1", "n2"})

    def test_a_host_that_comes_back_gets_its_conversations_again(self):
        self.fleet(3)
        before = {i: self.balancer.node("/api/chat", chat(f"q {i}")) for i in range(30)}
        self.host("n1").kill()
        wait_for("HAProxy misses it", lambda: self.balancer.n_ready() == 2)
        during = {i: self.balancer.node("/api/chat", chat(f"q {i}")) for i in range(30)}
        moved = {i for i in before if before[i] != during[i]}
        self.assertEqual(moved, {i for i in before if before[i] == "n1"}, "only its own conversations move")
        self.host("n1").start()
        wait_for("HAProxy finds it again", lambda: self.balancer.n_ready() == 3)
        self.assertEqual({i: self.balancer.node("/api/chat", chat(f"q {i}")) for i in range(30)}, before)


if __name__ == "__main__":
    if HAPROXY is None:
        print("skipped: there is no haproxy on this machine; tools/setup installs it")
        sys.exit(77)
    run_cases(rest)
