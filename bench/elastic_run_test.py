#!/usr/bin/env python3
"""Tests the parts of bench/elastic_run: each check with a correct and with a wrong run, and the plot. Runs no model."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from elastic import checks, plot  # noqa: E402
from elastic.trace import Trace  # noqa: E402

MIB = 1 << 20
HEAD = "n,seconds,held,rung,kv_in_use_bytes,resident_bytes"
N_PROMPT, DROP, KEEP, N_TOKENS = 20, 400, 624, 2000


def rows(gap=0.01, transition_gap=0.01, resident=150 * MIB, last_rung=1024):
    """Returns a run in a context of 1024 that keeps 624 tokens. Token i is chosen after i - 1 tokens of the answer are evaluated."""
    held, rung, seconds, out = N_PROMPT - 1, 512, 0.0, []
    for n in range(1, N_TOKENS + 1):
        wait = gap
        if held == 512 and rung == 512:
            rung, wait = last_rung, transition_gap
        if held == 1024:
            held, wait = KEEP, gap + 0.5
        held += 1
        seconds += wait if n > 1 else 0
        kv = 0 if n == N_TOKENS else -(-held // 64) * MIB
        out.append([n, f"{seconds:.6f}", held, rung, kv, resident])
    return out


def trace(lines=None, column=None):
    lines = [list(map(str, row)) for row in lines or rows()]
    if column:
        lines = [row + [str(column)] for row in lines]
    return Trace([HEAD + (",accounted_bytes" if column else "")] + [",".join(row) for row in lines])


def record():
    first = 1024 - N_PROMPT + 1
    count = (N_TOKENS - 1 - first) // DROP + 1
    compaction = {"type": "compaction", "context": 1024, "drop": DROP, "keep": KEEP, "tokens_evaluated_again": KEEP, "ms": 500}
    return {
        "machine": {"processor": "Example <1>"},
        "version": "billow 1 (commit x)",
        "threads": 2,
        "disturbed": {"steal_percent": 0, "others_percent": 0},
        "wanted": {"max_tokens": N_TOKENS, "max_context": 1024, "policy": "refill"},
        "exit_status": 0,
        "prefill": 1250.0,
        "capacity": {"contexts": [512, 32768], "first_token_ms": [[50, 52, 49], [51, 52, 50]],
                     "decode_tps": [[100, 110, 90], [99, 111, 90]]},
        "result": {
            "model": "some/model.gguf",
            "prompt_eval_count": N_PROMPT,
            "eval_count": N_TOKENS,
            "summary": {"stop_reason": "max-tokens"},
            "memory": {"packed_bytes": 90 * MIB, "scratch_bytes": 10 * MIB},
            "events": [{"type": "transition", "from": 512, "to": 1024, "tokens": 512, "ms": 0.02}] + [dict(compaction) for _ in range(count)],
        },
        "plan": {
            "transitions": [{"from": 512, "to": 1024, "at_tokens": 512, "at_generated": 512 - N_PROMPT + 1}],
            "compactions": {"count": count, "first_at_generated": first, "every_generated": DROP, "drop": DROP, "keep": KEEP},
            "memory": {"mapped_bytes": 30 * MIB,
                       "rungs": [{"context": 512, "kv_bytes": 8 * MIB}, {"context": 1024, "kv_bytes": 16 * MIB}]},
        },
    }


def outcome(changed_trace=None, **changes):
    """Returns {check: passed} with the named parts of the record replaced."""
    return {check.name: check.passed for check in checks.all_checks(changed_trace or trace(), record() | changes)}


def failed(changed_trace=None, **changes):
    return [name for name, passed in outcome(changed_trace, **changes).items() if passed is False]


class Checks(unittest.TestCase):
    def test_correct_run_passes_all_checks(self):
        found = outcome()
        self.assertEqual(len(found), 9)
        self.assertEqual(set(found.values()), {True}, found)

    def test_end(self):
        self.assertEqual(failed(exit_status=1), ["end of the run"])
        self.assertIn("end of the run", failed(trace(rows()[:-1])))

    def test_wrong_transitions(self):
        """The run and the plan agree, but both are wrong."""
        run = record()
        for one in (run["result"]["events"][0], run["plan"]["transitions"][0]):
            one["to"] = 2048
        self.assertEqual(failed(result=run["result"], plan=run["plan"]), ["transitions"])

    def test_unplanned_events(self):
        for change in ({"count": 1}, {"keep": KEEP + 1}, {"drop": DROP - 1}, {"first_at_generated": 1004},
                       {"every_generated": 399}):
            plan = record()["plan"]
            plan["compactions"] |= change
            self.assertEqual(failed(plan=plan), ["events as planned"], change)

    def test_events_missing_in_trace(self):
        flat = [row[:2] + [min(row[2], 1024)] + row[3:] for row in rows()]
        for i, row in enumerate(flat[1:], 1):
            row[2] = max(row[2], flat[i - 1][2])
        self.assertIn("events as planned", failed(trace(flat)))

    def test_gr_17_growth_takes_no_time(self):
        result = record()["result"]
        result["events"][0]["ms"] = 0.6
        self.assertEqual(failed(result=result), ["time of transitions"])

    def test_gr_18_decoding_does_not_depend_on_capacity(self):
        slow = record()["capacity"] | {"decode_tps": [[100, 110, 90], [96, 105, 91]]}
        self.assertEqual(failed(capacity=slow), ["decoding in a large context"])
        self.assertIsNone(outcome(capacity=None)["decoding in a large context"])

    def test_gr_19_prompts_do_not_depend_on_capacity(self):
        slow = record()["capacity"] | {"first_token_ms": [[50, 52, 49], [52, 54, 49]]}
        self.assertEqual(failed(capacity=slow), ["prompts in a large context"])

    def test_gr_20_pause_at_a_transition(self):
        self.assertEqual(failed(trace(rows(transition_gap=0.021))), ["pause at transitions"])
        self.assertEqual(failed(trace(rows(transition_gap=0.019))), [])

    def test_slow_refills(self):
        self.assertEqual(failed(prefill=1387.0), ["speed of refills"])
        self.assertIsNone(outcome(prefill=None)["speed of refills"])

    def test_shifts_must_take_no_time(self):
        wanted = record()["wanted"] | {"policy": "shift"}
        self.assertEqual(failed(wanted=wanted), ["pause at shifts"])  # each shift takes half a second
        quick = rows()
        for i, row in enumerate(quick):
            row[1] = f"{0.01 * i:.6f}"
        found = outcome(trace(quick), wanted=wanted)
        self.assertTrue(found["pause at shifts"])
        self.assertNotIn("speed of refills", found)

    def test_memory_differs_from_accounted(self):
        self.assertEqual(failed(trace(rows(resident=60 * MIB))), ["resident memory"])
        self.assertEqual(failed(trace(rows(resident=225 * MIB))), ["resident memory"])
        self.assertEqual(failed(trace(rows(resident=0))), ["resident memory"])

    def test_trace_column_overrides_calculated_memory(self):
        self.assertEqual(failed(trace(column=300 * MIB)), ["resident memory"])
        self.assertEqual(failed(trace(column=200 * MIB)), [])
        for column, is_missing in ((None, True), (200 * MIB, False)):
            found = {check.name: check.measured for check in checks.all_checks(trace(column=column), record())}
            self.assertEqual("no accounted_bytes" in found["resident memory"], is_missing)

    def test_table_has_a_line_per_check(self):
        lines = checks.table(checks.all_checks(trace(), record() | {"exit_status": 1})).splitlines()
        self.assertEqual(len(lines), 10)
        self.assertTrue(lines[1].startswith("FAILED  end of the run"))


class Traces(unittest.TestCase):
    def test_invalid_trace(self):
        for lines in ([], [HEAD], ["a,b", "1,2"], [HEAD, "1,0.0,x,512,0,0"], [HEAD, "1,0.0"]):
            with self.assertRaisesRegex(ValueError, "not a trace"):
                Trace(lines)

    def test_rates_ignore_compactions(self):
        self.assertTrue(all(abs(rate - 100) < 0.1 for _, rate in trace().rates(1)))


class Plot(unittest.TestCase):
    def test_plot_has_all_events(self):
        text = plot.svg(trace(), record())
        xml.etree.ElementTree.fromstring(text)
        n_compactions = record()["plan"]["compactions"]["count"]
        self.assertEqual(text.count(f"V{plot.TOP}"), n_compactions + 1)
        for word in ("512 → 1024", "Example &lt;1&gt;", "tokens/s", "KV memory, MiB", f"drop {DROP}, keep {KEEP}"):
            self.assertIn(word, text)

    def test_plot_of_long_run_is_small(self):
        with mock.patch.object(sys.modules[__name__], "N_TOKENS", 200000):
            lines, run = rows(), record()
        self.assertLess(len(plot.svg(trace(lines), run).encode()), 60000)

    def test_thin_keeps_extremes(self):
        points = [(i, 5) for i in range(1000)]
        points[333] = (333, 9)
        points[334] = (334, 1)
        few = plot.thin(points, 20)
        self.assertLess(len(few), 45)
        self.assertIn((333, 9), few)
        self.assertIn((334, 1), few)
        self.assertEqual(few, sorted(few))

    def test_steps_of_axes(self):
        for min_step, step in ((18.3, 20), (0.9, 1), (26, 40), (1000, 1000), (2.1, 2.5)):
            self.assertAlmostEqual(plot.nice_step(min_step), step)


class Program(unittest.TestCase):
    """The script itself, with files of an earlier run."""

    def run_on(self, lines, run):
        with tempfile.TemporaryDirectory() as folder:
            csv, report, svg = (pathlib.Path(folder, name) for name in ("t.csv", "r.json", "p.svg"))
            csv.write_text("\n".join([HEAD] + [",".join(map(str, row)) for row in lines]))
            run["result"]["summary"] |= {"decode_tps": 1.0, "decode_tps_with_events": 1.0}
            report.write_text(json.dumps(run))
            done = subprocess.run([pathlib.Path(__file__).with_name("elastic_run"), "--from", csv, report, "--plot", svg],
                                  capture_output=True, check=False, timeout=60)
            return done.returncode, done.stdout.decode(), done.stderr.decode(), svg.exists()

    def test_status(self):
        status, out, err, has_plot = self.run_on(rows(), record())
        self.assertEqual((status, err, has_plot), (0, "", True))
        self.assertIn("resident memory", out)
        status, out, err, _ = self.run_on(rows(resident=1), record())
        self.assertEqual((status, err), (1, ""))
        self.assertIn("FAILED  resident memory", out)

    def test_invalid_run_gives_one_line(self):
        status, _, err, _ = self.run_on([], record())
        self.assertEqual((status, err.count("\n")), (1, 1), err)
        self.assertRegex(err, "^bench/elastic_run: .*t.csv: not a trace")


if __name__ == "__main__":
    unittest.main()
