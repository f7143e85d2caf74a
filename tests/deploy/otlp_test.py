"""Traces by OpenTelemetry: a server with generated models sends them to a real collector, and to one of this test that fails on
demand. Their JSON is read with OpenTelemetry's own definitions.

otlp_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]
"""

import argparse
import base64
import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import registry
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from ports import free_port
from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
ARGS, REST = parser.parse_known_args()

COLLECTOR = pathlib.Path("~/.cache/billow/collector/billow-collector").expanduser()
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "heliotrope"


def strictly_parsed(text):
    """The request in a body. OTLP writes ids as hexadecimal digits, where JSON of protocol buffers has base64."""
    body = json.loads(text)
    for group in body["resourceSpans"]:
        for scope in group["scopeSpans"]:
            for span in scope["spans"]:
                for name, n_digits in (("traceId", 32), ("spanId", 16), ("parentSpanId", 16)):
                    if name in span:
                        assert re.fullmatch(f"[0-9a-f]{{{n_digits}}}", span[name]), span[name]
                        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return json_format.ParseDict(body, ExportTraceServiceRequest())


def value_of(value):
    kind = value.WhichOneof("value")
    return [value_of(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def attributes(owner):
    return {one.key: value_of(one.value) for one in owner.attributes}


class Collector:
    """A collector that a test controls. `answer` returns the status and the headers of a reply; it may wait."""

    def __init__(self, port=0):
        self.answer = lambda: (200, {})
        self.bodies, self.heads, self.n_asked = [], [], 0
        self.is_closed = False
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if collector.is_closed:  # a kept connection of a program that has ended
                    self.close_connection = True
                    return
                collector.n_asked += 1
                status, headers = collector.answer()
                if status == 200:
                    collector.heads.append((self.path, self.headers))
                    collector.bodies.append(body)
                try:
                    self.send_response(status)
                    for name, value in {"Content-Length": "2", **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(b"{}")
                except OSError:
                    self.close_connection = True

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def spans(self):
        return [span for body in list(self.bodies) for group in strictly_parsed(body).resource_spans
                for scope in group.scope_spans for span in scope.spans]

    def requests(self):
        return [span for span in self.spans() if span.kind == Span.SPAN_KIND_SERVER]

    def close(self):
        self.is_closed = True
        self.http.shutdown()
        self.http.server_close()


class OtlpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.made = pathlib.Path(folder.name)
        subprocess.run([ARGS.make_models, str(cls.made), "--to-serve"], check=True, capture_output=True)

    def start(self, url, *arguments, variables=None):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.server = Server(folder.name, ["--threads", "1", "--node-name", "node-7", *(["--otlp", url] if url else []), *arguments],
                             program=str(pathlib.Path(ARGS.billow).resolve()), variables=variables)
        self.addCleanup(self.stop)
        for name in ("encoder", "writer"):
            self.server.add_model(name, self.made / f"{name}.gguf")

    def stop(self):
        if self.server.process.poll() is None:
            self.server.stop()

    def collector(self, port=0):
        collector = Collector(port)
        self.addCleanup(collector.close)
        return collector

    def generate(self, request_id=None, parent=None, prompt=SECRET):
        headers = {"X-Request-Id": request_id} if request_id else {}
        if parent:
            headers["traceparent"] = parent
        body = {"model": "writer", "prompt": prompt, "stream": False, "options": {"num_predict": 3}}
        status, _, text = self.server.request("POST", "/api/generate", body, headers)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def wait_for(self, condition, what="the condition"):
        deadline = time.monotonic() + 120
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"{what} does not come")
            time.sleep(0.02)

    def resident(self):
        pages = pathlib.Path(f"/proc/{self.server.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")

    def metric(self, name):
        text = self.server.request("GET", "/metrics")[2].decode()
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)
        return float(found.group(1)) if found else None


class Contents(OtlpTest):
    def test_a_request_is_a_span_with_its_stages(self):
        collector = self.collector()
        self.start(collector.url)
        answer = self.generate("one", f"00-{TRACE}-{PARENT}-01")
        self.server.json("POST", "/api/embed", {"model": "encoder", "input": [SECRET, "b"]})
        self.assertEqual(self.server.request("POST", "/api/chat", {"model": SECRET + "-model", "messages": []})[0], 404)
        self.wait_for(lambda: len(collector.requests()) == 3)
        path, head = collector.heads[0]
        self.assertEqual((path, head["Content-Type"]), ("/v1/traces", "application/json"))
        first = next(span for span in collector.requests() if span.name == "text_completion writer:latest")
        self.assertEqual((first.trace_id.hex(), first.parent_span_id.hex()), (TRACE, PARENT))
        facts = attributes(first)
        self.assertEqual(facts["billow.request.id"], "one")
        self.assertEqual(facts["gen_ai.operation.name"], "text_completion")
        self.assertEqual(facts["gen_ai.request.model"], "writer:latest")
        self.assertEqual(facts["gen_ai.usage.input_tokens"], answer["prompt_eval_count"])
        self.assertEqual(facts["gen_ai.usage.output_tokens"], answer["eval_count"])
        self.assertEqual(facts["gen_ai.response.finish_reasons"], [answer["done_reason"]])
        self.assertEqual((facts["http.route"], facts["http.response.status_code"]), ("/api/generate", 200))
        children = {span.name: span for span in collector.spans() if span.parent_span_id == first.span_id}
        drawn = self.server.json("GET", "/api/trace/one")["spans"]
        self.assertEqual(sorted(children), sorted({span["name"] for span in drawn if span["end"] > span["begin"]}))
        self.assertTrue({"loading", "prefill", "decode"} <= set(children), sorted(children))
        self.assertEqual(sorted(event.name for event in first.events),
                         sorted(span["name"] for span in drawn if span["end"] == span["begin"]))
        for span in children.values():
            self.assertEqual(span.trace_id, first.trace_id)
            self.assertGreaterEqual(span.start_time_unix_nano, first.start_time_unix_nano)
            self.assertLessEqual(span.end_time_unix_nano, first.end_time_unix_nano)
        self.assertLess(abs(first.end_time_unix_nano / 1e9 - time.time()), 3600)
        embedded = next(span for span in collector.requests() if span.name == "embeddings encoder:latest")
        self.assertNotEqual(embedded.trace_id.hex(), TRACE)
        self.assertGreater(attributes(embedded)["gen_ai.usage.input_tokens"], 0)
        missing = next(span for span in collector.requests() if span.name == "chat")
        self.assertEqual((attributes(missing)["error.type"], missing.status.code), ("404", Status.STATUS_CODE_UNSET))
        everything = b"".join(collector.bodies).decode()
        self.assertNotIn(SECRET, everything, "texts of requests stay on the machine")
        resource = attributes(strictly_parsed(collector.bodies[0]).resource_spans[0].resource)
        self.assertEqual((resource["service.name"], resource["host.name"]), ("billow", "node-7"))
        ids = [span.span_id for span in collector.spans()]
        self.assertEqual(len(ids), len(set(ids)))
        self.wait_for(lambda: self.metric("billow_spans_sent_total") == len(ids), "the count")

    def test_the_client_decides_what_is_recorded(self):
        collector = self.collector()
        self.start(collector.url)
        self.generate("no", f"00-{TRACE}-{PARENT}-00")
        self.generate("yes", f"00-{TRACE}-{PARENT}-01")
        self.wait_for(collector.requests)
        self.assertEqual([attributes(span)["billow.request.id"] for span in collector.requests()], ["yes"])

    def test_settings_come_from_the_environment(self):
        collector = self.collector()
        self.start(None, variables={"BILLOW_OTLP": collector.url, "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20t"})
        self.generate()
        self.wait_for(collector.requests)
        self.assertEqual(collector.heads[0][1]["Authorization"], "Bearer t")

    def test_nothing_is_sent_by_default(self):
        collector = self.collector()
        self.start(None, variables={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
        self.generate()
        self.assertEqual(self.server.stop(), 0)
        self.assertEqual(collector.n_asked, 0)

    def test_a_wrong_address_is_an_error_at_the_start(self):
        for args, words in ((["--otlp", "localhost:4318"], "--otlp: 'localhost:4318' is not the address of a collector"),):
            done = subprocess.run([ARGS.billow, "serve", *args], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr)


class Faults(OtlpTest):
    def test_a_collector_that_comes_late_gets_all_traces(self):
        port = free_port()
        self.start(f"http://127.0.0.1:{port}")
        for i in range(20):
            self.generate(f"r{i}")
        self.wait_for(lambda: "takes no traces" in self.server.log.read_text(), "the line of the log")
        collector = self.collector(port)
        self.wait_for(lambda: len(collector.requests()) == 20, "the traces")
        self.assertEqual({attributes(span)["billow.request.id"] for span in collector.requests()}, {f"r{i}" for i in range(20)})
        self.assertEqual(self.server.log.read_text().count("takes no traces"), 1, "the log repeats itself")
        self.wait_for(lambda: "takes traces again" in self.server.log.read_text(), "the line of the log")

    def test_a_collector_that_is_busy_or_restarts_loses_nothing(self):
        collector = self.collector()
        statuses = [503, 429, 502, 504]
        collector.answer = lambda: (statuses.pop(), {"Retry-After": "0"}) if statuses else (200, {})
        self.start(collector.url)
        self.generate("a")
        self.wait_for(collector.requests, "the trace")
        self.assertEqual(collector.n_asked, 5)
        port = collector.http.server_port
        collector.close()
        self.generate("b")
        after = self.collector(port)
        self.wait_for(after.requests, "the trace after the restart")
        self.assertEqual([attributes(span)["billow.request.id"] for span in after.requests()], ["b"])

    def test_a_collector_that_refuses_loses_only_traces(self):
        collector = self.collector()
        collector.answer = lambda: (400, {})
        self.start(collector.url)
        self.generate()
        self.wait_for(lambda: (self.metric('billow_spans_lost_total{reason="refused"}') or 0) > 0, "the count")
        self.wait_for(lambda: "spans of traces were lost: status 400" in self.server.log.read_text(), "the line of the log")

    def test_a_collector_that_hangs_delays_no_request_and_takes_no_memory(self):
        collector = self.collector()
        hangs = threading.Event()
        self.addCleanup(hangs.set)
        collector.answer = lambda: (hangs.wait(600), (200, {}))[1]
        self.start(collector.url)
        self.generate()
        self.wait_for(lambda: collector.n_asked == 1, "the first request to the collector")
        before = self.resident()
        # More than the queue has room for. A refused request has a trace, too, and costs little.
        for _ in range(1200):
            self.assertEqual(self.server.request("POST", "/api/chat", {"model": "nope", "messages": []})[0], 404)
        lost = self.metric('billow_spans_lost_total{reason="full"}')
        self.assertGreater(lost, 0)
        self.generate("answered")
        self.assertLess(self.resident() - before, 64 << 20)
        self.assertEqual(self.metric("billow_spans_sent_total"), 0)
        begin = time.monotonic()
        self.assertEqual(self.server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 45, "the end waits for the collector")
        self.assertIn("were not sent before the end", self.server.log.read_text())

    def test_the_end_sends_what_waits(self):
        collector = self.collector()
        self.start(collector.url)
        self.generate("last")
        self.assertEqual(self.server.stop(), 0)
        self.assertEqual([attributes(span)["billow.request.id"] for span in collector.requests()], ["last"])


@unittest.skipUnless(COLLECTOR.exists(), f"no collector at {COLLECTOR}; tools/setup deploy builds it if Go is installed")
class RealCollector(OtlpTest):
    def collect(self, **receiver):
        """Starts the collector. Returns its port, and a function that returns the spans that it has written."""
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        out, port = folder / "traces.json", free_port()
        (folder / "config.yaml").write_text(json.dumps({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}", **receiver}}}},
            "exporters": {"file": {"path": str(out), "flush_interval": "100ms"}},
            "service": {"telemetry": {"metrics": {"level": "none"}},
                        "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}}}}))
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([COLLECTOR, folder / "config.yaml"], stderr=log, stdout=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def listens():
            self.assertIsNone(process.poll(), (folder / "log").read_text())
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60):
                return True

        self.wait_for(listens, "the collector")

        def spans():
            if not out.exists():
                self.assertIsNone(process.poll(), (folder / "log").read_text())
                return []
            lines = [json.loads(line) for line in out.read_text().splitlines() if line.endswith("}")]
            return [span for line in lines for group in line["resourceSpans"] for scope in group["scopeSpans"] for span in scope["spans"]]

        return port, spans

    def test_the_collector_accepts_traces_over_tls_if_its_certificate_is_trusted(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        certificate, key = registry.make_certificate(folder)
        port, spans = self.collect(tls={"cert_file": str(certificate), "key_file": str(key)})
        self.start(f"https://127.0.0.1:{port}")
        self.generate("distrusted")
        self.wait_for(lambda: "takes no traces" in self.server.log.read_text(), "the line of the log")
        self.assertRegex(self.server.log.read_text(), "takes no traces.*certificate")
        self.stop()
        self.assertEqual(spans(), [])
        self.start(f"https://127.0.0.1:{port}", variables={"SSL_CERT_FILE": str(certificate)})
        self.generate("trusted")
        self.wait_for(spans, "the collector's file")
        ids = [one["value"] for span in spans() if span["kind"] == 2 for one in span["attributes"] if one["key"] == "billow.request.id"]
        self.assertEqual(ids, [{"stringValue": "trusted"}])

    def test_the_collector_of_opentelemetry_takes_the_traces(self):
        port, spans = self.collect()
        self.start(f"http://127.0.0.1:{port}")
        self.generate("one", f"00-{TRACE}-{PARENT}-01")
        self.wait_for(spans, "the collector's file")
        request = next(span for span in spans() if span["kind"] == 2)
        self.assertEqual((request["traceId"], request["parentSpanId"]), (TRACE, PARENT))
        self.assertEqual(request["name"], "text_completion writer:latest")
        facts = {one["key"]: one["value"] for one in request["attributes"]}
        self.assertEqual(facts["billow.request.id"], {"stringValue": "one"})
        self.assertGreater(int(facts["gen_ai.usage.output_tokens"]["intValue"]), 0)
        children = [span["name"] for span in spans() if span["parentSpanId"] == request["spanId"]]
        self.assertIn("decode", children)
        self.wait_for(lambda: self.metric("billow_spans_sent_total") == len(spans()), "the count of spans")


if __name__ == "__main__":
    if not COLLECTOR.exists():
        print(f"no collector of OpenTelemetry at {COLLECTOR}: its test is skipped")
    run_cases(REST)
