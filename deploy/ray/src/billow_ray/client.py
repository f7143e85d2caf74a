"""A client of one Billow: JSON requests with bulk priority, retries of what was not executed, and counters.

Any thread may call a `Billow`. Each thread has a connection of its own.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass, field
from typing import Any

from .errors import BillowUnavailable, JobError
from .recipe import canonical, sha256

DEFAULT_PORT = 11434
DEFAULT_PATIENCE_S = 60.0
_CONNECT_TIMEOUT_S = 30.0
# As in `billow generate --in`: a long answer of a busy host takes hours, because bulk work waits for interactive work. A host
# that is gone is noticed in three minutes by the probes of TCP.
_ANSWER_TIMEOUT_S = 86400.0
_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 8}
_MIN_WAIT_S = 0.1
_MAX_WAIT_S = 5.0


def address_of(host: str) -> tuple[str, int]:
    """Reads HOST[:PORT] or http://HOST[:PORT], as BILLOW_HOST has it. Any address becomes this machine's."""
    text = host.strip()
    if "://" not in text:
        text = "http://" + text
    try:
        parts = urllib.parse.urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise JobError(f"the address of Billow is wrong: '{host}': {error}") from None
    if parts.scheme != "http":
        raise JobError(f"the address of Billow must begin with http://, not '{parts.scheme}://': '{host}'")
    if port is None:
        port = 80 if "://" in host and host.strip().startswith("http://") else DEFAULT_PORT
    name = parts.hostname or "127.0.0.1"
    return ("127.0.0.1" if name in ("0.0.0.0", "::") else name), port


def default_host() -> str:
    return os.environ.get("BILLOW_HOST") or os.environ.get("OLLAMA_HOST") or f"127.0.0.1:{DEFAULT_PORT}"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def message(self) -> str:
        """The text of an error, in any of Billow's forms."""
        error = self.json()
        if isinstance(error, dict):
            error = error.get("error", error)
        if isinstance(error, dict):
            error = error.get("message", error)
        text = error if isinstance(error, str) else self.body[:300].decode(errors="replace")
        return f"{text} (status {self.status})"

    def seconds_to_wait(self) -> float:
        asked = self.headers.get("retry-after", "")
        seconds = float(asked[:4]) if asked[:4].isdigit() else 0.0
        return min(max(seconds, _MIN_WAIT_S), _MAX_WAIT_S)


@dataclass
class Counts:
    """What a client has counted. `busy` are answers 503 and 429, `lost` are requests without an answer."""

    requests: int = 0
    busy: int = 0
    lost: int = 0
    shortened: int = 0  # texts that were cut, and prompts whose messages were left out
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, **counts: int) -> None:
        with self.lock:
            for name, n in counts.items():
                setattr(self, name, getattr(self, name) + n)

    def as_json(self) -> dict[str, int]:
        with self.lock:
            return {"requests": self.requests, "busy": self.busy, "lost": self.lost, "shortened": self.shortened}


@dataclass(frozen=True)
class About:
    """What Billow says about itself."""

    version: str = ""
    isa: str = ""
    node: str = ""


def key_header() -> dict[str, str]:
    """The API key of BILLOW_API_KEY, otherwise of OLLAMA_API_KEY, as a header; nothing without a key."""
    key = (os.environ.get("BILLOW_API_KEY", "").strip() or os.environ.get("OLLAMA_API_KEY", "").strip())
    return {"Authorization": f"Bearer {key}"} if key else {}


def digest_of_file(line: str) -> str:
    """The digest in the name of a blob, as "FROM /models/blobs/sha256-..." has it; empty if there is none."""
    _, found, digits = line.rpartition("sha256")
    return "sha256:" + digits[1:] if found and len(digits) == 65 and digits[0] in "-:" else ""


class Billow:
    """`patience_s` is how long it may answer nothing useful, for all threads together, before BillowUnavailable."""

    def __init__(self, host: str | None = None, patience_s: float = DEFAULT_PATIENCE_S) -> None:
        self.host, self.port = address_of(host or default_host())
        self.patience_s = patience_s
        self.counts = Counts()
        self._client_id = uuid.uuid4().hex
        self._local = threading.local()
        self._connections: set[http.client.HTTPConnection] = set()
        self._is_closed = False
        self._last_good = time.monotonic()

    def __enter__(self) -> Billow:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections. Requests in flight, and later ones, raise BillowUnavailable."""
        self._is_closed = True
        for connection in list(self._connections):
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
            connection.close()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def post(self, path: str, body: Any) -> Answer:
        """Returns an answer other than 503 and 429. Waits and asks again meanwhile."""
        return self._patiently("POST", path, json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))

    def get(self, path: str) -> Answer:
        return self._patiently("GET", path, None)

    def _patiently(self, method: str, path: str, body: bytes | None) -> Answer:
        wait = _MIN_WAIT_S
        began = time.monotonic()
        while True:
            if self._is_closed:
                raise BillowUnavailable("the work was cancelled")
            try:
                answer = self._once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self.counts.add(lost=1)
                why, wait = f"no answer: {error or type(error).__name__}", min(2 * wait, 2.0)
            else:
                self.counts.add(requests=1)
                if answer.status not in (429, 503):
                    self._last_good = time.monotonic()
                    return answer
                self.counts.add(busy=1)
                why, wait = answer.message, answer.seconds_to_wait()
            if time.monotonic() - max(began, self._last_good) > self.patience_s:
                raise BillowUnavailable(f"Billow at {self.address} did nothing for {self.patience_s:.0f} s: {why}")
            time.sleep(wait * random.uniform(0.5, 1.5))

    def _once(self, method: str, path: str, body: bytes | None) -> Answer:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=_CONNECT_TIMEOUT_S)
            connection.connect()
            connection.sock.settimeout(_ANSWER_TIMEOUT_S)
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _PROBES.items():
                if hasattr(socket, name):  # Linux has all, other systems some
                    connection.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            self._local.connection = connection
            self._connections.add(connection)
        headers = {"Content-Type": "application/json", "X-Billow-Priority": "bulk", "X-Billow-Client": self._client_id} | key_header()
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            data = reply.read()
        except BaseException:
            self._drop(connection)
            raise
        if reply.will_close:
            self._drop(connection)
        return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, data)

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        self._local.connection = None
        self._connections.discard(connection)
        connection.close()

    def about(self) -> About:
        answer = self.get("/api/server")
        if answer.status in (401, 403):
            raise JobError(f"Billow at {self.address}: {answer.message}")
        server = answer.json()
        # A key without the role "observe" gets no metrics: the instruction set is then unknown.
        metrics = self.get("/metrics").body.decode(errors="replace")
        isa = ""
        for line in metrics.splitlines():
            if line.startswith("billow_build_info{") and 'isa="' in line:
                isa = line.split('isa="', 1)[1].split('"', 1)[0]
        if not isinstance(server, dict) or "version" not in server:
            raise JobError(f"the server at {self.address} is not Billow: /api/server has no version")
        return About(str(server["version"]), isa, str(server.get("node", "")))

    def digests(self, model: str) -> tuple[str, str]:
        """The digest of the model's weights and adapters, and one of what it adds to prompts: template, system message,
        parameters, messages, renderer, parser and projectors."""
        answer = self.post("/api/show", {"model": model})
        shown = answer.json()
        if answer.status != 200 or not isinstance(shown, dict):
            raise JobError(f"Billow at {self.address}: {answer.message}")
        lines = str(shown.get("modelfile", "")).split("\n")
        text = {name: shown.get(name, "") for name in ("parameters", "system", "template")}
        if shown.get("messages"):
            text["messages"] = shown["messages"]
        if formats := [line for line in lines if line.startswith(("RENDERER ", "PARSER "))]:
            text["formats"] = formats
        files = [(line, digest_of_file(line)) for line in lines if line.startswith(("FROM ", "ADAPTER "))]
        weights = [digest for line, digest in files if line.startswith("FROM ")][:1]
        digests = weights + [digest for line, digest in files if line.startswith("ADAPTER ")]
        if projectors := [digest for line, digest in files if line.startswith("FROM ") and digest][1:]:
            text["projectors"] = projectors
        if weights and all(digests):
            return digests[0] if len(digests) == 1 else sha256(canonical(digests)), sha256(canonical(text))
        raise JobError(f"Billow at {self.address} does not report the digest of the weights of '{model}'")
