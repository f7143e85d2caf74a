"""Runs a program on its own terminal, as a job of a shell: it can be stopped, and its terminal resized."""
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

from program import ARGS

DEADLINE = 60  # max seconds to wait for an event


def set_size(fd, columns, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def run_job(env, args, report, columns, rows):
    """Runs in the child of pty.fork(): starts the program like a shell, and exits with its status. Never returns."""
    set_size(0, columns, rows)  # before the program starts
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
    """`shown` is the whole output of the terminal; `at` is the offset after the last match of wait_for()."""

    def __init__(self, env, *args, columns=80, rows=24):
        pid_pipe, report = os.pipe()
        self.shell, self.fd = pty.fork()
        if self.shell == 0:
            run_job(dict(os.environ) | {"TERM": "xterm"} | env, args, report, columns, rows)
        self.pid = struct.unpack("i", os.read(pid_pipe, 4))[0]
        os.close(pid_pipe)
        os.close(report)
        os.set_blocking(self.fd, False)
        self.shown, self.at, self.status = b"", 0, None

    def close(self):
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # the program has ended unexpectedly
            os.waitpid(self.shell, 0)
        os.close(self.fd)

    def turn(self, wanted, data=b"", seconds=1.0):
        """Reads available output and writes a part of `data`. Returns the number of written bytes. Waits at most `seconds`."""
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
        set_size(self.fd, columns, rows)

    def has_own_modes(self):
        """Whether the terminal echoes and buffers lines, as before the program."""
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
        """Waits for the end and returns the exit status that a shell would see: at least 128 for a signal."""
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
