"""The AI SDK of Vercel with its providers for OpenAI's APIs, for Anthropic's and for Ollama's, in a Node program of ours."""

import pytest
from node_program import need, run_node


@pytest.fixture(scope="module")
def found(server, agent):
    need("ai", "@ai-sdk/anthropic", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "ollama-ai-provider-v2")
    return run_node("vercel_ai.mjs", server.url, agent)


@pytest.fixture(params=["responses", "chat", "compatible", "anthropic", "ollama"])
def seen(request, found):
    return found[request.param]


def test_a_stream_says_the_same(seen):
    assert "Paris" in seen["text"] and "".join(seen["pieces"]) == seen["text"]
    assert len(seen["pieces"]) > 1 and seen["tokens"] > 3


def test_an_answer_is_what_its_schema_says(seen):
    assert sorted(seen["object"]) == sorted(seen["last"]) == ["country", "name"]
    assert seen["parts"] > 1


@pytest.mark.parametrize("how", ["whole", "stream"])
def test_a_tool_is_called_and_its_result_is_read(seen, how):
    assert seen[how] == {"text": "The sun shines in Rome.", "steps": 2, "asked": ["Rome"]}
