"""Does one shard: reads its rows, asks this host's Billow, and publishes the part. Needs no Ray."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .asking import Asker, ask_in_order
from .client import DEFAULT_PATIENCE_S, About, Billow
from .errors import BillowUnavailable, InputFault, JobError
from .job import ERRORS_FOLDER, Job, part_name
from .operations import Operation, Outcome, Row, operation_of
from .reading import Block, ShardReader
from .storage import Place, Publication, fact_of, list_files, make_folder, publish_bytes

_GROUP_ROWS = 8192  # rows of a row group of a part
_EXAMPLES = 3
RESERVED_COLUMNS = ("file", "row", "error")


@dataclass
class ShardResult:
    """`status`: "published"; "present" if the part existed; "unavailable" if this host's Billow did not answer."""

    number: int
    status: str
    rows: int = 0
    errors: int = 0
    seconds: float = 0.0
    node: str = ""
    why: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)


def check_weights(billow: Billow, job: Job) -> None:
    """Refuses a host whose model is another than that of the fingerprint."""
    weights, text = billow.digests(job.model)
    expected = job.recipe.fields["weights"]
    if weights != expected:
        raise JobError(f"Billow at {billow.address} on {platform.node()} has weights {weights} of '{job.model}'; the job has {expected}")
    if job.op == "generate" and text != job.recipe.fields["model_text"]:
        raise JobError(f"Billow at {billow.address} on {platform.node()} has another template, system message, parameters or messages of '{job.model}'")


def count_errors(out: Place) -> dict[int, int]:
    """Rows with errors by shard, from the names `_errors/SHARD-ROWS`."""
    found: dict[int, int] = {}
    for fact in list_files(out.child(ERRORS_FOLDER)):
        shard, _, n = fact.name.partition("-")
        if shard.isdigit() and n.isdigit():
            found[int(shard)] = max(found.get(int(shard), 0), int(n))
    return found


class _PartWriter:
    """The part of a shard in the making."""

    def __init__(self, place: Place, job: Job, operation: Operation) -> None:
        self._file = job.shards[0].input
        self._publication = Publication(place)
        self._operation = operation
        self._keep = job.keep_schema
        self._writer: Any = None
        self._held: list[tuple[Block, list[Outcome]]] = []
        self._n_held = 0

    def add(self, block: Block, outcomes: list[Outcome]) -> None:
        self._held.append((block, outcomes))
        self._n_held += len(outcomes)
        if self._n_held >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        outcomes = [outcome for _, group in self._held for outcome in group]
        positions = [position for block, _ in self._held for position in block.positions]
        kept = pa.Table.from_batches([block.kept for block, _ in self._held], schema=self._keep)
        columns: dict[str, Any] = {"file": pa.array([self._file] * len(outcomes), pa.int32()), "row": pa.array(positions, pa.int64())}
        columns |= {name: kept.column(name) for name in self._keep.names}
        columns |= self._operation.columns(outcomes)
        columns["error"] = pa.array([outcome.error for outcome in outcomes], pa.string())
        table = pa.table(columns)
        if self._writer is None:
            # Vectors do not become smaller.
            names = {name: "NONE" if name.startswith("embedding") else "ZSTD" for name in _leaf_names(table.schema)}
            self._writer = pq.ParquetWriter(self._publication.sink, table.schema, compression=names,
                                            use_dictionary=[name for name in names if not name.startswith("embedding")])
        self._writer.write_table(table)
        self._held, self._n_held = [], 0

    def publish(self, footer: dict[str, str]) -> int:
        if self._held or self._writer is None:
            self._flush()
        self._writer.add_key_value_metadata({f"billow.{name}": value for name, value in footer.items()})
        self._writer.close()
        return self._publication.publish()

    def abandon(self) -> None:
        self._publication.abandon()


def _leaf_names(schema: pa.Schema) -> list[str]:
    """The names of the columns as Parquet has them."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    leaves = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return [leaves.column(i).path for i in range(len(leaves))]


def _answered(reader: ShardReader, asker: Asker, job: Job) -> Iterator[tuple[Block, list[Outcome]]]:
    """Each block with the outcome of each of its rows, in order. At most two blocks more than fit the requests in flight
    are in memory."""
    blocks: deque[Block] = deque()

    def good_rows() -> Iterator[Row]:
        for block in reader:
            blocks.append(block)
            yield from (row for row, error in zip(block.rows, block.errors) if error is None)

    ready: deque[Outcome] = deque()

    def finished() -> Iterator[tuple[Block, list[Outcome]]]:
        while blocks and len(ready) >= sum(error is None for error in blocks[0].errors):
            block = blocks.popleft()
            yield block, [ready.popleft() if error is None else Outcome(error=error) for error in block.errors]

    for outcomes in ask_in_order(asker, good_rows(), job.batch_rows, job.jobs):
        ready.extend(outcomes)
        yield from finished()
    yield from finished()


def run_shard(job: Job, out: Place, billow: Billow, errors_before: int = 0) -> ShardResult:
    """Does the only shard of `job` (Job.head). `errors_before` are rows with errors of other shards.

    Raises InputFault and JobError, which no other host can avoid, and BillowUnavailable.
    """
    (shard,) = job.shards
    (source,) = job.inputs
    place = out.child(part_name(job, shard, source))
    if fact_of(place) is not None:
        return ShardResult(shard.number, "present")
    began = time.monotonic()
    about = billow.about()
    check_weights(billow, job)
    operation = operation_of(job.model, job.recipe, job.dimensions, job.dtype)
    asker = Asker(billow, operation)
    asker.check()
    reader = ShardReader(job)
    writer = _PartWriter(place, job, operation)
    result = ShardResult(shard.number, "published", node=about.node or platform.node())
    try:
        for block, outcomes in _answered(reader, asker, job):
            result.rows += len(outcomes)
            for position, outcome in zip(block.positions, outcomes):
                if outcome.error is not None:
                    result.errors += 1
                    if len(result.examples) < _EXAMPLES:
                        result.examples.append(f"{source.path}: row {position}: {outcome.error}")
            if 0 <= job.max_errors < errors_before + result.errors:
                raise InputFault(too_many(job.max_errors, result.examples))
            writer.add(block, outcomes)
        result.counts = billow.counts.as_json()
        if result.errors:
            folder = out.child(ERRORS_FOLDER)
            make_folder(folder)
            publish_bytes(folder.child(f"{shard.number:06}-{result.errors}"), "\n".join(result.examples).encode())
        writer.publish(_footer(job, about, result, reader))
    except BaseException:
        with contextlib.suppress(OSError):
            writer.abandon()
        raise
    result.seconds = time.monotonic() - began
    return result


def _footer(job: Job, about: About, result: ShardResult, reader: ShardReader) -> dict[str, str]:
    return {"fingerprint": job.recipe.fingerprint, "shard": str(result.number), "rows": str(result.rows),
            "errors": str(result.errors), "begin": str(reader.begin), "end": str(reader.end), "version": about.version,
            "isa": about.isa, "node": result.node, **{name: str(n) for name, n in result.counts.items()}}


def too_many(max_errors: int, examples: list[str]) -> str:
    return f"more than {max_errors} rows have errors (--max-errors): " + "; ".join(examples)


def run_shard_or_report(job: Job, out: Place, host: str | None, errors_before: int,
                        patience_s: float = DEFAULT_PATIENCE_S) -> dict[str, Any]:
    """As run_shard, but a host that is not available is a result. As plain data, for tasks of Ray."""
    try:
        with Billow(host, patience_s) as billow:
            return asdict(run_shard(job, out, billow, errors_before))
    except BillowUnavailable as error:
        return asdict(ShardResult(job.shards[0].number, "unavailable", node=f"{platform.node()}:{os.getpid()}", why=str(error)))
