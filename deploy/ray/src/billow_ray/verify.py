"""Checks a job's parts against its plan, from names and footers; with `deep`, also the rows of each part."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

from .job import Job, part_names
from .storage import Place, list_files

_READERS = 16
_MAX_WRONG = 20  # lines of a report


@dataclass
class Report:
    """`wrong` is empty if every row of the inputs has exactly one row in the parts."""

    shards: int = 0
    present: int = 0
    rows: int = 0
    errors: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)  # "VERSION ISA" to parts
    nodes: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Part:
    number: int
    footer: dict[str, str]
    rows: int
    wrong: str = ""


def _read(out: Place, name: str, number: int, deep: bool) -> _Part:
    place = out.child(name)
    try:
        with place.fs.open_input_file(place.path) as source:
            file = pq.ParquetFile(source)
            raw = file.metadata.metadata or {}
            footer = {key.decode()[7:]: value.decode() for key, value in raw.items() if key.startswith(b"billow.")}
            wrong = _wrong_rows(file, footer) if deep else ""
            return _Part(number, footer, file.metadata.num_rows, wrong)
    except (OSError, pa.ArrowException) as error:
        return _Part(number, {}, 0, f"cannot be read: {error}")


def _wrong_rows(file: Any, footer: dict[str, str]) -> str:
    table = file.read(columns=["row", "error"])
    rows = table.column("row").to_numpy()
    if len(rows) > 1 and not (numpy.diff(rows) > 0).all():
        return "its rows do not ascend: one is there twice"
    n_errors = len(table) - table.column("error").null_count
    return "" if str(n_errors) == footer.get("errors") else f"{n_errors} rows have errors, but the footer has {footer.get('errors')}"


def _check(job: Job, part: _Part) -> Iterator[str]:
    shard = job.shards[part.number]
    source = job.inputs[shard.input]
    if part.wrong:
        yield part.wrong
        return
    if part.footer.get("fingerprint") != job.recipe.fingerprint:
        yield f"its fingerprint {part.footer.get('fingerprint')} is not {job.recipe.fingerprint}"
    if part.footer.get("shard") != str(shard.number):
        yield f"it is of shard {part.footer.get('shard')}"
    if part.footer.get("rows") != str(part.rows):
        yield f"it has {part.rows} rows, but its footer has {part.footer.get('rows')}"
    if source.kind == "parquet" and part.rows != shard.rows:
        yield f"it has {part.rows} rows of {shard.rows}"


def _gaps(job: Job, parts: dict[int, _Part]) -> Iterator[str]:
    """Where the lines of a part do not begin where those of the part before end."""
    for shard in job.shards:
        source, part = job.inputs[shard.input], parts.get(shard.number)
        if source.kind != "jsonl" or part is None or part.wrong:
            continue
        begin, end = part.footer.get("begin"), part.footer.get("end")
        before = parts.get(shard.number - 1)
        if shard.begin == 0:
            if begin != "0":
                yield f"shard {shard.number} begins at byte {begin} of {source.path}, not at 0"
        elif before is not None and not before.wrong and before.footer.get("end") != begin:
            yield f"shard {shard.number} begins at byte {begin} of {source.path}, but the one before ends at {before.footer.get('end')}"
        if shard.end == source.size and end != str(source.size):
            yield f"shard {shard.number} ends at byte {end} of {source.path}, which has {source.size}"


def verify(job: Job, out: Place, deep: bool = False) -> Report:
    report = Report(shards=len(job.shards))
    present = {fact.name for fact in list_files(out)}
    names = part_names(job)
    wrong: list[str] = []
    unknown = sorted(name for name in present - set(names) if name.startswith("part-"))
    wrong += [f"{name}: it is not a part of this job" for name in unknown]
    wrong += [f"shard {number}: {name} is missing" for number, name in enumerate(names) if name not in present]
    with ThreadPoolExecutor(_READERS) as pool:
        read = pool.map(lambda n: _read(out, names[n], n, deep), [n for n, name in enumerate(names) if name in present])
        parts = {part.number: part for part in read}
    for part in parts.values():
        wrong += [f"{names[part.number]}: {why}" for why in _check(job, part)]
        report.present += 1
        report.rows += part.rows
        report.errors += int(part.footer.get("errors", "0"))
        for name in ("requests", "busy", "lost", "shortened"):
            report.counts[name] = report.counts.get(name, 0) + int(part.footer.get(name, "0"))
        version = f"{part.footer.get('version', '?')} {part.footer.get('isa', '?')}"
        report.versions[version] = report.versions.get(version, 0) + 1
        node = part.footer.get("node", "?")
        report.nodes[node] = report.nodes.get(node, 0) + 1
    wrong += _gaps(job, parts)
    if len(wrong) > _MAX_WRONG:
        wrong = wrong[:_MAX_WRONG] + [f"and {len(wrong) - _MAX_WRONG} more"]
    report.wrong = wrong
    return report
