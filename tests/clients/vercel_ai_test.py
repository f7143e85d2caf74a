"""Tests the AI SDK of Vercel with its providers for OpenAI, Anthropic and Ollama, with a small Node program."""

import pytest
from node_program import need, run_node


@pytest.fixture(scope="module")
def found(server, agent):
    need("ai", "@ai-sdk/anthropic", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "ollama-ai-provider-v2")
    return run_node("vercel_ai.mjs", server.url, agent)


@pytest.fixture(params=["responses", "chat", "compatible", "anthropic", "ollama"])
def seen(request, found):
    return found[request.param]


def test_stream_equals_the_whole_answer(seen):
    assert "Paris" in seen["text"] and "".join(seen["pieces"]) == seen["text"]
    assert seen["story"] > 1 and seen["tokens"] > 3


def test_answer_follows_a_schema(seen):
    assert sorted(seen["object"]) == ["country", "name"]
    assert len(seen["last"]) == 16 and seen["parts"] > 1


@pytest.mark.parametrize("how", ["whole", "stream"])
def test_tool_call_and_result(seen, how):
    assert seen[how] == {"text": "The sun shines in Rome.", "steps": 2, "asked": ["Rome"]}
