"""Alerts and dashboard: the rules do what their tests say, and a real server has each metric and label that they use.

prometheus_test.py --billow PROGRAM --make-models PROGRAM [unittest arguments]; exits with 77 if promtool is missing.
"""

import argparse
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import yaml
from run_cases import run_cases
from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--make-models", required=True)
ARGS, REST = parser.parse_known_args()

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
RULES = DEPLOY / "prometheus/billow.rules.yml"
PROMTOOL = shutil.which("promtool") or str(pathlib.Path("~/.cache/billow/promtool/usr/bin/promtool").expanduser())
FROM_PROMETHEUS = {"job", "instance", "le"}  # labels that the scrape adds, or that all histograms have
METRIC = re.compile(r"\b(?:billow|process|vllm)[_:][a-z0-9_:]+")


def rules():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def dashboard():
    return json.loads((DEPLOY / "grafana/billow.json").read_text())


def expressions():
    """(where, expression) of all rules and panels, of the autoscaler and of the endpoint picker."""
    found = [(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()]
    found += [(panel["title"], target["expr"]) for panel in dashboard()["panels"] for target in panel.get("targets", [])]
    found += [(entry["name"], entry["query"]["query"]) for entry in dashboard()["templating"]["list"] if entry["type"] == "query"]
    scaler = yaml.safe_load((DEPLOY / "kubernetes/autoscaler.yaml").read_text())
    return found + [("autoscaler", metric["pods"]["metric"]["name"]) for metric in scaler["spec"]["metrics"]]


def picked():
    """The metrics that the endpoint picker reads from /metrics/load."""
    config = yaml.safe_load(yaml.safe_load((DEPLOY / "kubernetes/gateway/endpoint-picker.yaml").read_text())["data"]["billow-plugins.yaml"])
    engines = [engine for plugin in config["plugins"] for engine in plugin.get("parameters", {}).get("engineConfigs", [])]
    return {value for engine in engines for name, value in engine.items() if name.endswith("Spec")}


def used(expression):
    """The metrics of an expression with the labels that are used: those of selectors of each, and those of all `by` and `on`."""
    plain = re.sub(r'"[^"]*"', '""', expression)
    grouped = {word.strip() for words in re.findall(r"\b(?:by|on) \(([^)]*)\)", plain) for word in words.split(",")}
    found = {}
    for name, selector in re.findall(r"(" + METRIC.pattern + r")(?:\{([^}]*)\})?", plain):
        labels = set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", selector))
        found[name] = found.get(name, set()) | labels
    return found, grouped


class Rules(unittest.TestCase):
    def test_rules_are_valid_and_do_what_their_tests_say(self):
        for words in (["check", "rules", RULES], ["test", "rules", DEPLOY / "prometheus/billow.rules.test.yml"]):
            done = subprocess.run([PROMTOOL, *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_has_a_test_in_which_it_fires(self):
        tests = yaml.safe_load((DEPLOY / "prometheus/billow.rules.test.yml").read_text())["tests"]
        fired = {case["alertname"] for test in tests for case in test.get("alert_rule_test", []) if case.get("exp_alerts")}
        alerts = {rule["alert"] for rule in rules() if "alert" in rule}
        self.assertEqual(fired, alerts)
        for rule in rules():
            if "alert" in rule:
                self.assertEqual(rule["annotations"].keys(), {"summary", "action"}, rule["alert"])

    def test_the_dashboard_is_that_of_its_table(self):
        spec = importlib.util.spec_from_file_location("make_dashboard", DEPLOY / "grafana/make_dashboard.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.assertEqual((DEPLOY / "grafana/billow.json").read_text(), module.text())

    def test_panels_do_not_overlap(self):
        taken = set()
        for panel in dashboard()["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells
        ids = [panel["id"] for panel in dashboard()["panels"]]
        self.assertEqual(len(set(ids)), len(ids))


class Names(unittest.TestCase):
    """Compares names with the metrics of a server that has written, embedded and ranked."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        made = pathlib.Path(folder.name) / "made"
        made.mkdir()
        subprocess.run([ARGS.make_models, str(made), "--to-serve"], check=True, capture_output=True)
        server = Server(folder.name, ["--threads", "1"], program=str(pathlib.Path(ARGS.billow).resolve()))
        cls.addClassCleanup(server.stop)
        for name in ("encoder", "writer"):
            server.add_model(name, made / f"{name}.gguf")
        server.json("POST", "/api/embed", {"model": "encoder", "input": ["a"]})
        server.json("POST", "/api/generate", {"model": "writer", "prompt": "a", "stream": False, "options": {"num_predict": 3}})
        deadline = time.monotonic() + 120
        while True:  # runners report their metrics every moment
            cls.metrics = cls.scrape(server, "/metrics")
            if cls.value("billow_embed_vectors_total") > 0:
                break
            assert time.monotonic() < deadline, "the runner does not report"
            time.sleep(0.2)
        cls.load = cls.scrape(server, "/metrics/load")

    @staticmethod
    def scrape(server, path):
        """Names of series, with the labels of all series of that name and their values."""
        found = {}
        for line in server.request("GET", path)[2].decode().splitlines():
            if line and not line.startswith("#"):
                name, labels, value = re.fullmatch(r"([\w:]+)(?:\{(.*)\})? (\S+)", line).groups()
                entry = found.setdefault(name, (set(), []))
                entry[0].update(re.findall(r'(\w+)="', labels or ""))
                entry[1].append(float(value))
        return found

    @classmethod
    def value(cls, name):
        return sum(cls.metrics.get(name, (set(), []))[1])

    def test_all_metrics_and_labels_exist(self):
        recorded = {rule["record"]: used(rule["expr"])[1] for rule in rules() if "record" in rule}
        n = 0
        for where, expression in expressions():
            metrics, grouped = used(expression)
            known = set(FROM_PROMETHEUS)
            for name, selected in metrics.items():
                if ":" in name and name in recorded:
                    labels = recorded[name]
                else:
                    self.assertIn(name, self.metrics, f"{where}: no such metric")
                    labels = self.metrics[name][0]
                self.assertEqual(selected - labels - FROM_PROMETHEUS, set(), f"{where}: {name} has no such label")
                known |= labels
                n += 1
            self.assertEqual(grouped - known, set(), f"{where}: no metric of it has this label")
        self.assertGreater(n, 50)

    def test_statuses_and_reasons_exist(self):
        values = {value for _, expression in expressions() for value in re.findall(r'reason="(\w+)"', expression)}
        text = (DEPLOY.parent / "docs/operations.md").read_text()
        loads = next(line for line in text.splitlines() if line.startswith("| `billow_model_loads_total`"))
        self.assertEqual({value for value in values if f"`{value}`" not in loads}, set())

    def test_the_picker_reads_what_the_server_has(self):
        self.assertEqual(picked() - self.load.keys(), set())
        self.assertEqual(len(picked()), 3)

    def test_a_wrong_name_is_found(self):
        metrics, grouped = used('sum by (instance, modell) (rate(billow_request_total{code="503",models=~"$model"}[5m]))')
        self.assertEqual((metrics, grouped), ({"billow_request_total": {"code", "models"}}, {"instance", "modell"}))
        self.assertNotIn("billow_request_total", self.metrics)


if __name__ == "__main__":
    if not pathlib.Path(PROMTOOL).exists():
        print(f"skipped: no promtool at {PROMTOOL}; tools/setup deploy installs it")
        sys.exit(77)
    run_cases(REST)
