"""Runs one of these tests in the Python environment that tools/setup made for it.

run_test.py TEST.py [arguments of the test]; exits with 77 if the environment is missing.
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENT = pathlib.Path("~/.cache/billow").expanduser() / {"otlp_test.py": "otlp"}.get(sys.argv[1], "deploy")

if not (ENVIRONMENT / "stamp").exists():
    print(f"skipped: there is no {ENVIRONMENT}; tools/setup deploy makes it")
    sys.exit(77)
path = [ROOT / "deploy/ray/src", ROOT / "tests/server", ROOT / "tests/cli"]
variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1",
             "RAY_USAGE_STATS_ENABLED": "0", "PATH": f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}"}
sys.exit(subprocess.run([ENVIRONMENT / "bin/python", HERE / sys.argv[1], *sys.argv[2:]], env=variables, check=False).returncode)
