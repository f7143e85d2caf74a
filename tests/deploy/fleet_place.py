"""A fleet on this machine for tests and benchmarks: hosts, a hosts file, and HAProxy with the configuration that `billow fleet config` makes."""

import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "server"))
from ports import free_port  # noqa: E402

HAPROXY = shutil.which("haproxy") or ("/usr/sbin/haproxy" if os.access("/usr/sbin/haproxy", os.X_OK) else None)


def wait_for(what, condition, seconds=30):
    """Waits until condition() is true. An OSError counts as false."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except (OSError, http.client.HTTPException):
            pass
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds} s: {what}")
        time.sleep(0.02)


def send(port, method, path, body=None, headers=None, address="127.0.0.1", timeout=60):
    """Sends a request on its own connection. Returns the status, the headers and the body."""
    connection = http.client.HTTPConnection(address, port, timeout=timeout)
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


class StandIn:
    """A running stand-in for `billow serve`."""

    def __init__(self, name, *arguments, port=0, address="127.0.0.1", prefix=()):
        self.name = name
        self.address = address
        self.port = port or free_port()
        self.arguments = arguments
        self.prefix = prefix
        self.process = None
        self.start()

    def start(self):
        command = [*self.prefix, sys.executable, HERE / "stand_in.py", "--address", self.address, "--port", self.port, "--node", self.name,
                   *self.arguments]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n", f"{self.name} did not start"

    def send(self, method, path, body=None):
        return send(self.port, method, path, body, address=self.address)

    def control(self, **behaviour):
        assert self.send("POST", "/control", behaviour)[0] == 200

    def state(self):
        return json.loads(self.send("GET", "/control")[2])

    def got(self, path=None):
        return [one for one in self.state()["got"] if path in (None, one["path"])]

    def kill(self):
        self.process.kill()
        self.end()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def hosts_text(hosts, port, metrics, top="", models="", keys=""):
    """A hosts file for hosts with `name`, `address` and `port`."""
    text = f'listen = "127.0.0.1:{port}"\nmetrics = "127.0.0.1:{metrics}"\n{top}\n'
    for host in hosts:
        address = getattr(host, "address", "127.0.0.1")
        text += f'[[host]]\nname = "{host.name}"\naddress = "{address}:{host.port}"\n{keys}\n'
    return text + models


class Balancer:
    """HAProxy in front of hosts, as `billow fleet config` configures it."""

    def __init__(self, billow, folder, hosts, top="", models="", keys=""):
        self.folder = pathlib.Path(folder)
        self.port, self.metrics = free_port(), free_port()
        self.hosts_file = self.folder / "fleet.toml"
        self.hosts_file.write_text(hosts_text(hosts, self.port, self.metrics, top, models, keys))
        made = subprocess.run([billow, "fleet", "config", "--hosts", self.hosts_file], capture_output=True, check=True)
        self.config = self.folder / "haproxy.cfg"
        self.config.write_bytes(made.stdout)
        self.log = (self.folder / "haproxy.log").open("ab")
        self.process = subprocess.Popen([HAPROXY, "-db", "-f", self.config], stdout=self.log, stderr=self.log)
        self.kept = None
        n_hosts = len(hosts)
        try:
            wait_for("HAProxy finds all hosts ready", lambda: self.has_ended() or self.n_ready() == n_hosts)
            assert not self.has_ended(), self.text()
        except AssertionError:
            self.end()
            raise

    def has_ended(self):
        return self.process.poll() is not None

    def states(self):
        """The state of each host, from the statistics of HAProxy."""
        text = send(self.metrics, "GET", "/;csv")[2].decode()
        rows = [line.split(",") for line in text.splitlines() if line and not line.startswith("#")]
        return {row[1]: row[17] for row in rows if row[0] == "hosts" and row[1] not in ("FRONTEND", "BACKEND")}

    def n_ready(self):
        return sum(state.startswith("UP") for state in self.states().values())

    def send(self, method, path, body=None, headers=None, timeout=60):
        return send(self.port, method, path, body, headers, timeout=timeout)

    def ask(self, path, body, headers=None):
        """Posts on the one connection that all calls share. HAProxy has finished with a request when the next one arrives on its connection: a
        request that HAProxy still counts is load, and at low load the bound allows a host one request. Returns what send() returns."""
        if self.kept is None:
            self.kept = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.kept.request("POST", path, json.dumps(body).encode(), headers or {})
        answer = self.kept.getresponse()
        return answer.status, answer.headers, answer.read()

    def node(self, path, body, headers=None):
        """The host that answered the request of ask()."""
        status, fields, text = self.ask(path, body, headers)
        assert status == 200, (status, text)
        return fields["X-Billow-Node"]

    def text(self):
        return (self.folder / "haproxy.log").read_text()

    def end(self):
        if self.kept is not None:
            self.kept.close()
        self.process.terminate()
        self.process.wait()
        self.log.close()
