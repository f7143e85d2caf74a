"""Checks a run against its goals. Pure functions of its trace, its report and its plan."""

import dataclasses
import statistics

MIB = 1 << 20
FIRST_RUNG = 512
MAX_GAP = 2.0  # times the median gap of this many tokens before:
GAPS_BEFORE = 100
MAX_GROWTH_MS = 0.5
CAPACITY_SHARE = 0.03  # max slowdown of a large context compared with a small one that holds the same tokens
MIN_REFILL_RATE = 0.9  # relative to a prefill
MEMORY_SHARE, MEMORY_BYTES = 0.03, 64 * MIB


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    goal: str
    measured: str
    passed: bool | None  # None: nothing was measured


def all_checks(trace, record):
    """`record` has exit_status, wanted (max_tokens, max_context, policy), result (of generate), plan, prefill (rate or None) and
    capacity. capacity is None or has contexts, and for each context a list of first_token_ms and decode_tps, in turn."""
    result, plan, wanted = record["result"], record["plan"], record["wanted"]
    checks = [
        end(len(trace), result, record["exit_status"], wanted["max_tokens"]),
        transitions(result, wanted["max_context"]),
        events(trace, result, plan),
        growth_times(result),
        transition_gaps(trace),
    ]
    if wanted["policy"] == "refill":
        checks.append(refill_rate(result, record["prefill"]))
    else:
        checks.append(shift_gaps(trace))
    return checks + [memory(trace, result, plan)] + capacity(record.get("capacity"))


def end(n_rows, result, exit_status, max_tokens):
    reason, n = result["summary"]["stop_reason"], result["eval_count"]
    return Check("end of the run", f"status 0, max-tokens, {max_tokens} tokens",
                 f"status {exit_status}, {reason}, {n} tokens, {n_rows} in the trace",
                 exit_status == 0 and reason == "max-tokens" and n == n_rows == max_tokens)


def transitions(result, max_context):
    """Calculates the ladder a second time, so that the plan and the engine cannot have the same error."""
    rungs = [FIRST_RUNG << i for i in range(32) if FIRST_RUNG << i < max_context] + [max_context]
    n_prompt = result["prompt_eval_count"]
    n_max = n_prompt + result["eval_count"] - 1  # the last token needs no position
    wanted = [(a, b, a) for a, b in zip(rungs, rungs[1:]) if n_prompt < a < n_max]
    seen = [(event["from"], event["to"], event["tokens"]) for event in result["events"] if event["type"] == "transition"]

    def text(steps):
        return ", ".join(f"{a} -> {b} at {at}" for a, b, at in steps) or "none"
    return Check("transitions", text(wanted), text(seen), seen == wanted)


def planned_events(plan):
    """Returns (tokens written before, kind, from, to) for transitions and (.., kind, drop, keep) for compactions."""
    out = [(one["at_generated"], "transition", one["from"], one["to"]) for one in plan["transitions"]]
    each = plan["compactions"]
    return out + [(each["first_at_generated"] + i * each["every_generated"], "compaction", each["drop"], each["keep"])
                  for i in range(each["count"])]


def seen_events(trace, result):
    """Returns the same list for the run, from its report. The positions come from the trace."""
    rows = {"transition": list(trace.transitions), "compaction": list(trace.compactions)}
    out = []
    for event in result["events"]:
        kind = event["type"]
        numbers = ("from", "to") if kind == "transition" else ("drop", "keep")
        at = rows[kind].pop(0) if rows[kind] else None
        out.append((at, kind, *(event[name] for name in numbers)))
    return out + [(at, kind, None, None) for kind, left in rows.items() for at in left]


def event_text(event):
    at, kind, a, b = event
    return f"{kind} {a} -> {b} at {at}" if kind == "transition" else f"compaction drop={a} keep={b} at {at}"


def events(trace, result, plan):
    planned, seen = planned_events(plan), seen_events(trace, result)
    n_compactions = sum(event[1] == "compaction" for event in planned)
    goal = f"{len(planned)} events of the plan, {n_compactions} of them compactions"
    if n_compactions:
        goal += f" (drop={plan['compactions']['drop']} keep={plan['compactions']['keep']})"
    differ = [i for i in range(max(len(planned), len(seen))) if planned[i:i + 1] != seen[i:i + 1]]
    if not differ:
        return Check("events as planned", goal, "the same, one by one", True)
    first = differ[0]
    was = event_text(seen[first]) if first < len(seen) else "nothing"
    return Check("events as planned", goal, f"{len(seen)} events; number {first + 1}: {was}", False)


def growth_times(result):
    name, goal = "time of transitions", f"at most {MAX_GROWTH_MS} ms each: nothing is copied"
    times = [event["ms"] for event in result["events"] if event["type"] == "transition"]
    if not times:
        return Check(name, goal, "no transition", None)
    return Check(name, goal, ", ".join(f"{time:.2f}" for time in times) + " ms", max(times) <= MAX_GROWTH_MS)


def capacity(runs):
    """Checks that speed depends on the held tokens, not on the max context."""
    def check(name, key, unit, slower):
        """slower(small, large) returns the slowdown factor of the large context."""
        goal = f"at most {100 * CAPACITY_SHARE:.0f} % slower than in a small one"
        if not runs:
            return Check(name, goal, "not measured", None)
        small, large = runs[key]
        ratio = statistics.median(slower(a, b) for a, b in zip(small, large))
        return Check(name, goal, f"{100 * (ratio - 1):+.1f} %: median {statistics.median(small):.1f} {unit} in {runs['contexts'][0]}, "
                                 f"{statistics.median(large):.1f} in {runs['contexts'][1]}", ratio <= 1 + CAPACITY_SHARE)
    return [check("decoding in a large context", "decode_tps", "tokens/s", lambda a, b: a / b),
            check("prompts in a large context", "first_token_ms", "ms", lambda a, b: b / a)]


def gap_ratios(trace, rows):
    """Returns the gap before each of these rows, divided by the median of the gaps before it."""
    medians = [(i, trace.median_gap(i - GAPS_BEFORE, i)) for i in rows]
    return [(i, trace.gap(i) / median) for i, median in medians if median]


def transition_gaps(trace):
    name, goal = "pause at transitions", f"at most {MAX_GAP:.0f}x the median gap before"
    ratios = gap_ratios(trace, trace.transitions)
    if not ratios:
        return Check(name, goal, "no transition", None)
    return Check(name, goal, ", ".join(f"{ratio:.2f}x at {i}" for i, ratio in ratios),
                 all(ratio <= MAX_GAP for _, ratio in ratios))


def shift_gaps(trace):
    name, goal = "pause at shifts", f"median at most {MAX_GAP:.0f}x the median gap before"
    ratios = [ratio for _, ratio in gap_ratios(trace, trace.compactions)]
    if not ratios:
        return Check(name, goal, "no compaction", None)
    median = statistics.median(ratios)
    return Check(name, goal, f"{median:.2f}x ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} shifts)",
                 median <= MAX_GAP)


def refill_rate(result, prefill):
    name, goal = "speed of refills", f"at least {MIN_REFILL_RATE:.1f}x the rate of an equal prefill"
    rates = [1000 * event["tokens_evaluated_again"] / event["ms"] for event in result["events"]
             if event["type"] == "compaction"]
    if not rates or not prefill:
        return Check(name, goal, "no compaction" if not rates else "no prefill was measured", None)
    median = statistics.median(rates)
    return Check(name, goal, f"{median / prefill:.2f}x: median {median:.0f} tokens/s ({min(rates):.0f} to "
                             f"{max(rates):.0f}), prefill {prefill:.0f}", median >= MIN_REFILL_RATE * prefill)


def accounted_bytes(trace, result, plan):
    """Returns the accounted bytes of each row. If the trace has no such column, calculates them from the plan and the report."""
    if trace.accounted is not None:
        return trace.accounted
    fixed = plan["memory"]["mapped_bytes"] + result["memory"]["packed_bytes"] + result["memory"]["scratch_bytes"]
    return [fixed + kv for kv in trace.kv_in_use]


def memory(trace, result, plan):
    accounted = accounted_bytes(trace, result, plan)
    goal = f"within {100 * MEMORY_SHARE:.0f} % + {MEMORY_BYTES // MIB} MiB of the accounted memory"
    beyond = [abs(resident - n) - MEMORY_SHARE * n for resident, n in zip(trace.resident, accounted)]
    worst = beyond.index(max(beyond))
    measured = (f"largest difference at token {worst + 1}: {trace.resident[worst] / MIB:.1f} MiB resident, "
                f"{accounted[worst] / MIB:.1f} accounted")
    if trace.accounted is None:
        measured += " (by plan and report: the trace has no accounted_bytes)"
    return Check("resident memory", goal, measured, min(trace.resident) > 0 and beyond[worst] <= MEMORY_BYTES)


def table(checks):
    """Formats one line per check: the result, the goal and the measurement."""
    rows = [("", "check", "goal", "measured")]
    rows += [({True: "ok", False: "FAILED", None: "-"}[check.passed], check.name, check.goal, check.measured)
             for check in checks]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return "\n".join("  ".join([cell.ljust(width) for cell, width in zip(row, widths)] + [row[3]]).rstrip() for row in rows)
