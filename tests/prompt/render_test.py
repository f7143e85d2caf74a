#!/usr/bin/python3
"""Renders chat templates with `billow render` and with Jinja2 in the settings of transformers. The bytes must be equal. If
Jinja2 raises an exception, Billow must refuse.

usage: render_test.py BILLOW [FOLDER_WITH_TEMPLATES]

Renders the templates next to this file, and the templates of real models in the folder if it exists.
"""

import concurrent.futures
import fnmatch
import glob
import json
import os
import subprocess
import sys

try:
    import reference
except ImportError as error:
    print(f"skipped: {error} (Debian: python3-jinja2)")
    sys.exit(77)

from conversations import CONVERSATIONS
from leniencies import CHANGES_LISTS, DIFFERS, RENDERS

HERE = os.path.dirname(os.path.abspath(__file__))


def billow_render(billow, path, variables):
    """Returns the rendering and "", or None and the message."""
    process = subprocess.run(
        [billow, "render", "--template", path, "--input", "-"],
        input=json.dumps(variables).encode(),
        capture_output=True,
        timeout=120,
    )
    if process.returncode == 0:
        return process.stdout.decode(), ""
    message = process.stderr.decode().strip()
    if process.returncode != 1 or "\n" in message or not message.startswith("billow: error: "):
        message = f"CRASHED with status {process.returncode}: {message}"
    return None, message


def find(entries, template, conversation):
    for entry in entries:
        if conversation in entry[1] and any(fnmatch.fnmatch(template, p) for p in entry[0]):
            return entry
    return None


def around(text, other):
    """Returns a part of `text` around its first difference from `other`."""
    at = next((i for i, (a, b) in enumerate(zip(text, other)) if a != b), min(len(text), len(other)))
    return repr(text[max(0, at - 40) : at + 60])


def judge(template, conversation, python, billow):
    """Returns the problem, or "", and how the two renderings compare."""
    (expected, raised), (got, refused) = python, billow
    renders, differs = (find(e, template, conversation) for e in (RENDERS, DIFFERS))
    if refused and "CRASHED" in refused:
        return refused, "crashed"
    if expected is None and got is None:
        return ("listed, but both refuse" if renders or differs else ""), "refused by both"
    if expected is None:
        return ("" if renders else f"Jinja2 raises {raised}; Billow renders"), "lenient"
    if got is None:
        return f"Jinja2 renders; {refused}", "refused"
    if got == expected:
        return ("listed, but equal" if renders or differs else ""), "equal"
    if differs and differs[3](expected) == got:
        return "", "different as listed"
    return f"Jinja2 {around(expected, got)}\n    Billow {around(got, expected)}", "different"


def start(pool, billow, path):
    """Renders all conversations in the background."""
    return {
        name: pool.submit(billow_render, billow, path, variables)
        for name, variables in CONVERSATIONS.items()
    }


def compile_reference(path):
    environment = reference.make_environment(os.path.basename(path) in CHANGES_LISTS)
    with open(path, encoding="utf-8", newline="") as file:
        return reference.compile_template(environment, file.read())


def main():
    billow = sys.argv[1]
    paths = sorted(glob.glob(os.path.join(HERE, "templates", "*.jinja")))
    real = sorted(glob.glob(os.path.join(sys.argv[2], "*.jinja"))) if len(sys.argv) > 2 else []
    if not real:
        print("skipped the templates of real models: no", " ".join(sys.argv[2:3]) or "folder given")
    counts, failures = {}, []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, runs in [(path, start(pool, billow, path)) for path in paths + real]:
            template = compile_reference(path)
            for name, run in runs.items():
                python = reference.render(template, CONVERSATIONS[name])
                wrong, kind = judge(os.path.basename(path), name, python, run.result())
                counts[kind] = counts.get(kind, 0) + 1
                if wrong:
                    failures.append(f"{os.path.basename(path)}, {name}: {wrong}")
    print(f"{len(paths)} templates of our own and {len(real)} of real models, {len(CONVERSATIONS)}"
          f" conversations:", ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    print("\n".join(failures[:40]))
    if counts.get("equal", 0) == 0:
        failures.append("nothing was rendered")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
