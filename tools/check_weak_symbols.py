#!/usr/bin/env python3
"""Fails if an object for one instruction set has a weak symbol.

The linker keeps one copy of a weak symbol, such as an inline function or a template. If it keeps the copy of an AVX-512 object,
code for every processor calls instructions that only some processors have.

    tools/check_weak_symbols.py FOLDER...          the folders with the objects
    tools/check_weak_symbols.py --self-test CXX    checks the check, with objects that the compiler CXX makes
"""

import pathlib
import subprocess
import sys
import tempfile

WEAK = set("WwVvu")


def weak_symbols(path):
    lines = subprocess.run(["nm", "-C", path], check=True, capture_output=True, text=True).stdout
    for line in lines.splitlines():
        kind, _, name = line[17:].partition(" ")
        if kind in WEAK:
            yield name


def check(folders):
    objects = [path for folder in folders for path in sorted(pathlib.Path(folder).rglob("*.o"))]
    if not objects:
        return [f"no objects in {' '.join(map(str, folders))}: build first"]
    return [f"{path.name}: weak symbol: {name}" for path in objects for name in weak_symbols(path)]


def self_test(compiler):
    clean = "namespace { int twice(int x) { return 2 * x; } } int f(int x) { return twice(x); }"
    weak = "inline int twice(int x) { return 2 * x; } int (*f())(int) { return twice; }"
    for source, n_wanted in [(None, 1), (clean, 0), (weak, 1)]:
        with tempfile.TemporaryDirectory() as folder:
            if source:
                command = [compiler, "-O2", "-xc++", "-c", "-", "-o", f"{folder}/a.o"]
                subprocess.run(command, check=True, input=source, text=True)
            wrong = check([folder])
        if len(wrong) != n_wanted:
            sys.exit(f"self-test: {source!r} gave {wrong}")
    print("detects a weak symbol, and accepts an object without one")


def main():
    if sys.argv[1:2] == ["--self-test"]:
        return self_test(sys.argv[2])
    wrong = check(sys.argv[1:])
    print("\n".join(wrong) or "no weak symbol")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
