"""A server of our own for these tests, with small real models in a store of its own."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))

from server import MODELS, WEIGHTS, Server  # noqa: E402


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    if not WEIGHTS.exists():
        pytest.skip(f"no model at {WEIGHTS}")
    server = Server(tmp_path_factory.mktemp("server"))
    server.add_model("smollm2")
    server.add_model("qwen", MODELS / "qwen2.5-coder-0.5b-q4_k_m.gguf")
    yield server
    assert server.stop() == 0, server.log.read_text()
