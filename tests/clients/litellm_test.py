"""Tests LiteLLM, which chooses the API by the prefix of a model's name: two routes of Ollama, two of OpenAI, and Anthropic's."""

import asyncio
import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # prevents network access

import litellm  # noqa: E402
import pydantic  # noqa: E402
import pytest  # noqa: E402

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ASK = [{"role": "user", "content": "What is the weather like in Rome?"}]
WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}}
PREFIXES = ["ollama_chat", "openai", "anthropic"]


class City(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    country: str = pydantic.Field(max_length=20)


def base(server, prefix):
    return server.url + ("/v1" if prefix == "openai" else "")


def ask(server, prefix, model, **fields):
    return litellm.completion(**{"model": f"{prefix}/{model}", "messages": QUESTION, "api_base": base(server, prefix), "api_key": "none",
                                 "temperature": 0, "max_tokens": 16, "num_retries": 0, **fields})


@pytest.mark.parametrize("prefix", ["ollama", *PREFIXES])
def test_answer_and_stream(server, prefix):
    whole = ask(server, prefix, "qwen")
    assert "Paris" in whole.choices[0].message.content
    assert whole.choices[0].finish_reason in ("length", "stop") and whole.usage.completion_tokens > 3
    chunks = [chunk.choices[0].delta.content or "" for chunk in ask(server, prefix, "qwen", stream=True)]
    assert len(chunks) > 1 and "".join(chunks) == whole.choices[0].message.content


@pytest.mark.parametrize("prefix", ["ollama", "ollama_chat", "openai"])
def test_answer_follows_a_type(server, prefix):
    found = ask(server, prefix, "qwen", messages=[{"role": "user", "content": "Describe Paris as JSON: its name and its country."}],
                response_format=City, max_tokens=200)
    assert City.model_validate_json(found.choices[0].message.content)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_tool_call_and_result(server, agent, prefix):
    message = ask(server, prefix, agent, messages=ASK, tools=[WEATHER], max_tokens=100).choices[0].message
    [call] = message.tool_calls
    assert call.function.name == "weather" and json.loads(call.function.arguments) == {"city": "Rome"}
    messages = [*ASK, message, {"role": "tool", "tool_call_id": call.id, "name": "weather", "content": "It is sunny in Rome."}]
    answer = ask(server, prefix, agent, messages=messages, tools=[WEATHER], max_tokens=100)
    assert answer.choices[0].message.content == "The sun shines in Rome."


@pytest.mark.parametrize("prefix", PREFIXES)
def test_streamed_call(server, agent, prefix):
    chunks = list(ask(server, prefix, agent, messages=ASK, tools=[WEATHER], max_tokens=100, stream=True))
    message = litellm.stream_chunk_builder(chunks, messages=ASK).choices[0].message
    [call] = message.tool_calls
    assert call.function.name == "weather" and json.loads(call.function.arguments) == {"city": "Rome"}


@pytest.mark.parametrize("stream", [False, True])
def test_responses(server, stream):
    answer = litellm.responses(model="openai/smollm2", input="What is the capital of France?", api_base=server.url + "/v1", api_key="none",
                               temperature=0, max_output_tokens=16, stream=stream)
    if stream:
        answer = list(answer)[-1].response
    assert "Paris" in answer.output[0].content[0].text


def test_messages_of_anthropic(server):
    found = asyncio.run(litellm.anthropic.messages.acreate(model="anthropic/smollm2", messages=QUESTION, max_tokens=16, api_base=server.url,
                                                           api_key="none", temperature=0))
    assert "Paris" in found["content"][0]["text"]


def test_vectors_of_a_text_model(server):
    for prefix in ("ollama", "openai"):
        found = litellm.embedding(f"{prefix}/smollm2", input=["a", "b"], api_base=base(server, prefix), api_key="none")
        assert len(found.data) == 2 and len(found.data[0]["embedding"]) == 576


@pytest.mark.parametrize("prefix", PREFIXES)
def test_missing_model(server, prefix):
    with pytest.raises((litellm.NotFoundError, litellm.APIConnectionError), match="not found"):
        ask(server, prefix, "nope")
