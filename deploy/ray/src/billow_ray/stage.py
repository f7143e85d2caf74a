"""A stage for pipelines of Ray Data: ds.map_batches(BillowEmbed("all-minilm"), batch_size=1024).

It needs no actor: the model is in the Billow of the host on which a task runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from .asking import Asker, ask_in_order
from .client import DEFAULT_PATIENCE_S, Billow
from .operations import Embed
from .recipe import embed_recipe


@dataclass(frozen=True)
class BillowEmbed:
    """Adds a column of vectors, and a column `error`, which is None for rows with a vector.

    A row without a vector has NaN in place of each value. Pass an instance to map_batches, not the class: then stateless tasks
    run it. `host` is HOST:PORT; by default BILLOW_HOST, then 127.0.0.1:11434, on the host of the task. Raises
    BillowUnavailable if this host's Billow does not answer for `patience_s`, and JobError if it cannot embed.
    """

    model: str
    column: str = "text"
    output: str = "embedding"
    dimensions: int = 0
    normalize: bool = True
    pooling: str = ""
    prefix: str = ""
    truncate: str = "right"
    batch_size: int = Embed.batch_rows  # texts of a request
    concurrency: int = Embed.default_jobs  # requests in flight
    host: str | None = None
    patience_s: float = DEFAULT_PATIENCE_S

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        with Billow(self.host, self.patience_s) as billow:
            return self._with_vectors(billow, batch)

    def _with_vectors(self, billow: Billow, batch: dict[str, Any]) -> dict[str, Any]:
        recipe = embed_recipe("", dimensions=self.dimensions, normalize=self.normalize, pooling=self.pooling, prefix=self.prefix,
                              truncate=self.truncate)
        asker = Asker(billow, Embed(self.model, recipe, 0, "float32"))
        n_values = len(asker.check().value) // 4
        texts = list(batch[self.column])
        vectors = numpy.full((len(texts), n_values), numpy.nan, numpy.float32)
        errors = numpy.full(len(texts), None, object)
        good = [i for i, text in enumerate(texts) if isinstance(text, str)]
        errors[[i for i, text in enumerate(texts) if not isinstance(text, str)]] = f"it has no text '{self.column}'"
        answered = ask_in_order(asker, (texts[i] for i in good), self.batch_size, self.concurrency)
        outcomes = (outcome for group in answered for outcome in group)
        for i, outcome in zip(good, outcomes):
            if outcome.error is None:
                vectors[i] = numpy.frombuffer(outcome.value, "<f4")
            else:
                errors[i] = outcome.error
        return {**batch, self.output: vectors, "error": errors}
