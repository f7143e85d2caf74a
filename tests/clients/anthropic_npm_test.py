"""Tests the official npm client of Anthropic with a small Node program."""

from node_program import need, run_node


def test_npm_client(server, agent):
    need("@anthropic-ai/sdk")
    found = run_node("anthropic_npm.mjs", server.url, agent)
    assert "Paris" in found["text"] and found["stop"] in ("end_turn", "max_tokens")
    assert found["stream"] == found["final"] == found["text"]
    assert found["counted"] == found["used"] > 5
    assert {"smollm2:latest", "agent:latest"} <= set(found["models"])
    assert found["called"] == ["tool_use", "weather", {"city": "Rome"}] and found["input"] == {"city": "Rome"}
    assert found["answer"] == "The sun shines in Rome."
    assert found["error"] == [True, 404, "not_found_error"]
