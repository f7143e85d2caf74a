#!/usr/bin/env python3
"""Fails on every #include in src/ that the table in cmake/modules.cmake does not allow.

    tools/check_layers.py [ROOT]        checks a source tree (default: this one)
    tools/check_layers.py --self-test   checks the check with small trees, each with one error
"""

import pathlib
import re
import sys
import tempfile

TABLE = r"set\(%s(.*?)\n\)"
ROW = re.compile(r'"([a-z_.]+):([a-z_ ]*)"')
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]*)"')
SOURCES = {".h", ".cpp", ".inl"}


def rows(root, table):
    """Returns the rows of a table of cmake/modules.cmake: the name before the colon, and the words after it."""
    found = re.search(TABLE % table, (root / "cmake/modules.cmake").read_text(), re.S)
    return [(name, rest.split()) for name, rest in ROW.findall(found.group(1) if found else "")]


def read_table(root):
    """Returns {module: modules and outside headers that it may include}, and a list of errors in the table itself."""
    allowed, wrong = {}, []
    for module, names in rows(root, "BILLOW_MODULE_TABLE"):
        for name in names:
            if name not in allowed:
                wrong.append(f"cmake/modules.cmake: {module} may use {name}, which must be above it")
        allowed[module] = names
    if not allowed:
        return {}, ["cmake/modules.cmake: no BILLOW_MODULE_TABLE"]
    for header, users in rows(root, "BILLOW_OUTSIDE_TABLE"):
        for module in users:
            allowed[module] = allowed[module] + [header]
    for folder in sorted(path.name for path in (root / "src").iterdir() if path.is_dir()):
        if folder not in allowed:
            wrong.append(f"src/{folder}: has no row in cmake/modules.cmake")
    return allowed, wrong


def check_file(root, path, allowed):
    where = path.relative_to(root)
    module = where.parts[1]
    may = allowed.get(module, [])
    wrong = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        include = INCLUDE.match(line)
        if not include:
            continue
        target = include.group(1).split("/")[0]
        if target == module or target in may:
            continue
        elif "/" not in include.group(1):
            why = 'name it from src/, as "module/file.h"'
        elif target not in allowed:
            why = f"{target} is not a module of cmake/modules.cmake"
        else:
            why = f"{module} may include: {' '.join(may) or 'no other module'}"
        wrong.append(f'{where}:{number}: #include "{include.group(1)}": {why}')
    return wrong


def check(root):
    allowed, wrong = read_table(root)
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in SOURCES and len(path.relative_to(root).parts) > 2:
            wrong += check_file(root, path, allowed)
    return wrong


def self_test():
    table = 'set(BILLOW_MODULE_TABLE\n  "base:"\n  "kv: base"\n  "engine: base kv"\n)\n'
    table += 'set(BILLOW_OUTSIDE_TABLE\n  "bridge.h: engine"\n)\n'
    good = {
        "cmake/modules.cmake": table,
        "src/base/error.h": "#include <string>\n",
        "src/kv/pool.h": '#include "base/error.h"\n#include "kv/table.h"\n',
        "src/engine/step.cpp": '#include "engine/step.h"\n#include "kv/pool.h"\n#include "bridge.h"\n',
    }
    cases = [  # one change to the good tree, and a part of the expected error (None: no error)
        ({}, None),
        ({"src/kv/pool.h": '\n#include "engine/step.h"\n'}, "src/kv/pool.h:2:"),
        ({"src/kv/deep/pool.h": '#include "engine/step.h"\n'}, "src/kv/deep/pool.h:1:"),
        ({"src/base/error.h": '#  include "kv/pool.h"\n'}, "base may include: no other module"),
        ({"src/kv/pool.h": '#include "table.h"\n'}, "name it from src/"),
        ({"src/kv/pool.h": '#include "bridge.h"\n'}, "src/kv/pool.h:1:"),
        ({"src/kv/pool.h": '#include "llama/llama.h"\n'}, "llama is not a module"),
        ({"src/api/route.h": "\n"}, "src/api: has no row"),
        ({"cmake/modules.cmake": table.replace('"base:"', '"base: kv"')}, "base may use kv"),
        ({"cmake/modules.cmake": "\n"}, "no BILLOW_MODULE_TABLE"),
    ]
    for change, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (good | change).items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            wrong = check(root)
        if (not wrong) != (expected is None) or (expected and not any(expected in line for line in wrong)):
            sys.exit(f"self-test: {change} should give {expected!r} but gave {wrong}")
    print(f"{len(cases)} trees have the expected result")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    wrong = check(root.resolve())
    print("\n".join(wrong) or "layers: cmake/modules.cmake allows every #include")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
