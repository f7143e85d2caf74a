"""From input files to shards. The plan of the same files is always the same.

The functions that cut files are pure. plan_shards reads the footers of Parquet files, and the beginning of a file of
JSON lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .errors import InputFault, JobError
from .job import Input, Shard
from .storage import FileFact, Place, fact_of, list_files, place_of

_KINDS = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_SAMPLE_BYTES = 1 << 20
_READERS = 16

Cut = tuple[int, int, int, int, int]  # begin, end, skip, first, rows


def cut_groups(group_rows: Sequence[int], target: int) -> Iterator[Cut]:
    """Joins small row groups, and cuts groups of more than 1.5 times the target into even pieces."""
    first, begin, taken = 0, 0, 0
    for group, n in enumerate(group_rows):
        if taken and taken + n > target:
            yield begin, group, 0, first - taken, taken
            taken = 0
        if not taken:
            begin = group
        if n > target + target // 2:
            pieces = -(-n // target)
            edges = [n * piece // pieces for piece in range(pieces + 1)]
            for low, high in zip(edges, edges[1:]):
                yield group, group + 1, low, first + low, high - low
        else:
            taken += n
        first += n
    if taken:
        yield begin, len(group_rows), 0, first - taken, taken


def cut_bytes(size: int, target: int, row_bytes: float) -> Iterator[Cut]:
    """Even ranges of about `target` bytes. `row_bytes` is the mean size of a line, for the estimate of rows."""
    if size == 0:
        return
    pieces = max(1, round(size / target))
    edges = [size * piece // pieces for piece in range(pieces + 1)]
    for begin, end in zip(edges, edges[1:]):
        yield begin, end, 0, begin, max(1, round((end - begin) / row_bytes))


def kind_of(path: str) -> str | None:
    lower = (path.partition("?")[0] if "://" in path else path).lower()
    return next((kind for ending, kind in _KINDS.items() if lower.endswith(ending)), None)


def find_inputs(uris: Sequence[str]) -> list[tuple[Place, FileFact]]:
    """The files that are named, and the Parquet and JSON lines files of folders that are named, in order of names."""
    found: list[tuple[Place, FileFact]] = []
    for uri in uris:
        place = place_of(uri)
        fact = fact_of(place)
        if fact is not None:
            if kind_of(uri) is None:
                raise InputFault(f"{uri}: the name must end in .parquet, .jsonl or .ndjson")
            found.append((place, fact))
            continue
        base = place.path.rstrip("/") + "/"
        inside = [fact for fact in list_files(place, recursive=True) if kind_of(fact.name)
                  and not any(part[0] in "._" for part in fact.path.removeprefix(base).split("/") if part)]
        if not inside:
            raise InputFault(f"{uri}: no such file, and no folder with files that end in .parquet, .jsonl or .ndjson")
        found += [(place.child(fact.path.removeprefix(base)), fact) for fact in inside]
    paths = [place.uri for place, _ in found]
    if len(set(paths)) != len(paths):
        raise JobError("a file is named twice: " + next(path for path in paths if paths.count(path) > 1))
    return found


class Columns:
    """Which columns a job reads: of roles ("text": "body"), and columns to copy. Collects the schema of the latter."""

    def __init__(self, roles: dict[str, str], keep: Sequence[str]) -> None:
        self.roles = roles
        self.keep = list(keep)
        self._schema: pa.Schema | None = None
        self._from = ""

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([*self.roles.values(), *self.keep]))

    @property
    def schema(self) -> pa.Schema:
        return self._schema if self._schema is not None else pa.schema([])

    def add(self, schema: pa.Schema, path: str) -> None:
        kept = pa.schema([schema.field(name).remove_metadata() for name in self.keep])
        if self._schema is None:
            self._schema, self._from = kept, path
        elif not kept.equals(self._schema):
            name = next(a.name for a, b in zip(kept, self._schema) if not a.equals(b))
            raise InputFault(f"{path}: column '{name}' is {kept.field(name).type}, but {self._schema.field(name).type} in {self._from}")


def check_type(role: str, kind: pa.DataType, where: str) -> None:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    is_text = is_text or pa.types.is_null(kind)  # a column without any value
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not (is_text or (is_list and role in ("documents", "messages"))):
        raise InputFault(f"{where} is {kind}, not text" + (" or a list" if role in ("documents", "messages") else ""))


def _parquet_footer(place: Place) -> Any:
    try:
        with place.fs.open_input_file(place.path) as file:
            return pq.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        raise InputFault(f"{place.uri}: {error}") from None


def _json_sample(place: Place, fact: FileFact) -> tuple[float, list[dict[str, Any]]]:
    """The mean size of a line, and the objects of the first lines."""
    with place.fs.open_input_stream(place.path) as stream:
        text = bytes(stream.read(_SAMPLE_BYTES))
    if text[:2] == b"\x1f\x8b" or text[:4] == b"\x28\xb5\x2f\xfd":
        raise InputFault(f"{place.uri}: a compressed file cannot be cut; decompress it first")
    lines = text.splitlines()
    if len(text) < fact.size and len(lines) > 1:
        lines.pop()  # it may be cut
    full = [line for line in lines if line.strip()]
    objects = []
    for line in full[:1000]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            objects.append(value)
    return max(2.0, len(text) / max(1, len(full))), objects


def _json_type(values: list[Any]) -> pa.DataType:
    """The type of a copied field: that of its first values if it is the same in all, otherwise text."""
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, bool) for value in present):
        return pa.bool_()
    if present and all(isinstance(value, int) and not isinstance(value, bool) for value in present):
        return pa.int64()
    if present and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in present):
        return pa.float64()
    return pa.string()


def plan_shards(uris: Sequence[str], columns: Columns, shard_rows: int) -> tuple[list[Input], list[Shard]]:
    """Reads what it must of the inputs. Raises InputFault for a file or column that cannot be used."""
    found = find_inputs(uris)
    inputs: list[Input] = []
    shards: list[Shard] = []
    with ThreadPoolExecutor(_READERS) as pool:
        footers = {place.uri: pool.submit(_parquet_footer, place) for place, _ in found if kind_of(place.uri) == "parquet"}
        for place, fact in found:
            kind = kind_of(place.uri) or ""
            if kind == "parquet":
                footer = footers[place.uri].result()
                schema = footer.schema.to_arrow_schema()
                for name in columns.names:
                    if name not in schema.names:
                        raise InputFault(f"{place.uri}: there is no column '{name}'; it has {', '.join(schema.names)}")
                for role, name in columns.roles.items():
                    check_type(role, schema.field(name).type, f"{place.uri}: column '{name}'")
                groups = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
                cuts = list(cut_groups(groups, shard_rows))
                rows = footer.num_rows
            else:
                row_bytes, objects = _json_sample(place, fact)
                schema = pa.schema([pa.field(name, _json_type([value.get(name) for value in objects])) for name in columns.keep])
                cuts = list(cut_bytes(fact.size, round(shard_rows * row_bytes), row_bytes))
                rows = 0
            columns.add(schema, place.uri)
            shards += [Shard(len(shards) + i, len(inputs), *cut) for i, cut in enumerate(cuts)]
            inputs.append(Input(place.uri, kind, fact.size, fact.modified_ns, rows))
    return inputs, shards
