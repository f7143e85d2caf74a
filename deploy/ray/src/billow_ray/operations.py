"""The three operations: what a row is, the request for some rows, and the columns of their results.

A row is a text (embed), a `Pair` (rerank), or a prompt or list of messages (generate). An `Outcome` has its result or
the reason why there is none.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy
import pyarrow as pa

from .client import Answer
from .errors import JobError
from .recipe import Recipe


@dataclass(frozen=True)
class Pair:
    """A query, and the documents to score against it."""

    query: str
    documents: list[str]


Row = Any  # str, Pair or list[dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """`error` is None if `value` is the result. `is_of_host`: the host failed, not the row."""

    value: Any = None
    error: str | None = None
    is_of_host: bool = False


class BadAnswer(Exception):
    """An answer with status 200 that is not what Billow sends."""


class Operation(Protocol):
    batch_rows: int  # rows of a request
    default_jobs: int  # requests in flight
    default_shard_rows: int
    canary: Row  # a row that any working host can do

    def path(self, rows: Sequence[Row]) -> str: ...
    def body(self, rows: Sequence[Row]) -> dict[str, Any]: ...
    def read(self, answer: Answer, rows: Sequence[Row]) -> list[Outcome]: ...
    def columns(self, outcomes: Sequence[Outcome]) -> dict[str, pa.Array]: ...


def size_of(row: Row) -> int:
    """About the bytes of a row in a request."""
    if isinstance(row, str):
        return len(row)
    if isinstance(row, Pair):
        return len(row.query) + sum(map(len, row.documents))
    return len(str(row))


class Embed:
    batch_rows = 128
    default_jobs = 4
    default_shard_rows = 50_000
    canary = "billow"

    def __init__(self, model: str, recipe: Recipe, dimensions: int, dtype: str) -> None:
        """`dimensions` is the length of the vectors; 0 until it is known."""
        fields = recipe.fields
        self._fixed: dict[str, Any] = {"model": model, "encoding_format": "base64", "partial": True}
        if fields["dimensions"]:
            self._fixed["dimensions"] = fields["dimensions"]
        if not fields["normalize"]:
            self._fixed["normalize"] = False
        if fields["pooling"]:
            self._fixed["pooling"] = fields["pooling"]
        if fields["truncate"] == "none":
            self._fixed["truncate"] = False
        elif fields["truncate"] == "left":
            self._fixed["truncation_direction"] = "left"
        self._prefix: str = fields["prefix"]
        self._dimensions = dimensions
        self._type = pa.float16() if dtype == "float16" else pa.float32()

    def path(self, rows: Sequence[Row]) -> str:
        return "/v1/embeddings"

    def body(self, rows: Sequence[Row]) -> dict[str, Any]:
        return {**self._fixed, "input": [self._prefix + row for row in rows]}

    def read(self, answer: Answer, rows: Sequence[Row]) -> list[Outcome]:
        document = answer.json()
        data = document.get("data") if isinstance(document, dict) else None
        if not isinstance(data, list) or len(data) != len(rows):
            raise BadAnswer("the answer has no vector for each text")
        return [self._outcome(entry) for entry in data]

    def _outcome(self, entry: Any) -> Outcome:
        if isinstance(entry, dict) and "error" in entry:
            status = entry.get("status")
            return Outcome(error=str(entry["error"]), is_of_host=isinstance(status, int) and status >= 500)
        coded = entry.get("embedding") if isinstance(entry, dict) else None
        try:
            raw = base64.b64decode(coded, validate=True) if isinstance(coded, str) else b""
        except binascii.Error:
            raw = b""
        n_bytes = 4 * self._dimensions
        if not raw or len(raw) % 4 or (n_bytes and len(raw) != n_bytes):
            raise BadAnswer(f"a vector has {len(raw)} bytes, expected {n_bytes or 'a multiple of 4'}")
        return Outcome(value=raw)

    def columns(self, outcomes: Sequence[Outcome]) -> dict[str, pa.Array]:
        zero = bytes(4 * self._dimensions)
        raw = b"".join(outcome.value if outcome.error is None else zero for outcome in outcomes)
        values = numpy.frombuffer(raw, "<f4")
        if self._type == pa.float16():
            values = values.astype("<f2")
        missing = numpy.array([outcome.error is not None for outcome in outcomes])
        array = pa.FixedSizeListArray.from_arrays(pa.array(values, self._type), self._dimensions,
                                                  mask=pa.array(missing) if missing.any() else None)
        return {"embedding": array}


class Rerank:
    batch_rows = 1
    default_jobs = 4
    default_shard_rows = 5_000
    canary = Pair("a", ["a"])

    def __init__(self, model: str, recipe: Recipe) -> None:
        self._fixed = {"model": model, "raw_scores": recipe.fields["raw_scores"], "partial": True}

    def path(self, rows: Sequence[Row]) -> str:
        return "/v1/rerank"

    def body(self, rows: Sequence[Row]) -> dict[str, Any]:
        return {**self._fixed, "query": rows[0].query, "documents": rows[0].documents}

    def read(self, answer: Answer, rows: Sequence[Row]) -> list[Outcome]:
        document = answer.json()
        results = document.get("results") if isinstance(document, dict) else None
        n = len(rows[0].documents)
        if not isinstance(results, list) or len(results) != n:
            raise BadAnswer("the answer has no score for each document")
        scores: list[float | None] = [None] * n
        seen: set[int] = set()
        error, is_of_host = None, False
        for entry in results:
            at = entry.get("index") if isinstance(entry, dict) else None
            if not isinstance(at, int) or not 0 <= at < n or at in seen:
                raise BadAnswer("the answer names a document that does not exist, or one twice")
            seen.add(at)
            if "error" in entry:
                error = error or f"document {at}: {entry['error']}"
                is_of_host = is_of_host or int(entry.get("status", 400)) >= 500
            elif isinstance(entry.get("relevance_score"), (int, float)):
                scores[at] = float(entry["relevance_score"])
            else:
                raise BadAnswer("a document has neither a score nor an error")
        return [Outcome(value=scores, error=error, is_of_host=is_of_host)]

    def columns(self, outcomes: Sequence[Outcome]) -> dict[str, pa.Array]:
        return {"scores": pa.array([outcome.value for outcome in outcomes], pa.list_(pa.float32()))}


class Generate:
    batch_rows = 1
    default_jobs = 8
    default_shard_rows = 1_000
    canary = "a"

    def __init__(self, model: str, recipe: Recipe) -> None:
        fields = recipe.fields
        self._fixed: dict[str, Any] = {"model": model, "stream": False}
        if fields["options"]:
            self._fixed["options"] = fields["options"]
        if fields["format"] is not None:
            self._fixed["format"] = fields["format"]
        self._system: str = fields["system"]

    def path(self, rows: Sequence[Row]) -> str:
        return "/api/generate" if isinstance(rows[0], str) else "/api/chat"

    def body(self, rows: Sequence[Row]) -> dict[str, Any]:
        if isinstance(rows[0], str):
            body = {**self._fixed, "prompt": rows[0]}
            return {**body, "system": self._system} if self._system else body
        first = [{"role": "system", "content": self._system}] if self._system else []
        return {**self._fixed, "messages": first + rows[0]}

    def read(self, answer: Answer, rows: Sequence[Row]) -> list[Outcome]:
        document = answer.json()
        if not isinstance(document, dict) or document.get("done") is not True:
            raise BadAnswer("the answer does not end")
        if isinstance(rows[0], str):
            text = document.get("response")
        else:
            message = document.get("message")
            text = message.get("content") if isinstance(message, dict) else None
        if not isinstance(text, str):
            raise BadAnswer("the answer has no text")
        if document.get("done_reason") == "load":  # the server only loads the model
            return [Outcome(error="the prompt is empty" if isinstance(rows[0], str) else "there are no messages")]
        return [Outcome(value={"response": text, "finish_reason": document.get("done_reason"),
                               "prompt_tokens": document.get("prompt_eval_count"),
                               "output_tokens": document.get("eval_count")})]

    def columns(self, outcomes: Sequence[Outcome]) -> dict[str, pa.Array]:
        types = {"response": pa.string(), "finish_reason": pa.string(), "prompt_tokens": pa.int32(), "output_tokens": pa.int32()}
        values = [outcome.value or {} for outcome in outcomes]
        return {name: pa.array([value.get(name) for value in values], kind) for name, kind in types.items()}


def operation_of(model: str, recipe: Recipe, dimensions: int = 0, dtype: str = "float32") -> Operation:
    if recipe.op == "embed":
        return Embed(model, recipe, dimensions, dtype)
    if recipe.op == "rerank":
        return Rerank(model, recipe)
    if recipe.op == "generate":
        return Generate(model, recipe)
    raise JobError(f"the operation must be embed, rerank or generate, not '{recipe.op}'")
