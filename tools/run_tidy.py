#!/usr/bin/env python3
"""Runs clang-tidy on sources, one process per core, and remembers clean sources.

run_tidy.py BUILD_FOLDER FILE...

A source is checked again after a change of its preprocessed text (including comments), of the checks, or of clang-tidy. The digest of
all these is the name of a file in ~/.cache/billow/tidy. Exits with 1 if a source is not clean.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

TIDY = "clang-tidy-19"
ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path.home() / ".cache/billow/tidy"
KEPT_DAYS = 30


def preprocessing(entry):
    """Returns the compile command with only the preprocessor."""
    words = shlex.split(entry["command"])
    if pathlib.Path(words[0]).name == "ccache":
        words = words[1:]
    kept, skips = [], 0
    for word in words:
        if skips:
            skips -= 1
        elif word in ("-o", "-MF", "-MT"):
            skips = 1
        elif word not in ("-c", "-MD"):
            kept.append(word)
    return [*kept, "-E", "-P", "-C", "-o", "-"]


def digest_of(entry, checks):
    """Returns None if the source does not compile; clang-tidy then reports the error."""
    done = subprocess.run(preprocessing(entry), cwd=entry["directory"], capture_output=True, check=False)
    if done.returncode != 0:
        return None
    # Removes the folder of the checkout, which is in the text of assertions.
    text = done.stdout.replace(str(ROOT).encode(), b"")
    return hashlib.sha256(checks + text).hexdigest()


def look_at(build, file, entry, checks):
    """Returns the errors of a source, or an empty text."""
    digest = digest_of(entry, checks) if entry else None
    stamp = CACHE / digest if digest else None
    if stamp and stamp.exists():
        stamp.touch()
        return ""
    done = subprocess.run([TIDY, "-p", build, "--quiet", file], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0 and "warning:" not in done.stdout:
        if stamp:
            stamp.touch()
        return ""
    return f"{done.stdout}{done.stderr}" or f"{file}: {TIDY} failed with status {done.returncode}"


def forget_old():
    for stamp in CACHE.iterdir():
        if time.time() - stamp.stat().st_mtime > KEPT_DAYS * 86400:
            stamp.unlink(missing_ok=True)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.split("\n\n")[1])
    build, files = sys.argv[1], sys.argv[2:]
    CACHE.mkdir(parents=True, exist_ok=True)
    forget_old()
    entries = {entry["file"]: entry for entry in json.loads((ROOT / build / "compile_commands.json").read_text())}
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    checks = version + (ROOT / ".clang-tidy").read_bytes()
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for output in pool.map(lambda file: look_at(build, file, entries.get(str(ROOT / file)), checks), files):
            if output:
                failed += 1
                print(output, flush=True)
    if failed:
        sys.exit(f"clang-tidy: {failed} of {len(files)} sources are not clean")


if __name__ == "__main__":
    main()
