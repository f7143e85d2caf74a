"""The models and the table of cases. To add a case, add a row to CASES."""

import dataclasses
import fnmatch

from comparison import synthetic

# About twenty tokens for any vocabulary.
FIRST_TOKEN_PROMPT = "The committee met on Tuesday to discuss the budget for the coming year, and agreed that the"


@dataclasses.dataclass(frozen=True)
class Model:
    file: str
    base: str = ""  # derived models: the source model, and the format for llama-quantize
    quantize_to: str = ""
    synthetic: bool = False  # random weights in the shape of a real model (synthetic.py)


MODELS = {
    "smollm2-q4_1": Model("smollm2-135m-q4_1.gguf"),
    "smollm2-q4_0": Model("smollm2-135m-q4_0.gguf", "smollm2-q4_1", "Q4_0"),
    "smollm2-q8_0": Model("smollm2-135m-q8_0.gguf", "smollm2-q4_1", "Q8_0"),
    "smollm2-f16": Model("smollm2-135m-f16.gguf", "smollm2-q4_1", "F16"),
    "qwen-q4_k_m": Model("qwen2.5-coder-0.5b-q4_k_m.gguf"),
    "qwen-q4_0": Model("qwen2.5-coder-0.5b-q4_0.gguf", "qwen-q4_k_m", "Q4_0"),
    "qwen-q8_0": Model("qwen2.5-coder-0.5b-q8_0.gguf", "qwen-q4_k_m", "Q8_0"),
    "qwen-f16": Model("qwen2.5-coder-0.5b-f16.gguf", "qwen-q4_k_m", "F16"),
    "gemma3-q4_k_m": Model("gemma3-270m-q4_k_m.gguf"),
} | {name: Model(f"{name}.gguf", synthetic=True) for name in synthetic.SHAPES}


@dataclasses.dataclass(frozen=True)
class Case:
    model: str
    kind: str  # prefill, decode, parallel, first-token
    n_prompt: int = 0
    n_generate: int = 0
    depth: int = 0
    kv: str = ""  # f16, q8_0, q4_0; empty: the default of each program
    n_parallel: int = 1
    scaling: bool = False  # only Billow, with all threads and with one thread
    quick: bool = False  # part of --quick

    @property
    def name(self):
        what = {
            "prefill": f"prefill-{self.n_prompt}",
            "decode": f"decode-{self.n_generate}",
            "parallel": f"parallel-{self.n_parallel}x{self.n_prompt}+{self.n_generate}",
            "first-token": "first-token",
        }[self.kind]
        at = f"@{self.depth}" if self.depth else ""
        return f"{self.model}/{'scaling-' * self.scaling}{what}{at}{'-kv-' + self.kv if self.kv else ''}"

    @property
    def unit(self):
        return "ms" if self.kind == "first-token" else "tokens/s"


def _cases():
    for model in ("smollm2-q4_1", "qwen-q4_k_m", "gemma3-q4_k_m"):
        small = model == "smollm2-q4_1"
        yield Case(model, "prefill", n_prompt=512, quick=True)
        yield Case(model, "prefill", n_prompt=512, depth=4096)
        yield Case(model, "decode", n_generate=64, depth=128, quick=True)
        yield Case(model, "decode", n_generate=32, depth=4096, kv="f16", quick=small)
        yield Case(model, "decode", n_generate=32, depth=4096, kv="q8_0")
        yield Case(model, "decode", n_generate=32, depth=4096, kv="q4_0")
        n_prompt, n_generate = (128, 32) if model == "qwen-q4_k_m" else (256, 64)
        yield Case(model, "parallel", n_prompt=n_prompt, n_generate=n_generate, n_parallel=8, quick=small)
        if small:
            yield Case(model, "parallel", n_prompt=64, n_generate=32, n_parallel=32)
        yield Case(model, "first-token", quick=small)
    for model, row in MODELS.items():
        if row.base:
            yield Case(model, "prefill", n_prompt=512)
            yield Case(model, "decode", n_generate=64, depth=128)
        if row.synthetic:
            yield Case(model, "prefill", n_prompt=512)
            yield Case(model, "decode", n_generate=32, depth=128)
    for model in ("smollm2-q4_1", "qwen-q4_k_m"):
        yield Case(model, "prefill", n_prompt=512, scaling=True)
        yield Case(model, "decode", n_generate=64, depth=128, scaling=True)


CASES = tuple(_cases())


def select(patterns, quick=False):
    """Returns the cases whose names match one of the patterns. Patterns may contain * and ?; a part of a name also matches.
    Without patterns, returns all cases, or the quick ones. Raises ValueError for a pattern without a match."""
    if not patterns:
        return [case for case in CASES if case.quick or not quick]
    for pattern in patterns:
        if not any(_matches(case, pattern) for case in CASES):
            raise ValueError(f"no case matches {pattern!r}; --list shows them")
    return [case for case in CASES if any(_matches(case, pattern) for pattern in patterns)]


def _matches(case, pattern):
    if any(pattern == one.name for one in CASES):
        return pattern == case.name
    return fnmatch.fnmatchcase(case.name, pattern if any(c in pattern for c in "*?[") else f"*{pattern}*")
