"""billow trace, with a fake server that returns fixed responses."""
import http.server
import json
import threading
import unittest

from program import ProgramTest, billow, main

TRACE = {"id": "abc", "node": "host-a", "route": "/api/chat", "model": "m:1b", "began_at": "2026-11-22T02:07:29.000000Z",
         "duration": 1000000000, "status": 200,
         "spans": [{"name": "prefill", "begin": 0, "end": 500000000, "attributes": {"tokens": 512}}]}
LIST = {"traces": [{key: TRACE[key] for key in ("id", "route", "model", "began_at", "duration", "status")}]}
CHROME = {"traceEvents": [], "displayTimeUnit": "ms"}
ANSWERS = {"/api/trace/abc": TRACE, "/api/trace": LIST, "/api/trace/abc?format=chrome": CHROME,
           "/api/trace/odd": {"spans": 7}, "/prefix/api/trace": {"traces": []}}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        answer = ANSWERS.get(self.path)
        body = json.dumps(answer or {"error": "not found"}).encode()
        self.send_response(500 if self.path.endswith("broken") else 200 if answer else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class RequestTrace(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        cls.host = f"127.0.0.1:{cls.server.server_port}"
        cls.thread = threading.Thread(target=cls.server.serve_forever)
        cls.thread.start()

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.thread.join()
        cls.server.server_close()
        super().tearDownClass()

    def test_draws_a_request(self):
        lines = self.ok("trace", "abc", "--host", self.host).decode().splitlines()
        self.assertEqual(lines[0], "/api/chat  m:1b  200  1.00 s")
        self.assertRegex(lines[2], "^prefill █+ +500 ms  tokens=512$")
        self.assertTrue(all(len(line) <= 80 for line in lines))

    def test_prints_json_unchanged(self):
        self.assertEqual(json.loads(self.ok("trace", "abc", "--json", "--host", self.host)), TRACE)
        self.assertEqual(json.loads(self.ok("trace", "abc", "--chrome", "--host", self.host)), CHROME)
        self.assertEqual(json.loads(self.ok("trace", "--json", "--host", self.host)), LIST)

    def test_lists_the_latest_without_an_id(self):
        lines = self.ok("trace", env={"OLLAMA_HOST": "127.0.0.1:1", "BILLOW_HOST": self.host}).decode().splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[1], "^abc +/api/chat +m:1b +200 +1.00 s +2026-")

    def test_the_path_of_a_host_becomes_a_prefix(self):
        self.assertEqual(len(self.ok("trace", "--host", f"http://{self.host}/prefix").decode().splitlines()), 1)

    def test_errors_have_one_line(self):
        self.refused("trace", "gone", "--host", self.host, names=["gone", self.host])
        self.refused("trace", "broken", "--host", self.host, names=["500", self.host, "/api/trace/broken: not found"])
        self.refused("trace", "odd", "--host", self.host, names=["spans"])
        self.refused("trace", "a/b", "--host", self.host, names=["id"], status=2)
        self.refused("trace", "--chrome", "--host", self.host, names=["--chrome"], status=2)
        self.refused("trace", "abc", "--host", "127.0.0.1:1", names=["127.0.0.1"])
        self.refused("trace", "abc", "--host", "https://127.0.0.1:1", names=["TLS"])

    def test_refuses_two_output_formats(self):
        self.assertEqual(billow("trace", "abc", "--json", "--chrome").returncode, 2)


if __name__ == "__main__":
    main()
