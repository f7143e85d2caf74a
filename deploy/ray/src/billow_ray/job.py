"""A job and its shards, as stored in `_job.json` in the output folder. Only read_job and write_job access files.

A shard is a part of one input file: row groups of a Parquet file, or a range of bytes of a file of JSON lines. Its part has
a name that follows from the shard and the fingerprint. So two attempts at a shard write the same name.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from .errors import JobError
from .recipe import Recipe, canonical, recipe_from_json
from .storage import Place, create_bytes, make_folder, read_bytes

JOB_FILE = "_job.json"
SUMMARY_FILE = "_summary.json"
ERRORS_FOLDER = "_errors"
FORMAT = 1


@dataclass(frozen=True)
class Input:
    """`rows` is exact for Parquet, and 0 for JSON lines, whose rows are not counted in advance."""

    path: str
    kind: str  # "parquet" or "jsonl"
    size: int
    modified_ns: int
    rows: int = 0


@dataclass(frozen=True)
class Shard:
    """Parquet: row groups from `begin` to before `end`; `skip` rows of the first group are left out, and `rows` are taken.
    JSON lines: the lines whose first byte is from `begin` to before `end`; `rows` is an estimate.
    `first` is the number of the first row in the file (Parquet), or `begin`."""

    number: int
    input: int
    begin: int
    end: int
    skip: int
    first: int
    rows: int


@dataclass(frozen=True)
class Job:
    op: str
    model: str
    recipe: Recipe
    columns: dict[str, str]  # role ("text", "query", "documents", "prompt", "messages") to column
    keep: list[str]  # columns that are copied
    keep_schema: pa.Schema
    dtype: str
    dimensions: int
    batch_rows: int
    jobs: int
    max_errors: int  # -1: no limit
    inputs: list[Input] = field(default_factory=list)
    shards: list[Shard] = field(default_factory=list)

    def head(self, number: int) -> Job:
        """Returns the job with only one shard and its input: all that a worker needs, in a few hundred bytes."""
        shard = self.shards[number]
        return replace(self, inputs=[self.inputs[shard.input]], shards=[shard])

    @property
    def rows(self) -> int:
        """The number of rows of all inputs: exact for Parquet, an estimate for JSON lines."""
        return sum(shard.rows for shard in self.shards)


def shard_id(job: Job, shard: Shard, source: Input) -> str:
    text = canonical([source.path, source.size, shard.begin, shard.end, shard.skip, shard.first, job.recipe.fingerprint])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def part_name(job: Job, shard: Shard, source: Input) -> str:
    return f"part-{shard.number:06}-{shard_id(job, shard, source)}.parquet"


def part_names(job: Job) -> list[str]:
    """Returns the names of all parts, in the order of shard numbers."""
    return [part_name(job, shard, job.inputs[shard.input]) for shard in job.shards]


def to_json(job: Job) -> str:
    """Returns JSON with one line for each shard and input, so that people can read it."""
    head = {"format": FORMAT, "op": job.op, "model": job.model, "fingerprint": job.recipe.fingerprint,
            "recipe": job.recipe.as_json(), "columns": job.columns, "keep": job.keep,
            "keep_schema": base64.b64encode(job.keep_schema.serialize().to_pybytes()).decode(), "dtype": job.dtype,
            "dimensions": job.dimensions, "batch_rows": job.batch_rows, "jobs": job.jobs, "max_errors": job.max_errors,
            "shard_fields": ["input", "begin", "end", "skip", "first", "rows"]}
    inputs = ",\n".join("  " + json.dumps(asdict(source)) for source in job.inputs)
    shards = ",\n".join(f"  [{s.input},{s.begin},{s.end},{s.skip},{s.first},{s.rows}]" for s in job.shards)
    return json.dumps(head, indent=1)[:-2] + f',\n "inputs": [\n{inputs}\n ],\n "shards": [\n{shards}\n ]\n}}\n'


def from_json(text: bytes, where: str) -> Job:
    try:
        value = json.loads(text)
        if value["format"] != FORMAT:
            raise JobError(f"{where}: format {value['format']} is not {FORMAT}; use the version of billow-ray that wrote the file")
        recipe = recipe_from_json(value["recipe"])
        if recipe.fingerprint != value["fingerprint"]:
            raise JobError(f"{where}: the fingerprint does not match the recipe; the file was changed")
        return Job(op=value["op"], model=value["model"], recipe=recipe, columns=value["columns"], keep=value["keep"],
                   keep_schema=pa.ipc.read_schema(pa.BufferReader(base64.b64decode(value["keep_schema"]))),
                   dtype=value["dtype"], dimensions=value["dimensions"], batch_rows=value["batch_rows"], jobs=value["jobs"],
                   max_errors=value["max_errors"], inputs=[Input(**source) for source in value["inputs"]],
                   shards=[Shard(number, *fields) for number, fields in enumerate(value["shards"])])
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise JobError(f"{where}: not a job of billow-ray: {error}") from None


def read_job(out: Place) -> Job | None:
    """Returns the job of the folder, or None if the folder has no job."""
    place = out.child(JOB_FILE)
    text = read_bytes(place)
    return None if text is None else from_json(text, place.uri)


def write_job(out: Place, job: Job) -> Job:
    """Writes the job unless the folder has one. Returns the folder's job."""
    make_folder(out)
    place = out.child(JOB_FILE)
    return from_json(create_bytes(place, to_json(job).encode()), place.uri)


def _differences(stored: Job, wanted: Job) -> list[str]:
    out = []
    if stored.recipe.fingerprint != wanted.recipe.fingerprint:
        old, new = stored.recipe.as_json(), wanted.recipe.as_json()
        names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        detail = ", ".join(f"{name} {old.get(name)!r} is not {new.get(name)!r}" for name in names)
        out.append(f"fingerprint {stored.recipe.fingerprint} is not {wanted.recipe.fingerprint} ({detail})")
    for name in ("columns", "keep", "dtype", "dimensions"):
        old, new = getattr(stored, name), getattr(wanted, name)
        if old != new:
            out.append(f"{name} {old!r} is not {new!r}")
    return out


def check_same(stored: Job, wanted: Job, where: str) -> None:
    """Raises JobError if `wanted`, which has the current inputs, would give other results than `stored`."""
    wrong = _differences(stored, wanted)
    if [source.path for source in stored.inputs] != [source.path for source in wanted.inputs]:
        wrong.append(f"its {len(stored.inputs)} inputs are not the {len(wanted.inputs)} inputs of this command")
    else:
        for old, now in zip(stored.inputs, wanted.inputs):
            if (old.size, old.modified_ns) != (now.size, now.modified_ns):
                wrong.append(f"{old.path} has changed: from {old.size} bytes, modified at {old.modified_ns} ns, to {now.size} bytes, {now.modified_ns} ns")
                break
    if wrong:
        raise JobError(f"{where} has another job: {'; '.join(wrong)}. Use another folder, or remove this one")
