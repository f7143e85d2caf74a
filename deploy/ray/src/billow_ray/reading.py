"""Reads the rows of a shard, block by block. A row that cannot be used has an error in place of a row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .errors import InputFault
from .job import Job
from .operations import Pair, Row
from .storage import fact_of, place_of

BLOCK_ROWS = 1024
MAX_LINE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Block:
    """Lists of the same length. `positions` are row numbers (Parquet), or offsets of lines (JSON lines)."""

    positions: list[int]
    rows: list[Row]  # None if there is an error
    errors: list[str | None]
    kept: pa.RecordBatch


def _texts(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return value
    return None


def _messages(value: Any) -> list[dict[str, Any]] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, list) or not value:
        return None
    good = all(isinstance(one, dict) and isinstance(one.get("role"), str) and isinstance(one.get("content"), str) for one in value)
    return value if good else None


def row_of(columns: dict[str, str], values: dict[str, Any]) -> tuple[Row, str | None]:
    """The row of the values of a line or a table's row, or an error that names the column."""
    if "query" in columns:
        query, documents = values.get(columns["query"]), _texts(values.get(columns["documents"]))
        if not isinstance(query, str):
            return None, f"it has no text '{columns['query']}'"
        if not documents:
            return None, f"it has no documents '{columns['documents']}'"
        return Pair(query, documents), None
    if "messages" in columns:
        messages = _messages(values.get(columns["messages"]))
        return messages, None if messages else f"it has no messages '{columns['messages']}'"
    (name,) = columns.values()
    text = values.get(name)
    return (text, None) if isinstance(text, str) else (None, f"it has no text '{name}'")


class ShardReader:
    """Iterates the blocks of a job's only shard (Job.head). `begin` and `end` are then the bytes of the lines read."""

    def __init__(self, job: Job) -> None:
        (self._input,) = job.inputs
        (self._shard,) = job.shards
        self._job = job
        self._place = place_of(self._input.path)
        fact = fact_of(self._place)
        if fact is None:
            raise InputFault(f"{self._input.path}: no such file on this host")
        if fact.size != self._input.size:
            raise InputFault(f"{self._input.path} has changed: it had {self._input.size} bytes and has {fact.size}")
        self.begin = self._shard.begin
        self.end = self._shard.end

    def __iter__(self) -> Iterator[Block]:
        try:
            yield from self._parquet() if self._input.kind == "parquet" else self._json_lines()
        except pa.ArrowException as error:
            raise InputFault(f"{self._input.path}: {error}") from None

    def _parquet(self) -> Iterator[Block]:
        shard, columns = self._shard, self._job.columns
        names = list(dict.fromkeys([*columns.values(), *self._job.keep]))
        to_skip, left, position = shard.skip, shard.rows, shard.first
        with self._place.fs.open_input_file(self._place.path) as source:
            file = pq.ParquetFile(source)
            for batch in file.iter_batches(BLOCK_ROWS, row_groups=list(range(shard.begin, shard.end)), columns=names):
                if to_skip >= batch.num_rows:
                    to_skip -= batch.num_rows
                    continue
                batch = batch.slice(to_skip, min(left, batch.num_rows - to_skip))
                to_skip = 0
                values = {name: batch.column(name).to_pylist() for name in set(columns.values())}
                pairs = [row_of(columns, {name: values[name][i] for name in values}) for i in range(batch.num_rows)]
                kept = pa.RecordBatch.from_arrays([batch.column(name) for name in self._job.keep], schema=self._job.keep_schema) \
                    if self._job.keep else pa.RecordBatch.from_arrays([], schema=self._job.keep_schema)
                yield Block(list(range(position, position + batch.num_rows)), [row for row, _ in pairs],
                            [error for _, error in pairs], kept)
                position += batch.num_rows
                left -= batch.num_rows
                if left == 0:
                    break
        if left:
            raise InputFault(f"{self._input.path}: row groups {shard.begin} to {shard.end} have {left} rows fewer than before")

    def _lines(self) -> Iterator[tuple[int, bytes | None]]:
        """The offset and bytes of each line of the shard."""
        begin, end = self._shard.begin, self._shard.end
        with self._place.fs.open_input_file(self._place.path) as source:
            lines = scan_lines(source, max(0, begin - 1))
            if begin > 0:  # the line of the byte before belongs to the shard before
                _, _, self.begin = next(lines, (0, None, begin))
            for at, line, _ in lines:
                if at >= end:
                    self.end = at
                    return
                yield at, line
            self.end = self._input.size

    def _json_lines(self) -> Iterator[Block]:
        positions: list[int] = []
        values: list[dict[str, Any]] = []
        errors: list[str | None] = []
        for at, line in self._lines():
            if line is not None and not line.strip():
                continue
            value, error = _object_of(line)
            positions.append(at)
            values.append(value)
            errors.append(error)
            if len(positions) == BLOCK_ROWS:
                yield self._block(positions, values, errors)
                positions, values, errors = [], [], []
        if positions:
            yield self._block(positions, values, errors)

    def _block(self, positions: list[int], values: list[dict[str, Any]], errors: list[str | None]) -> Block:
        rows: list[Row] = []
        for i, value in enumerate(values):
            row, error = (None, errors[i]) if errors[i] else row_of(self._job.columns, value)
            rows.append(row)
            errors[i] = error
        arrays = []
        for field in self._job.keep_schema:
            column = []
            for i, value in enumerate(values):
                kept, error = _kept(value.get(field.name), field)
                column.append(kept)
                if error and not errors[i]:
                    rows[i], errors[i] = None, error
            arrays.append(pa.array(column, field.type))
        return Block(positions, rows, errors, pa.RecordBatch.from_arrays(arrays, schema=self._job.keep_schema))


def scan_lines(source: Any, at: int) -> Iterator[tuple[int, bytes | None, int]]:
    """(begin, bytes without the end, offset after the end) of each line from offset `at`. The bytes of a line of more than
    64 MiB are None."""
    held, held_at, line_at, is_too_long = b"", at, at, False
    source.seek(at)
    while chunk := bytes(source.read(_CHUNK_BYTES)):
        held += chunk
        start = 0
        while (found := held.find(b"\n", start)) >= 0:
            after = held_at + found + 1
            yield line_at, None if is_too_long or found - start > MAX_LINE_BYTES else held[start:found], after
            start, line_at, is_too_long = found + 1, after, False
        held, held_at = held[start:], held_at + start
        if len(held) > MAX_LINE_BYTES:
            held, held_at, is_too_long = b"", held_at + len(held), True
    if held or is_too_long:
        yield line_at, None if is_too_long else held, held_at + len(held)


def _object_of(line: bytes | None) -> tuple[dict[str, Any], str | None]:
    if line is None:
        return {}, "it is longer than 64 MiB"
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        value = None
    return (value, None) if isinstance(value, dict) else ({}, "it is not a JSON object")


def _kept(value: Any, field: pa.Field) -> tuple[Any, str | None]:
    """A copied value as the type of its column, or an error."""
    if value is None:
        return None, None
    if pa.types.is_string(field.type):
        return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)), None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if pa.types.is_int64(field.type):
        good = isinstance(value, int) and is_number and -(1 << 63) <= value < 1 << 63
    elif pa.types.is_float64(field.type):
        good = is_number
    else:
        good = isinstance(value, bool)
    if good and pa.types.is_float64(field.type):
        try:
            return float(value), None
        except OverflowError:
            good = False
    return (value, None) if good else (None, f"its '{field.name}' is not {field.type}")
