"""Runs Node programs that use npm clients and print their results as JSON."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
PACKAGES = pathlib.Path(os.environ.get("BILLOW_NODE_MODULES", HERE / "node_modules"))


def need(*packages):
    """Skips the test if Node or one of the packages is missing."""
    missing = [package for package in packages if not (PACKAGES / package).exists()]
    if shutil.which("node") is None or missing:
        pytest.skip("no node, or no package for it: " + ", ".join(missing))


def run_node(program, *arguments):
    """Runs a program next to this file. Returns its output."""
    ran = subprocess.run(["node", HERE / program, PACKAGES, *arguments], capture_output=True, text=True, timeout=1000, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def program_of(pattern):
    """Returns the file of the packages that matches a pattern: a program for this machine. Skips the test if there is none."""
    programs = list(PACKAGES.glob(pattern))
    if not programs:
        pytest.skip(f"no {pattern} in {PACKAGES}")
    return programs[0]
