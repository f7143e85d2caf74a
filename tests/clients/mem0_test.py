"""Tests mem0 with the APIs of Ollama and OpenAI: a scripted model names the facts to remember, and a real encoder finds them."""

import json
import os
import tempfile

HOME = tempfile.TemporaryDirectory()
os.environ |= {"MEM0_DIR": HOME.name, "MEM0_TELEMETRY": "False"}  # mem0 reads these at import

import pytest  # noqa: E402
from mem0 import Memory  # noqa: E402
from scripted_model import write_scripted_model  # noqa: E402

FACTS = ["User lives in Rome", "User has a cat named Miro"]
TALK = [{"role": "user", "content": "I live in Rome, with my cat Miro."}, {"role": "assistant", "content": "That sounds nice."}]


@pytest.fixture(scope="module")
def listener(server, tmp_path_factory):
    path = tmp_path_factory.mktemp("listener") / "listener.gguf"
    facts = [{"id": str(i), "text": fact, "attributed_to": "user"} for i, fact in enumerate(FACTS)]
    write_scripted_model(path, [("'my cat Miro' in last", json.dumps({"memory": facts})), ("true", json.dumps({"memory": []}))])
    server.add_model("listener", path)
    return "listener"


@pytest.fixture(params=["ollama", "openai"])
def memory(request, minilm, listener, tmp_path):
    common = {"ollama_base_url": minilm.url} if request.param == "ollama" else {"openai_base_url": minilm.url + "/v1", "api_key": "none"}
    memory = Memory.from_config({
        "llm": {"provider": request.param, "config": {**common, "model": listener, "temperature": 0, "max_tokens": 500}},
        "embedder": {"provider": request.param, "config": {**common, "model": "minilm", "embedding_dims": 384}},
        "vector_store": {"provider": "qdrant", "config": {"path": str(tmp_path / "store"), "embedding_model_dims": 384}},
        "history_db_path": str(tmp_path / "history.db"),
    })
    yield memory
    memory.close()


def test_facts_are_remembered(memory):
    added = memory.add(TALK, user_id="ada")["results"]
    assert [(result["event"], result["memory"]) for result in added] == [("ADD", fact) for fact in FACTS]
    found = memory.search("What pet does the user have?", filters={"user_id": "ada"})["results"]
    assert found[0]["memory"] == FACTS[1] and len(found) == 2
    assert memory.search("What pet does the user have?", filters={"user_id": "bob"})["results"] == []
    assert memory.add("Good morning!", user_id="ada")["results"] == []
    assert sorted(result["memory"] for result in memory.get_all(filters={"user_id": "ada"})["results"]) == sorted(FACTS)
