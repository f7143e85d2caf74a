"""Everything that the results of a job depend on, and its fingerprint. Pure.

Equal fingerprints mean equal results, except for rounding on different kinds of processors. The fingerprint of an
embedding job is that of `billow fingerprint`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .errors import JobError

OPERATIONS = ("embed", "rerank", "generate")


def canonical(value: Any) -> str:
    """Compact JSON with its names in alphabetical order."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def sha256(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Recipe:
    """The operation, and its fields as the fingerprint has them. `fields` has the digest of the weights as "weights"."""

    op: str
    fields: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"op": self.op, **self.fields}

    @cached_property
    def fingerprint(self) -> str:
        return sha256(canonical(self.as_json()))


def recipe_from_json(value: dict[str, Any]) -> Recipe:
    fields = dict(value)
    return Recipe(op=str(fields.pop("op")), fields=fields)


def embed_recipe(weights: str, *, dimensions: int = 0, normalize: bool = True, pooling: str = "", prefix: str = "",
                 truncate: str = "right") -> Recipe:
    """The names and defaults are those of `billow fingerprint`."""
    if truncate not in ("none", "left", "right"):
        raise JobError(f"--truncate must be none, left or right, not '{truncate}'")
    if dimensions < 0:
        raise JobError("--dimensions must not be negative")
    return Recipe("embed", {"dimensions": dimensions, "normalize": normalize, "pooling": pooling, "prefix": prefix,
                            "truncate": truncate, "weights": weights})


def rerank_recipe(weights: str, *, raw_scores: bool = False) -> Recipe:
    return Recipe("rerank", {"raw_scores": raw_scores, "weights": weights})


def generate_recipe(weights: str, model_text: str, *, system: str = "", format: Any = None,
                    options: dict[str, Any] | None = None) -> Recipe:
    """`model_text` is a digest of what the model adds to prompts, from Billow.digests()."""
    return Recipe("generate", {"format": format, "model_text": model_text, "options": options or {}, "system": system,
                               "weights": weights})
