"""Tests Codex: it asks the server, runs the command that a scripted model calls, and prints the model's final answer.

Codex uses the server as a provider of its settings, and as Ollama with --oss.
"""

import json

import pytest
from coding_agent import ANSWER, COMMAND, TASK, add_coder, run_agent, written
from node_program import program_of


@pytest.fixture(scope="module")
def coder(server, tmp_path_factory):
    return add_coder(server, tmp_path_factory.mktemp("coder"), "exec_command", cmd=COMMAND)


@pytest.mark.parametrize("way", ["provider", "oss"])
def test_agent_runs_a_command_and_answers(server, coder, tmp_path, way):
    provider = f'{{name = "billow", base_url = "{server.url}/v1", wire_api = "responses", request_max_retries = 0, stream_max_retries = 0}}'
    # Codex pulls a model whose exact name is not in the list of models.
    model = coder + ":latest" if way == "oss" else coder
    choice = ["--oss", "--local-provider", "ollama"] if way == "oss" else [
        "-c", 'model_provider = "billow"', "-c", "model_providers.billow = " + provider]
    printed = run_agent(tmp_path, [program_of("@openai/codex-linux-*/vendor/*/bin/codex"), "exec", "--json", "--skip-git-repo-check",
                                   "--sandbox", "danger-full-access", "-c", "analytics.enabled = false",
                                   "-c", "check_for_update_on_startup = false", "--model", model, *choice, TASK],
                        CODEX_OSS_BASE_URL=server.url + "/v1")
    events = [json.loads(line) for line in printed.splitlines()]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    assert [item["type"] for item in items if item["type"] != "error"] == ["command_execution", "agent_message"], printed
    assert items[-2]["exit_code"] == 0 and items[-2]["aggregated_output"] == "sunny\n"
    assert items[-1]["text"] == ANSWER
    assert events[-1]["type"] == "turn.completed" and events[-1]["usage"]["output_tokens"] > 2
    assert written(tmp_path) == "sunny\n"
