"""What the tests of packages share: the build, the package, and small Debian systems to run them in."""
import argparse
import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "server"))
from ports import free_port  # noqa: E402, F401
from run_cases import run_cases  # noqa: E402

ARGS = argparse.Namespace()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path("~/.cache/billow").expanduser()
TOOLS = CACHE / "packaging" / "bin"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(*command, check=True, **options):
    """Runs a command to its end and returns it with its output as text."""
    options = {"stdin": subprocess.DEVNULL, "timeout": 300, **options}
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
    return done


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise unittest.SkipTest(f"no {program} here; tools/setup packaging installs it")


def tool(name):
    """The program of the Python environment that tools/setup packaging makes."""
    if not (TOOLS / name).exists():
        raise unittest.SkipTest(f"no {name} in {TOOLS}; tools/setup packaging installs it")
    return TOOLS / name


def package():
    """The Debian package that package_build_test.py has made."""
    found = sorted(pathlib.Path(ARGS.packages).glob("billow_*.deb"))
    if len(found) != 1:
        raise AssertionError(f"one package is expected in {ARGS.packages}: {found}")
    return found[0]


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


class Userland:
    """A throw-away Debian of a release, whose programs run with the network of this machine."""

    def __init__(self, release):
        archive = CACHE / "userlands" / release / "system.tar"
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root can run programs in another Debian")
        if not archive.exists():
            raise unittest.SkipTest(f"no {archive}; tools/setup packaging makes it")
        need("unshare", "chroot")
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        run("tar", "-C", self.root, "--exclude=./dev/*", "-xf", archive)
        works = run(*self.command("true"), check=False)
        if works.returncode != 0:
            self.folder.cleanup()
            raise unittest.SkipTest(f"programs cannot run in another Debian here: {works.stdout}")

    def close(self):
        self.folder.cleanup()

    def command(self, *words):
        """The command line that runs `words` there. Its file systems and processes end with it."""
        script = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, str(self.root), *map(str, words)]

    def run(self, *words, **options):
        environment = {"PATH": PATH, "HOME": "/root", "LC_ALL": "C", **options.pop("env", {})}
        return run(*self.command(*words), env={**environment, "DEBIAN_FRONTEND": "noninteractive"}, **options)

    @contextlib.contextmanager
    def server(self, port, *words, env):
        """Runs a server there until it has answered /readyz, and ends it after the block."""
        with tempfile.TemporaryFile("w+") as log:
            environment = {"PATH": PATH, "HOME": "/root", **env}
            process = subprocess.Popen(self.command(*words), env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                wait_ready(port, process, log)
                yield process
            finally:
                # A program that changes its user loses the signal of --kill-child, so the process gets one here.
                children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                process.kill()
                process.wait()
                for child in map(int, children):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)


def wait_ready(port, process, log):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            if get(port, "/readyz")[0] == 200:
                return
        time.sleep(0.05)
    log.seek(0)
    raise AssertionError(f"the server is not ready:\n{log.read()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--billow", required=True)
    parser.add_argument("--packages", required=True, help="the folder of the package that the tests make")
    parser.add_argument("--make-models")
    parser.parse_args(namespace=ARGS)
    run_cases()
