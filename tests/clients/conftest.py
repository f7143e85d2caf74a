"""Starts a server for these tests, with small real models in its own store."""

import gc
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))

from scripted_model import call_text, write_scripted_model  # noqa: E402
from server import MODELS, WEIGHTS, Server  # noqa: E402

# Garbage is collected only between tests. Some clients do not close the response of a stream. If the collector closes it
# while httpcore holds the lock of its connection pool, httpcore waits for its own lock forever.
gc.disable()

# With BILLOW_ENGINE=llama and a llama-server, these tests run on llama-server, by hand. llama-server lacks these features.
NOT_ON_LLAMA = {
    "test_async_client": "vectors of a text model",
    "test_embeddings_are_normalized_and_similar_for_similar_texts": "vectors of a text model",
    "test_embeddings_as_floats_and_as_base64": "vectors of a text model",
    "test_vectors_of_a_text_model": "vectors of a text model",
    "test_regular_expressions_of_vllm": "regular expressions",
    "test_vllm_with_a_choice": "regular expressions, which outlines uses for choices",
    "test_vllm_with_a_regular_expression": "regular expressions",
    "test_vllm_with_a_grammar": "grammars of Lark",
    "test_prompt_logprobs": "log probabilities of the prompt",
}


def pytest_collection_modifyitems(items):
    if os.environ.get("BILLOW_ENGINE") != "llama":
        return
    for item in items:
        if item.name in NOT_ON_LLAMA:
            item.add_marker(pytest.mark.skip(reason=f"llama-server has no {NOT_ON_LLAMA[item.name]}"))


def pytest_sessionfinish(session):
    """Prints what was skipped and why, as tests/server/run_cases.py does. The status is 77 if there were only skipped tests."""
    stats = session.config.pluginmanager.get_plugin("terminalreporter").stats
    for report in stats.get("skipped", []):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        print(f"\nskipped: {report.nodeid.rpartition('::')[2]}: {reason}", end="")
    if stats.get("skipped") and not any(stats.get(kind) for kind in ("passed", "failed", "error", "xfailed", "xpassed")):
        session.exitstatus = 77


@pytest.fixture(autouse=True)
def collect_garbage():
    yield
    gc.collect()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    if not WEIGHTS.exists():
        pytest.skip(f"no model at {WEIGHTS}")
    server = Server(tmp_path_factory.mktemp("server"))
    server.add_model("smollm2")
    server.add_model("qwen", MODELS / "qwen2.5-coder-0.5b-q4_k_m.gguf")
    yield server
    assert server.stop() == 0, server.log.read_text()


@pytest.fixture(scope="session")
def minilm(server):
    """Returns the server with the encoder "minilm"."""
    folder = MODELS / "all-minilm-l6-v2"
    if not folder.exists():
        pytest.skip(f"no model at {folder}")
    done = subprocess.run([server.program, "create", "minilm"], cwd=folder, env=server.environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return server


@pytest.fixture(scope="session")
def agent(server, tmp_path_factory):
    """Adds a scripted model that calls the tool `weather` for Rome and then reports the result. Returns its name."""
    path = tmp_path_factory.mktemp("agent") / "agent.gguf"
    write_scripted_model(path, [
        ("messages[-1].role == 'tool' and 'sunny' in last", "The sun shines in Rome."),
        ("messages[-1].role == 'tool'", "Nobody knows how the weather is."),
        ("tools", call_text("weather", city="Rome")),
        ("true", "I would have to ask a tool."),
    ])
    server.add_model("agent", path)
    return "agent"
