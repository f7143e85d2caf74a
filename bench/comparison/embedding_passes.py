"""Measures the gain of parallel passes. The servers differ only in --max-batches. All servers run at the same time and take short
turns on the same texts. Figures are compared within a round, so other load on the machine slows all servers equally."""

import os
import pathlib
import statistics

from comparison import embedding

TURN_TEXTS = {32: 1024, 1: 256}  # by texts per request
TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(server):
    """Returns the processor time of the server and of the processes that it has started."""
    children = pathlib.Path(f"/proc/{server.process.pid}/task").glob("*/children")
    pids = [server.process.pid] + [int(pid) for file in children for pid in file.read_text().split()]
    seconds = 0.0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        seconds += (int(fields[11]) + int(fields[12])) / TICK
    return seconds


def turn(server, texts, n_clients, n_a_request):
    before = processor_seconds(server)
    figures = embedding.load(server, texts[: TURN_TEXTS[n_a_request]], n_clients, n_a_request)
    figures["processor_ms_per_text"] = 1000 * (processor_seconds(server) - before) / TURN_TEXTS[n_a_request]
    return figures


def run(servers, weights, texts, clients, n_rounds):
    """Returns {(clients, texts per request): {server name: [figures of each round]}}."""
    rows = {}
    try:
        for server in servers:
            server.open(weights, None)
            embedding.load(server, texts[:256], 4, 1)  # warm
        for number in range(n_rounds):
            for n_a_request in TURN_TEXTS:
                for n_clients in clients:
                    row = rows.setdefault((n_clients, n_a_request), {})
                    for server in servers if number % 2 == 0 else servers[::-1]:
                        row.setdefault(server.name, []).append(turn(server, texts, n_clients, n_a_request))
    finally:
        for server in servers:
            if server.process:
                server.stop()
    return rows


def lines(rows):
    yield f"{'clients, texts per request':26}{'passes':>8}{'texts/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'CPU ms/text':>13}   ratio to the first: texts/s, p50, p99, CPU"
    for (n_clients, n_a_request), row in rows.items():
        first = next(iter(row.values()))
        for name, runs in row.items():
            def median(what):
                return statistics.median(run[what] for run in runs)

            def ratio(what):
                return statistics.median(run[what] / max(1e-9, other[what]) for run, other in zip(runs, first, strict=True))

            text = f"{f'{n_clients}, {n_a_request}':26}{name:>8}{median('texts_per_second'):9.0f}{median('p50_ms'):9.2f}{median('p99_ms'):9.2f}"
            text += f"{median('processor_ms_per_text'):13.3f}"
            if runs is not first:
                text += "   " + ", ".join(f"{ratio(what):.2f}" for what in ("texts_per_second", "p50_ms", "p99_ms", "processor_ms_per_text"))
            yield text
