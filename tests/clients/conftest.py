"""A server of our own for these tests, with small real models in a store of its own."""

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))

from scripted_model import call_text, write_scripted_model  # noqa: E402
from server import MODELS, WEIGHTS, Server  # noqa: E402

# With BILLOW_ENGINE=llama and a llama-server these tests run on llama-server, by hand. What llama-server cannot do is refused there.
NOT_ON_LLAMA = {
    "test_async_client": "vectors of a model that writes",
    "test_embeddings_have_length_one_and_tell_texts_apart": "vectors of a model that writes",
    "test_embeddings_as_floats_and_as_base64": "vectors of a model that writes",
    "test_vectors_of_a_model_that_writes": "vectors of a model that writes",
    "test_expressions_of_vllm": "regular expressions",
    "test_vllm_by_a_choice": "regular expressions, which outlines makes of choices",
    "test_vllm_by_a_regular_expression": "regular expressions",
    "test_vllm_by_a_grammar": "grammars of Lark",
    "test_a_prompt_is_scored": "log probabilities of the prompt",
}


def pytest_collection_modifyitems(items):
    if os.environ.get("BILLOW_ENGINE") != "llama":
        return
    for item in items:
        if item.name in NOT_ON_LLAMA:
            item.add_marker(pytest.mark.skip(reason=f"llama-server has no {NOT_ON_LLAMA[item.name]}"))


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
    """The server, with an encoder of that name."""
    folder = MODELS / "all-minilm-l6-v2"
    if not folder.exists():
        pytest.skip(f"no model at {folder}")
    done = subprocess.run([server.program, "create", "minilm"], cwd=folder, env=server.environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return server


@pytest.fixture(scope="session")
def agent(server, tmp_path_factory):
    """The name of a scripted model that asks the tool `weather` for Rome and then says what the result was."""
    path = tmp_path_factory.mktemp("agent") / "agent.gguf"
    write_scripted_model(path, [
        ("messages[-1].role == 'tool' and 'sunny' in last", "The sun shines in Rome."),
        ("messages[-1].role == 'tool'", "Nobody knows how the weather is."),
        ("tools", call_text("weather", city="Rome")),
        ("true", "I would have to ask a tool."),
    ])
    server.add_model("agent", path)
    return "agent"
