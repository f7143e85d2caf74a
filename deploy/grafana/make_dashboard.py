#!/usr/bin/env python3
"""Writes billow.json, the dashboard of Grafana, from the table of its panels.

    deploy/grafana/make_dashboard.py            writes billow.json next to this file
    deploy/grafana/make_dashboard.py --print    prints it
"""

import json
import pathlib
import sys

WIDTH, HEIGHT = 12, 8  # of a panel, in the 24 columns of Grafana
# Selects by the variables of the dashboard.
HOSTS = 'job=~"$job",instance=~"$instance"'
MODELS = HOSTS + ',model=~"$model"'

# Title of the row, and its panels: title, unit, [(expression, legend)], what it shows.
ROWS = [
    ("Load", [
        ("Requests waiting and running", "short", [
            (f"sum by (instance) (billow_requests_waiting{{{MODELS}}})", "{{instance}} waiting"),
            (f"sum by (instance) (billow_requests_running{{{MODELS}}})", "{{instance}} running")],
         "Waiting requests are not yet in a batch. If hosts have waiting requests for minutes, add hosts."),
        ("Backlog", "s", [(f"billow_backlog_seconds{{{HOSTS}}}", "{{instance}}")],
         "Estimated time for the pending tokens of each host, at its recent rates."),
        ("Busy", "percentunit", [(f"billow_busy_ratio{{{HOSTS}}}", "{{instance}}")],
         "Share of the last 10 s in which a pass was computing."),
        ("Hosts", "short", [
            (f"sum(billow_ready{{{HOSTS}}})", "ready"), (f"sum(billow_draining{{{HOSTS}}})", "draining"),
            (f"count(billow_build_info{{{HOSTS}}})", "known")],
         "Hosts that are ready, that end, and that Prometheus reaches."),
    ]),
    ("Requests", [
        ("Requests by status", "reqps", [(f"sum by (code) (rate(billow_requests_total{{{MODELS}}}[$__rate_interval]))", "{{code}}")],
         "503: not executed, another host may do it. 500: executed and failed. 499: the client has left."),
        ("Requests by route", "reqps", [(f"sum by (route) (rate(billow_requests_total{{{MODELS}}}[$__rate_interval]))", "{{route}}")], ""),
        ("Time to the first token", "s", [
            (f"histogram_quantile({quantile}, sum by (le) (rate(billow_time_to_first_token_seconds_bucket{{{MODELS}}}[$__rate_interval])))", name)
            for quantile, name in ((0.5, "median"), (0.9, "p90"), (0.99, "p99"))],
         "From the arrival of a request to its first token."),
        ("Time in the queue", "s", [
            (f"histogram_quantile({quantile}, sum by (le) (rate(billow_queue_seconds_bucket{{{MODELS}}}[$__rate_interval])))", name)
            for quantile, name in ((0.5, "median"), (0.99, "p99"))],
         "From the arrival of a request to its first batch."),
    ]),
    ("Tokens", [
        ("Tokens", "short", [
            (f"sum(rate(billow_prompt_tokens_total{{{MODELS}}}[$__rate_interval]))", "prompt tokens/s"),
            (f"sum(rate(billow_prompt_cached_tokens_total{{{MODELS}}}[$__rate_interval]))", "of them cached"),
            (f"sum(rate(billow_generated_tokens_total{{{MODELS}}}[$__rate_interval]))", "generated tokens/s")], ""),
        ("Cached share of prompt tokens", "percentunit", [
            (f"sum by (model) (rate(billow_prompt_cached_tokens_total{{{MODELS}}}[$__rate_interval])) / "
             f"sum by (model) (rate(billow_prompt_tokens_total{{{MODELS}}}[$__rate_interval]))", "{{model}}")],
         "A balancer that keeps conversations on their hosts has a high share."),
        ("Accepted drafts", "percentunit", [
            (f"sum by (model) (rate(billow_draft_accepted_tokens_total{{{MODELS}}}[$__rate_interval])) / "
             f"sum by (model) (rate(billow_drafted_tokens_total{{{MODELS}}}[$__rate_interval]))", "{{model}}")],
         "Guessed tokens that became part of an answer."),
        ("KV memory", "percentunit", [
            (f"billow_kv_used_ratio{{{HOSTS}}}", "{{instance}} used"), (f"billow_kv_cached_ratio{{{HOSTS}}}", "{{instance}} cached")],
         "Share of the KV budget. Cached KV makes room for running requests."),
    ]),
    ("Models", [
        ("Memory of models", "bytes", [(f"sum by (instance, model) (billow_model_held_bytes{{{MODELS}}})", "{{instance}} {{model}}")], ""),
        ("Model loads", "short", [(f"sum by (model, reason) (increase(billow_model_loads_total{{{MODELS}}}[$__rate_interval]))", "{{model}} {{reason}}")],
         "Many loads with the reason 'again': the models of a host do not fit into its memory together."),
    ]),
    ("Embeddings", [
        ("Vectors", "short", [(f"sum by (instance) (rate(billow_embed_vectors_total{{{MODELS}}}[$__rate_interval]))", "{{instance}}")],
         "Vectors per second of each host."),
        ("Fill of passes", "percent", [
            (f"sum by (model) (rate(billow_embed_batch_utilization_percent_sum{{{MODELS}}}[$__rate_interval])) / "
             f"sum by (model) (rate(billow_embed_batch_utilization_percent_count{{{MODELS}}}[$__rate_interval]))", "{{model}}")],
         "Mean tokens of a pass, in percent of --n-batch."),
        ("Waiting texts", "short", [(f"sum by (instance) (billow_embed_queue_pending_tokens{{{MODELS}}})", "{{instance}}")], "Tokens of queued texts."),
        ("Texts without a vector", "short", [
            (f"sum by (type) (increase(billow_embed_failures_total{{{MODELS}}}[$__rate_interval]))", "failed: {{type}}"),
            (f"sum by (reason) (increase(billow_embed_rejected_total{{{MODELS}}}[$__rate_interval]))", "rejected: {{reason}}"),
            (f"sum(increase(billow_embed_oom_retries_total{{{MODELS}}}[$__rate_interval]))", "divided passes")], ""),
    ]),
    ("Processes", [
        ("CPU of the server", "short", [(f"rate(process_cpu_seconds_total{{{HOSTS}}}[$__rate_interval])", "{{instance}}")], "Cores, without runners."),
        ("Memory of the server", "bytes", [(f"process_resident_memory_bytes{{{HOSTS}}}", "{{instance}}")], "Without runners."),
    ]),
]

SOURCE = {"type": "prometheus", "uid": "${source}"}


def panel(number, place, title, unit, targets, text):
    return {
        "id": number, "type": "timeseries", "title": title, "description": text, "datasource": SOURCE, "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"lineWidth": 1, "fillOpacity": 10}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
                    for i, (expression, legend) in enumerate(targets)],
    }


def variable(name, label, query):
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name}, "refresh": 2, "sort": 1,
            "multi": True, "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}}


def dashboard():
    panels, y = [], 0
    for title, row in ROWS:
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        y += 1
        for i, (name, unit, targets, text) in enumerate(row):
            place = {"x": i % 2 * WIDTH, "y": y + i // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT}
            panels.append(panel(len(panels) + 1, place, name, unit, targets, text))
        y += -(-len(row) // 2) * HEIGHT
    return {
        "uid": "billow", "title": "Billow", "tags": ["billow"], "schemaVersion": 39, "editable": True, "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"}, "timezone": "browser", "panels": panels, "annotations": {"list": []},
        "templating": {"list": [
            {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {}, "hide": 0},
            variable("job", "Job", "label_values(billow_build_info, job)"),
            variable("instance", "Host", 'label_values(billow_build_info{job=~"$job"}, instance)'),
            variable("model", "Model", 'label_values(billow_requests_total{job=~"$job"}, model)')]},
    }


def text():
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        print(text(), end="")
    else:
        (pathlib.Path(__file__).resolve().parent / "billow.json").write_text(text())
