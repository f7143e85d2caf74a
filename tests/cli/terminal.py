"""A program on a terminal of its own, as a job of a shell: it can be stopped, and its terminal resized."""
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

from program import ARGS

DEADLINE = 60  # seconds for anything to happen


def run_job(env, args, report):
    """In the child of pty.fork(): starts the program as a shell does, and ends as it does. Never returns."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execve(ARGS.billow, [ARGS.billow, *args], env)
    os.write(report, struct.pack("i", job))
    status = os.waitpid(job, 0)[1]
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


class Job:
    """`shown` is all that the terminal got, `at` how much of it wait_for() has passed."""

    def __init__(self, env, *args, columns=80, rows=24):
        told, report = os.pipe()
        self.shell, self.fd = pty.fork()
        if self.shell == 0:
            run_job(dict(os.environ, TERM="xterm", **env), args, report)
        self.pid = struct.unpack("i", os.read(told, 4))[0]
        os.close(told)
        os.close(report)
        os.set_blocking(self.fd, False)
        self.shown, self.at, self.status = b"", 0, None
        self.resize(columns, rows)

    def close(self):
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended where it should not
            os.waitpid(self.shell, 0)
        os.close(self.fd)

    def turn(self, wanted, data=b"", seconds=1.0):
        """Reads what there is, writes a part of `data`; how much. Waits no longer than `seconds` for either."""
        readable, writable, _ = select.select([self.fd], [self.fd] if data else [], [], seconds)
        if readable:
            try:
                self.shown += os.read(self.fd, 65536)
            except OSError:  # the program has ended
                raise AssertionError(f"ended before {wanted}: {self.shown[-2000:]!r}") from None
        return os.write(self.fd, data[:512]) if writable else 0

    def until(self, condition, wanted):
        end = time.monotonic() + DEADLINE
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"no {wanted}; shown: {self.shown[-2000:]!r}")
            self.turn(wanted, seconds=0.02)

    def send(self, data):
        data = data.encode() if isinstance(data, str) else data
        while data:
            data = data[self.turn("input was taken", data):]

    def wait_for(self, text):
        wanted = text.encode()
        self.until(lambda: self.shown.find(wanted, self.at) >= 0, repr(text))
        self.at = self.shown.find(wanted, self.at) + len(wanted)

    def ask(self, line, answer):
        self.wait_for(">>> ")
        self.send(line + "\r")
        self.wait_for(answer)

    def leave(self, command):
        self.wait_for(">>> ")
        self.send(command)
        return self.wait()

    def resize(self, columns, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def has_own_modes(self):
        """Whether the terminal echoes and gathers lines, as it did before the program."""
        flags = termios.tcgetattr(self.fd)[3]
        return bool(flags & termios.ECHO) and bool(flags & termios.ICANON)

    def state(self):
        with open(f"/proc/{self.pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1].decode()

    def kill(self, number):
        os.kill(self.pid, number)

    def stop(self, number=signal.SIGTSTP):
        self.kill(number)
        self.until(lambda: self.state() == "T", "stop")

    def go_on(self):
        self.kill(signal.SIGCONT)
        self.until(lambda: self.state() != "T" and not self.has_own_modes(), "end of the stop")

    def wait(self):
        """The status that a shell would see: 128 and more for a signal."""
        end = time.monotonic() + DEADLINE
        while self.status is None:
            if time.monotonic() > end:
                raise AssertionError(f"does not end: {self.shown[-2000:]!r}")
            try:
                self.turn("end", seconds=0.02)
            except AssertionError:
                pass
            pid, status = os.waitpid(self.shell, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status
