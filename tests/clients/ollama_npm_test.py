"""Tests the official npm client of Ollama with a small Node program."""

import os

from node_program import need, run_node


def test_npm_client(server, request):
    need("ollama")
    embedder = "smollm2"
    if os.environ.get("BILLOW_ENGINE") == "llama":  # on llama-server, text models have no vectors
        request.getfixturevalue("minilm")
        embedder = "minilm"
    found = run_node("ollama_npm.mjs", server.url, embedder)
    assert "Paris" in found["generate"]
    assert found["stream"] == found["chat"] and "Paris" in found["chat"]
    assert "smollm2:latest" in found["models"] and found["running"] == ["smollm2:latest"]
    assert found["vectors"] == 2 and found["family"] == "llama"
    assert found["created"] == "success" and found["deleted"] == "success"
    assert found["error"] == [404, "model 'nope' not found"]
    assert found["aborted"] == "AbortError"
