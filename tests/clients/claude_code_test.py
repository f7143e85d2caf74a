"""Tests Claude Code: it asks the server, runs the tool that a scripted model calls, and prints the model's final answer."""

import json

import pytest
from coding_agent import ANSWER, COMMAND, TASK, add_coder, run_agent, written
from node_program import program_of


@pytest.fixture(scope="module")
def coder(server, tmp_path_factory):
    return add_coder(server, tmp_path_factory.mktemp("coder"), "Bash", command=COMMAND, description="Write the weather down")


@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_agent_runs_a_tool_and_answers(server, coder, tmp_path, form):
    program = program_of("@anthropic-ai/claude-code-linux-*/claude")
    printed = run_agent(tmp_path, [program, "--print", TASK, "--allowedTools", "Bash", "--output-format", form, "--verbose"],
                        ANTHROPIC_BASE_URL=server.url, ANTHROPIC_AUTH_TOKEN="none", ANTHROPIC_MODEL=coder, ANTHROPIC_SMALL_FAST_MODEL=coder,
                        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", CLAUDE_CODE_MAX_OUTPUT_TOKENS="1000", DISABLE_AUTOUPDATER="1")
    messages = json.loads(printed) if form == "json" else [json.loads(line) for line in printed.splitlines()]
    end = messages[-1]
    assert end["result"] == ANSWER and not end["is_error"] and end["num_turns"] == 2
    assert written(tmp_path) == "sunny\n"
