"""Runs one of these tests under pytest of the environment that tools/setup made for them.

run_tests.py --billow PROGRAM TEST.py; exits with 77 where there is no such environment.
"""

import argparse
import os
import pathlib
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("test", type=pathlib.Path)
options = parser.parse_args()

clients = pathlib.Path("~/.cache/billow/clients").expanduser()
python = clients / "python" / "bin" / "python"
if not (clients / "stamp").exists():
    print(f"skipped: no clients in {clients}; tools/setup clients installs them")
    sys.exit(77)
environment = {**os.environ, "BILLOW_PROGRAM": str(pathlib.Path(options.billow).resolve()), "BILLOW_NODE_MODULES": str(clients / "node" / "node_modules"),
               "PYTHONDONTWRITEBYTECODE": "1"}
sys.exit(subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", options.test.name],
                        cwd=options.test.parent, env=environment, check=False).returncode)
