"""Runs one of these tests with pytest in the environment that tools/setup made for it.

run_tests.py --billow PROGRAM [--environment NAME] [--node] TEST.py; exits with 77 if the environment is missing.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("--billow", required=True)
parser.add_argument("--environment", default="python", help="of Python, under ~/.cache/billow/clients")
parser.add_argument("--node", action="store_true", help="the test needs the packages of Node, too")
parser.add_argument("test", type=pathlib.Path)
options = parser.parse_args()

clients = pathlib.Path("~/.cache/billow/clients").expanduser()
node_modules = clients / "node" / "node_modules"
for part in [options.environment, *(["node"] if options.node else [])]:
    if not (clients / part / "stamp").exists():
        print(f"skipped: no clients in {clients / part}; tools/setup clients installs them")
        sys.exit(77)
# Each run has its own root for temporary folders: pytest removes links in a shared root, and fails if another run did it.
with tempfile.TemporaryDirectory() as root:
    environment = {**os.environ, "BILLOW_PROGRAM": str(pathlib.Path(options.billow).resolve()), "BILLOW_NODE_MODULES": str(node_modules),
                   "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DEBUG_TEMPROOT": root}
    # After five minutes, a test that hangs prints what its threads do.
    done = subprocess.run([clients / options.environment / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider",
                           "-o", "tmp_path_retention_policy=failed", "-o", "faulthandler_timeout=300", options.test.name],
                          cwd=options.test.parent, env=environment, check=False)
sys.exit(done.returncode)
