#!/usr/bin/env python3
"""Writes the tests of a GoogleTest program for ctest: discover_tests.py PROGRAM OUTPUT CASES [PROPERTY VALUE]...

A ctest runs up to CASES cases of one suite, because a process for each case takes longer to start than most cases run.
Its name is the filter if that is one pattern ("Suite.*", "Suite.Case"), otherwise "Suite.1", "Suite.2", ... The program
must be able to run any of its cases one after the other. The results of the cases are written to
build/PRESET/cases/PROGRAM/NAME.xml, for tools/summarise_tests.py. Two programs can have suites of the same name.
"""
import os
import re
import subprocess
import sys


def suites(listing):
    """Returns the cases of each suite from the output of --gtest_list_tests, without disabled ones."""
    found = {}
    for line in listing.splitlines():
        name = re.sub(r"\s+#.*", "", line)  # the parameter
        if name.endswith(".") and not name.startswith(" "):
            suite = name
        elif name.startswith("  ") and "DISABLED_" not in suite + name:
            found.setdefault(suite, []).append(name.strip())
    return found


def parts(suite, cases, n_max):
    """Yields the name and the filter of each ctest of a suite."""
    if n_max > 1 and len(cases) <= n_max:
        yield suite + "*", suite + "*"
        return
    for i in range(0, len(cases), n_max):
        some = [suite + case for case in cases[i:i + n_max]]
        yield some[0] if n_max == 1 else f"{suite}{i // n_max + 1}", ":".join(some)


def results_name(test):
    """Returns the name of the file with the results of a ctest."""
    return re.sub(r"[/*]", "_", test) + ".xml"


def main(program, output, n_max, *properties):
    listing = subprocess.run([program, "--gtest_list_tests"], stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout
    program_path = os.path.abspath(program)
    folder = os.path.join(os.path.dirname(os.path.dirname(program_path)), "cases", os.path.basename(program_path))
    values = " ".join(f'"{value}"' for value in properties)
    lines = []
    for suite, cases in suites(listing).items():
        for name, pattern in parts(suite, cases, int(n_max)):
            results = os.path.join(folder, results_name(name))
            lines.append(f'add_test("{name}" "{program}" "--gtest_filter={pattern}" "--gtest_output=xml:{results}")\n'
                         f'set_tests_properties("{name}" PROPERTIES {values})\n')
    # ctest must not read half of the file.
    with open(output + ".new", "w") as out:
        out.writelines(lines)
    os.replace(output + ".new", output)


if __name__ == "__main__":
    main(*sys.argv[1:])
