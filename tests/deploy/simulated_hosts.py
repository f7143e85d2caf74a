"""Simulated hosts for bulk work: each has its own loopback, a Billow at 127.0.0.1:11434 and a node of Ray.

With root rights, a host is a network namespace on a bridge, and its /tmp is its own. `available()` says why not.
"""

import contextlib
import http.client
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

PORT = 11434
RAY_PORT = 6379
_START_S = 120
# A dead host is noticed after about 3 s, because connections to it are refused. A slow host has a minute. Only the hosts of a
# network reach its head, so it needs no token. Ray stops no worker when other programs take the memory of this machine.
# Ray Data reads the ends of Parquet files in one process, not in 32.
_RAY_VARIABLES = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "20000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_DATA_PARQUET_FOOTER_NUM_ACTORS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
}


def available():
    """None, or why hosts cannot be simulated here."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    missing = [program for program in ("ip", "mount") if shutil.which(program) is None]
    if missing:
        return f"no program '{missing[0]}' here"
    name = f"blw{os.getpid()}t"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None if done.returncode == 0 else f"no network namespaces here: {done.stderr.strip()}"


def _ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


def _remove_leftovers():
    """Removes the hosts of programs that were killed."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    for name, owner in re.findall(r"^(blw(\d+)n\d+)\b", listed, re.M):
        if pathlib.Path(f"/proc/{owner}").exists():
            continue
        pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout.split()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        for command in (["netns", "del", name], ["link", "del", f"blw{owner}b"]):
            subprocess.run(["ip", *command], capture_output=True, check=False)


# The project's folder as seen from /tmp; "" if it is elsewhere. The hosts see it, too.
_PROJECT = pathlib.Path(__file__).resolve().parents[2]
_BELOW_TMP = str(_PROJECT.relative_to("/tmp")) if _PROJECT.is_relative_to("/tmp") else ""


class Network:
    """A bridge and its hosts. Ends all their processes in close(). If this program is killed, the next Network does it."""

    _subnets = itertools.count(os.getpid() % 200)

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.subnet = f"10.{100 + next(self._subnets) % 100}.{os.getpid() // 200 % 250}"
        self.bridge = f"blw{os.getpid()}b"
        self.hosts = []
        _remove_leftovers()
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("link", "set", self.bridge, "up")

    def add(self, name):
        host = Host(self, name, len(self.hosts) + 1)
        self.hosts.append(host)
        return host

    def open(self):
        """Gives the bridge an address, so that this program can connect to the hosts."""
        _ip("addr", "replace", f"{self.subnet}.254/24", "dev", self.bridge)

    def close(self):
        for host in self.hosts:
            host.close()
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", self.bridge)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Host:
    """One host. Its processes are children of this program, and all of them are in its namespace."""

    def __init__(self, network, name, number):
        self.name, self.address = name, f"{network.subnet}.{number}"
        self._namespace = f"blw{os.getpid()}n{number}"
        self.folder = network.folder / name
        (self.folder / "tmp" / _BELOW_TMP).mkdir(parents=True)
        _ip("netns", "add", self._namespace)
        self._in("link", "set", "lo", "up")
        outer, inner = f"blw{os.getpid()}v{number}", "eth0"
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", self._namespace)
        _ip("link", "set", outer, "master", network.bridge, "up")
        self._in("addr", "add", f"{self.address}/24", "dev", inner)
        self._in("link", "set", inner, "up")
        self._in("route", "add", "default", "dev", inner)  # Ray asks for the address of its way out
        self.billow = None
        self._ray = None
        self._children = []

    def _in(self, *words):
        _ip("-n", self._namespace, *words)

    def start(self, words, log, variables=None):
        """Runs a command there. Returns its process; its output is in FOLDER/LOG."""
        script = 'set -e; [ -z "$1" ] || mount --bind "/tmp/$1" "$0/$1"; mount --rbind "$0" /tmp; shift; exec "$@"'
        command = ["ip", "netns", "exec", self._namespace, "sh", "-c", script, str(self.folder / "tmp"), _BELOW_TMP, *map(str, words)]
        with (self.folder / log).open("ab") as out:
            process = subprocess.Popen(command, env={**os.environ, **_RAY_VARIABLES, **(variables or {})}, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=out, cwd="/")
        self._children.append(process)
        return process

    def pids(self):
        """The processes in the namespace."""
        done = subprocess.run(["ip", "netns", "pids", self._namespace], capture_output=True, text=True, check=False)
        return [int(pid) for pid in done.stdout.split()]

    def processes(self):
        """(pid, command line) of the processes in the namespace."""
        found = []
        for pid in self.pids():
            with contextlib.suppress(OSError):
                found.append((pid, pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")))
        return found

    def kill(self, words):
        """Kills (SIGKILL) the processes whose command line has one of these words. Returns how many."""
        n = 0
        for pid, command in self.processes():
            if any(word in command for word in words):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    n += 1
        return n

    def kill_all(self):
        """The host fails: all its processes die."""
        self.kill([""])
        for child in self._children:
            child.wait(120)
        self._children.clear()

    def close(self):
        for _ in range(3):  # a process may start another meanwhile
            if self.pids():
                self.kill_all()
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("netns", "del", self._namespace)

    def connect(self, port):
        """A connection to a port of the loopback there, from outside."""
        own = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self._namespace}", os.O_RDONLY)
        try:
            _set_namespace(there)
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        finally:
            _set_namespace(own)
            os.close(own)
            os.close(there)

    def get(self, path):
        """(status, text) of Billow there; raises OSError."""
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
        connection.sock = self.connect(PORT)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def start_billow(self, program, models, arguments=()):
        variables = {"BILLOW_HOST": f"0.0.0.0:{PORT}", "BILLOW_MODELS": str(models), "BILLOW_REGISTRY_MIRROR": "http://127.0.0.1:9"}
        self.billow = self.start([program, "serve", "--node-name", self.name, *arguments], "billow.log", variables)
        deadline = time.monotonic() + _START_S
        while True:
            with contextlib.suppress(OSError):
                if self.get("/readyz")[0] == 200:
                    return
            if self.billow.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Billow does not start on {self.name}:\n{(self.folder / 'billow.log').read_text()[-2000:]}")
            time.sleep(0.05)

    def start_ray(self, head=None, slots=2, object_store_bytes=80_000_000):
        """Starts a node: of the cluster of `head`, or the head itself, which has no slots."""
        words = [pathlib.Path(sys.executable).parent / "ray", "start", "--block", f"--node-ip-address={self.address}", "--num-cpus=1",
                 f"--object-store-memory={object_store_bytes}", "--disable-usage-stats"]
        if head is None:
            words += ["--head", f"--port={RAY_PORT}", "--include-dashboard=false"]
        else:
            words += [f"--address={head.address}:{RAY_PORT}", "--resources", json.dumps({"billow": slots})]
        log = self.folder / "ray.log"
        at = log.stat().st_size if log.exists() else 0
        self._ray = self.start(words, "ray.log", {"BILLOW_HOST": f"127.0.0.1:{PORT}"})
        deadline = time.monotonic() + _START_S
        while "Ray runtime started" not in log.read_text()[at:]:
            if self._ray.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Ray does not start on {self.name}:\n{log.read_text()[-3000:]}")
            time.sleep(0.1)

    def state(self):
        """What a failed test shows: the processes, the status of Ray if it has ended, and the ends of the logs."""
        ended = "" if self._ray is None or self._ray.poll() is None else f"; Ray ended with status {self._ray.poll()}"
        shown = [f"host {self.name}{ended}", *(f"  {pid} {command[:100]}" for pid, command in self.processes())]
        for log in [*self.folder.glob("*.log"), *self.folder.glob("tmp/ray/session_2*/logs/ray-data/ray-data.log")]:
            with contextlib.suppress(OSError):
                shown.append(f"{log.name} of {self.name}: {log.read_text(errors='replace')[-1500:]}")
        return "\n".join(shown)

    def answered(self, route):
        """The requests of a route that Billow there has answered with 200 since its start."""
        _, text = self.get("/metrics")
        lines = [line for line in text.splitlines() if line.startswith('billow_requests_total{code="200"') and f'route="{route}"' in line]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def embedded(self):
        """The lists of texts that Billow there has embedded since its start."""
        return self.answered("/v1/embeddings")


def _set_namespace(descriptor):
    import ctypes

    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")
