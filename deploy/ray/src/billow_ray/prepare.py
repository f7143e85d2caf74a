"""From what a user asks for to a job: the recipe by this host's Billow, the plan of the files, and `_job.json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .asking import Asker
from .client import Billow
from .errors import JobError
from .job import Job, check_same, read_job, write_job
from .operations import Embed, operation_of
from .plan import Columns, plan_shards
from .recipe import Recipe, embed_recipe, generate_recipe, rerank_recipe
from .storage import Place

_RESULT_COLUMNS = {"embed": ("embedding",), "rerank": ("scores",),
                   "generate": ("response", "finish_reason", "prompt_tokens", "output_tokens")}


@dataclass
class Wish:
    """What a user asks for. `settings` are fields of the recipe; 0 means the default of the operation."""

    op: str
    model: str
    inputs: Sequence[str]
    columns: dict[str, str]
    keep: Sequence[str] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    shard_rows: int = 0
    batch_rows: int = 0
    jobs: int = 0
    max_errors: int = 1000


def recipe_for(billow: Billow, wish: Wish) -> Recipe:
    """The recipe, with the digest of the model as this host has it."""
    weights, text = billow.digests(wish.model)
    if wish.op == "embed":
        return embed_recipe(weights, **wish.settings)
    if wish.op == "rerank":
        return rerank_recipe(weights, **wish.settings)
    return generate_recipe(weights, text, **wish.settings)


def prepare(wish: Wish, out: Place, billow: Billow) -> Job:
    """The job of the output folder, which is made if the folder has none. Refuses a folder with another job."""
    recipe = recipe_for(billow, wish)
    operation = operation_of(wish.model, recipe)
    sizes = (wish.shard_rows, wish.batch_rows, wish.jobs)
    if min(sizes) < 0:
        raise JobError("--shard-rows, --batch and --jobs must be at least 1")
    taken = {"file", "row", "error", *_RESULT_COLUMNS[wish.op]} & set(wish.keep)
    if taken:
        raise JobError(f"--keep {sorted(taken)[0]}: a column of the results has this name")
    vector = Asker(billow, operation).check().value
    dimensions = len(vector) // 4 if isinstance(operation, Embed) else 0
    stored = read_job(out)
    columns = Columns(wish.columns, wish.keep)
    inputs, shards = plan_shards(wish.inputs, columns, wish.shard_rows or operation.default_shard_rows)
    wanted = Job(op=wish.op, model=wish.model, recipe=recipe, columns=wish.columns, keep=columns.keep, keep_schema=columns.schema,
                 dtype=wish.dtype, dimensions=dimensions, batch_rows=wish.batch_rows or operation.batch_rows,
                 jobs=wish.jobs or operation.default_jobs, max_errors=wish.max_errors, inputs=inputs, shards=shards)
    if stored is None:
        stored = write_job(out, wanted)
    check_same(stored, wanted, out.uri)
    if wish.shard_rows and stored.shards != wanted.shards:
        raise JobError(f"{out.uri} has another plan: {len(stored.shards)} shards are not {len(wanted.shards)}. "
                       "Leave --shard-rows out, or use another folder")
    # These do not change results, so each run may have its own.
    return replace(stored, max_errors=wanted.max_errors, batch_rows=wanted.batch_rows, jobs=wanted.jobs)
