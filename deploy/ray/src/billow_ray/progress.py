"""Writes progress to standard error: what is done, how fast, and what was lost."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from .job import Job
from .work import ShardResult

_EVERY_S = 5.0
_MAX_LOSS_LINES = 100


class Progress:
    """Counts what this run has done. Writes a line at most every 5 seconds, and one for each of the first 100 losses."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._began = self._shown = time.monotonic()
        self._shards = self._done = self._about_rows = self._about_left = 0
        self._rows = self._n_lost = self._errors = 0
        self.examples: list[str] = []
        self._counts: dict[str, int] = {}

    def begin(self, job: Job, missing: list[int], errors: int) -> None:
        self._job_rows = [shard.rows for shard in job.shards]
        self._shards, self._done = len(job.shards), len(job.shards) - len(missing)
        self._about_rows = job.rows
        self._about_left = sum(self._job_rows[number] for number in missing)
        self._errors = errors
        resumed = f"; continuing after {self._done}" if self._done else ""
        self.say(f"{job.op} with {job.model}: {self._shards} shards of about {self._about_rows} rows{resumed}")

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def add(self, result: ShardResult) -> None:
        self._done += 1
        self._about_left -= self._job_rows[result.number]
        self._rows += result.rows
        self._errors += result.errors
        self.examples = (self.examples + result.examples)[:3]
        for name, n in result.counts.items():
            self._counts[name] = self._counts.get(name, 0) + n

    def lost(self, number: int, why: str) -> None:
        self._n_lost += 1
        if self._n_lost <= _MAX_LOSS_LINES:
            self.say(f"shard {number} was lost and runs again: {why}")
        elif self._n_lost == _MAX_LOSS_LINES + 1:
            self.say("further lost shards are counted, but not shown")

    def show(self, running: int, slots: int) -> None:
        now = time.monotonic()
        if now - self._shown < _EVERY_S:
            return
        self._shown = now
        rate = self._rows / max(now - self._began, 1e-9)
        left = f", {self._about_left / rate:.0f} s left" if rate > 0 else ""
        self.say(f"{self._done} of {self._shards} shards, {running} running on {slots} slots, {self._rows} rows in this run, "
                 f"{rate:.0f} rows/s, {self._errors} rows with errors, {self._n_lost} shards lost{left}")

    def summary(self) -> dict[str, Any]:
        seconds = time.monotonic() - self._began
        return {"shards": self._shards, "shards_done": self._done, "rows_of_this_run": self._rows, "rows_with_errors": self._errors,
                "shards_lost": self._n_lost, "seconds": round(seconds, 3), "rows_per_second": round(self._rows / max(seconds, 1e-9), 1),
                "examples": self.examples, **self._counts}
