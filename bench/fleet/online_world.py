"""Simulated hosts for the benchmarks of online work: each has a network namespace with an address of its own and a share of the processor, where
root allows that. Otherwise hosts are processes with ports."""

import atexit
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "deploy"))
from fleet_place import Balancer, StandIn, free_port, send, wait_for  # noqa: E402

CGROUP = pathlib.Path("/sys/fs/cgroup/cpu")
PERIOD_US = 100_000


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def can_have_namespaces():
    return os.geteuid() == 0 and shutil.which("ip") is not None and run("ip", "netns", "list").returncode == 0


class Network:
    """A bridge with a namespace for each host. Its names begin with the id of this process, so that several worlds can exist."""

    def __init__(self, n_hosts):
        self.name = f"bo{os.getpid()}"
        self.subnet = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 200}"
        self.spaces = []
        atexit.register(self.end)
        self.must("ip", "link", "add", self.name, "type", "bridge")
        self.must("ip", "addr", "add", f"{self.subnet}.254/24", "dev", self.name)
        self.must("ip", "link", "set", self.name, "up")
        for i in range(n_hosts):
            self.add(i)

    def must(self, *command):
        done = run(*command)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"

    def add(self, i):
        space, outside = f"{self.name}n{i}", f"{self.name}v{i}"
        self.must("ip", "netns", "add", space)
        self.spaces.append(space)
        self.must("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
        self.must("ip", "link", "set", outside, "master", self.name, "up")
        self.must("ip", "-n", space, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
        self.must("ip", "-n", space, "link", "set", "eth0", "up")
        self.must("ip", "-n", space, "link", "set", "lo", "up")

    def address(self, i):
        return f"{self.subnet}.{i + 1}"

    def end(self):
        for i, space in enumerate(self.spaces):
            # Without its namespace, a link exists for a moment, and a new one of the same name would fail.
            run("ip", "link", "del", f"{self.name}v{i}")
            run("ip", "netns", "del", space)
        self.spaces = []
        run("ip", "link", "del", self.name)


class Quota:
    """A control group that limits its processes to a share of one core. Without root or version 1 of control groups, it limits nothing."""

    def __init__(self, name, share):
        self.folder = CGROUP / f"billow-online-{os.getpid()}-{name}"
        self.works = share > 0 and os.geteuid() == 0 and (CGROUP / "cpu.cfs_quota_us").exists()
        if self.works:
            self.folder.mkdir()
            (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.folder / "cpu.cfs_quota_us").write_text(str(int(share * PERIOD_US)))

    def prefix(self):
        """The beginning of a command that runs in the group."""
        return ["sh", "-c", f'echo $$ > {self.folder}/tasks && exec "$@"', "sh"] if self.works else []

    def end(self):
        if self.works:
            self.folder.rmdir()


class RealHost:
    """A real `billow serve` with a model, in the place of a stand-in."""

    def __init__(self, name, billow, folder, models, address, prefix):
        self.name, self.address, self.port, self.prefix = name, address, free_port(), prefix
        self.command = [billow, "serve", "--threads", "1", "--node-name", name, "--read-only", "--preload", "m", "--drain-delay", "4"]
        self.environment = {**os.environ, "OLLAMA_HOST": f"{address}:{self.port}", "OLLAMA_MODELS": str(models)}
        self.log = (pathlib.Path(folder) / f"{name}.log").open("ab")
        self.start()

    def start(self):
        self.process = subprocess.Popen(list(map(str, [*self.prefix, *self.command])), env=self.environment, stderr=self.log)
        wait_for(f"{self.name} is ready", lambda: send(self.port, "GET", "/readyz", address=self.address)[0] == 200, 120)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    kill = end


class World:
    """Hosts, and HAProxy in front of them."""

    def __init__(self, billow, folder, n_hosts, arguments=(), share=0.0, models=None, processes=False, **balancer):
        """`arguments` are those of the stand-ins. With `models`, a store with a model `m`, the hosts are real."""
        self.network = Network(n_hosts) if can_have_namespaces() and not processes else None
        self.kind = "namespaces" if self.network else "processes"
        self.hosts, self.quotas = [], []
        self.balancer = None
        try:
            for i in range(n_hosts):
                quota = Quota(i, share)
                self.quotas.append(quota)
                inside = ["ip", "netns", "exec", self.network.spaces[i]] if self.network else []
                address = self.network.address(i) if self.network else "127.0.0.1"
                prefix = [*quota.prefix(), *inside]
                self.hosts.append(RealHost(f"n{i}", billow, folder, models, address, prefix) if models else
                                  StandIn(f"n{i}", *arguments, address=address, prefix=prefix))
            self.balancer = Balancer(billow, folder, self.hosts, **balancer)
        except BaseException:
            self.end()
            raise

    def balancer_seconds(self):
        """CPU seconds of HAProxy."""
        fields = pathlib.Path(f"/proc/{self.balancer.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        if self.balancer:
            self.balancer.end()
        for host in self.hosts:
            host.end()
        for quota in self.quotas:
            for _ in range(50):
                try:
                    quota.end()
                    break
                except OSError:
                    time.sleep(0.02)
        if self.network:
            self.network.end()


def make_store(billow, folder, weights):
    """Returns a store in which the model `m` has these weights."""
    sys.path.insert(0, str(ROOT / "tests" / "server"))
    from server import Server
    maker = Server(folder, program=billow)
    maker.add_model("m", pathlib.Path(weights))
    maker.stop()
    return maker.models


def machine():
    """The load of this machine, for the report: figures of a busy machine are worse."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


