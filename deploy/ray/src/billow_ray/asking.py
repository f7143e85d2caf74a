"""Asks one Billow for the results of rows, so that one bad row costs one row."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from .client import Answer, Billow
from .errors import BillowUnavailable, JobError
from .operations import BadAnswer, Operation, Outcome, Row, size_of

_MAX_BATCH_BYTES = 1 << 20  # of the texts of a request
_ATTEMPTS_OF_A_ROW = 3


def batches(rows: Iterable[Row], max_rows: int) -> Iterator[list[Row]]:
    """Cuts rows into requests of at most `max_rows` rows and about 1 MiB."""
    batch: list[Row] = []
    n_bytes = 0
    for row in rows:
        n = size_of(row)
        if batch and (len(batch) >= max_rows or n_bytes + n > _MAX_BATCH_BYTES):
            yield batch
            batch, n_bytes = [], 0
        batch.append(row)
        n_bytes += n
    if batch:
        yield batch


class Asker:
    """Sends requests of `operation` to `billow`. Any thread may call it."""

    def __init__(self, billow: Billow, operation: Operation) -> None:
        self._billow = billow
        self._operation = operation

    def check(self) -> Outcome:
        """Does the canary, which also loads the model. Raises JobError if this model cannot do the operation."""
        answer = self._send([self._operation.canary])
        if answer.status != 200:
            if answer.status >= 500:
                raise BillowUnavailable(f"Billow at {self._billow.address}: {answer.message}")
            raise JobError(f"Billow at {self._billow.address}: {answer.message}")
        outcome = self._read(answer, [self._operation.canary])[0]
        if outcome.error is not None:
            raise JobError(f"Billow at {self._billow.address}: {outcome.error}")
        return outcome

    def ask(self, rows: Sequence[Row]) -> list[Outcome]:
        """An outcome for each row, in order. Raises BillowUnavailable if the host is at fault, JobError if the job is."""
        answer = self._send(rows)
        if answer.status == 200:
            outcomes = self._read(answer, rows)
            if len(rows) == 1:
                return [self._again(rows[0], outcomes[0].error or "") if outcomes[0].is_of_host else outcomes[0]]
            return [self.ask([row])[0] if outcome.is_of_host else outcome for row, outcome in zip(rows, outcomes)]
        if answer.status not in (400, 413, 422) and answer.status < 500:
            raise JobError(f"Billow at {self._billow.address}: {answer.message}")
        if len(rows) > 1:
            middle = len(rows) // 2
            return self.ask(rows[:middle]) + self.ask(rows[middle:])
        return [self._again(rows[0], answer.message) if answer.status >= 500 else Outcome(error=answer.message)]

    def _again(self, row: Row, why: str) -> Outcome:
        """The outcome of a row that the host has failed once. It has an error only if the host can do another row."""
        for attempt in range(1, _ATTEMPTS_OF_A_ROW):
            time.sleep(attempt * random.uniform(0.2, 0.6))
            answer = self._send([row])
            if answer.status == 200:
                outcome = self._read(answer, [row])[0]
                if not outcome.is_of_host:
                    return outcome
                why = outcome.error or why
            else:
                why = answer.message
        self.check()
        return Outcome(error=why)

    def _send(self, rows: Sequence[Row]) -> Answer:
        answer = self._billow.post(self._operation.path(rows), self._operation.body(rows))
        cut = answer.headers.get("x-billow-truncated", "")
        n_shortened = int(cut) if cut.isdigit() else int("x-billow-shortened" in answer.headers)
        if n_shortened:
            self._billow.counts.add(shortened=n_shortened)
        return answer

    def _read(self, answer: Answer, rows: Sequence[Row]) -> list[Outcome]:
        try:
            return self._operation.read(answer, rows)
        except BadAnswer as error:
            raise BillowUnavailable(f"the server at {self._billow.address} sent a wrong answer: {error}") from None


def ask_in_order(asker: Asker, rows: Iterable[Row], max_rows: int, jobs: int) -> Iterator[list[Outcome]]:
    """Outcomes of all rows, request by request and in order, with `jobs` requests in flight."""
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="billow")
    waiting: deque[Future[list[Outcome]]] = deque()
    try:
        for batch in batches(rows, max_rows):
            waiting.append(pool.submit(asker.ask, batch))
            if len(waiting) >= 2 * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
