#!/usr/bin/env python3
"""Prints the results of runs of ctest: summarise_tests.py RESULTS.xml CASES_FOLDER [RESULTS.xml CASES_FOLDER]...

RESULTS.xml is from ctest --output-junit. CASES_FOLDER has the results of the cases of GoogleTest, which
cmake/discover_tests.py lets the programs write. Prints what was skipped and why, the end of what each failed test printed,
the ten tests that took longest, and last a line with the number of passed, failed and skipped tests of all runs: cases of
GoogleTest, and other tests. Another test says with lines "skipped: CASE: REASON" or "skipped: REASON" that it has skipped
a part of itself, or all.
"""
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cmake"))

from discover_tests import results_name  # noqa: E402


def cases(folder):
    """Returns the passed, failed and skipped cases of the files of results, by their names. Programs can have tests of the
    same name, each with its own file."""
    found = collections.defaultdict(list)
    for path in sorted(pathlib.Path(folder).glob("*/*.xml")):
        try:
            rows = list(xml.parse(path).iter("testcase"))
        except xml.ParseError:  # the program crashed while it wrote
            continue
        results = {"passed": [], "failed": [], "skipped": []}
        for row in rows:
            kind = "failed" if row.find("failure") is not None else \
                   "skipped" if row.get("result") == "skipped" else "passed"
            name = f"{row.get('classname')}.{row.get('name')}"
            if kind == "skipped":
                # The message begins with a line that names the place in the source.
                message = row.find("skipped").get("message", "") if row.find("skipped") is not None else ""
                reason = " ".join(line for line in message.splitlines() if line and not re.search(r"\.(cpp|h):\d+$", line))
                name = f"{name}: {reason}" if reason else name
            results[kind].append(name)
        found[path.name].append(results)
    return found


def take(results, is_failed):
    """Removes and returns the results of one test, or None. Of tests of the same name, a failed one takes failed cases."""
    results.sort(key=lambda one: bool(one["failed"]) != is_failed)
    return results.pop(0) if results else None


def end_of(test):
    return "\n".join((test.findtext("system-out") or "").splitlines()[-40:])


def skips(test):
    """Returns what a test that is not of GoogleTest says that it has skipped. Cases with the same reason share a line."""
    lines = re.findall(r"^skipped: (.*\S)", test.findtext("system-out") or "", re.MULTILINE)
    n_of, first = collections.Counter(), {}
    for line in lines:
        reason = re.sub(r"^[\w.]+( \([^:]*\))?: ", "", line)
        n_of[reason] += 1
        first.setdefault(reason, line)
    return len(lines), [first[reason] if n == 1 else f"{n} cases: {reason}" for reason, n in n_of.items()]


def summarise(results, folder, n, seconds):
    """Adds the numbers of one run to n, and the duration of each test to seconds. Prints what failed or was skipped."""
    of_cases = cases(folder)
    for test in xml.parse(results).iter("testcase"):
        name = test.get("name")
        seconds.append((float(test.get("time", 0)), f"{name} ({pathlib.Path(results).stem})"))
        kind = {"run": "passed", "fail": "failed"}.get(test.get("status"), "skipped")
        known = take(of_cases[results_name(name)], kind == "failed")
        if kind == "failed":
            print(f"\nthe end of what {name} printed:\n{end_of(test)}\n")
            # A program can fail after or without a failed case, for example by a crash.
            n["failed"] += max(1, len(known["failed"]) if known else 0)
        elif known is None:
            n_skipped, rows = skips(test)
            n["passed"] += kind == "passed"
            n["skipped"] += max(n_skipped, kind == "skipped")
            for row in rows or ["no reason is known"] * (kind == "skipped"):
                print(f"skipped: {name}: {row}")
        if known is not None:
            n["passed"] += len(known["passed"])
            n["skipped"] += len(known["skipped"])
            for case in known["skipped"]:
                print(f"skipped: {case}")


def main(*arguments):
    n = {"passed": 0, "failed": 0, "skipped": 0}
    seconds = []
    for results, folder in zip(arguments[::2], arguments[1::2]):
        summarise(results, folder, n, seconds)
    print("\nthe ten slowest tests:")
    for taken, name in sorted(seconds, reverse=True)[:10]:
        print(f"{taken:6.0f} s  {name}")
    print(f"{n['passed']} passed, {n['failed']} failed, {n['skipped']} skipped")


if __name__ == "__main__":
    main(*sys.argv[1:])
