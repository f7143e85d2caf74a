"""Tests the official Python client of Anthropic with /v1/messages."""

import json

import anthropic
import pytest

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
WEATHER = {"name": "weather", "description": "The weather of a city.", "strict": True,
           "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}
ASK = [{"role": "user", "content": "What is the weather like in Rome? Use the tool."}]


@pytest.fixture(scope="module")
def client(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)


# The client has no fields for sampling, but the API has.
GREEDY = {"temperature": 0}


def ask(client, **fields):
    return client.messages.create(**{"model": "smollm2", "messages": QUESTION, "max_tokens": 24, "extra_body": GREEDY, **fields})


def test_message(client):
    message = ask(client)
    assert message.type == "message" and message.role == "assistant" and message.id.startswith("msg_")
    assert "Paris" in message.content[0].text
    assert message.stop_reason in ("end_turn", "max_tokens") and message.stop_sequence is None
    assert message.usage.input_tokens + message.usage.cache_read_input_tokens > 0 and message.usage.output_tokens > 0


def test_stream_equals_the_whole_answer(client):
    with client.messages.stream(model="smollm2", messages=QUESTION, max_tokens=24, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    whole = ask(client)
    assert text == message.content[0].text == whole.content[0].text
    assert message.stop_reason == whole.stop_reason
    assert message.usage.output_tokens == whole.usage.output_tokens


def test_events_are_in_order(client):
    types = [event.type for event in ask(client, stream=True)]
    assert types[:2] == ["message_start", "content_block_start"]
    assert types[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(types[2:-3]) == {"content_block_delta"}


def test_system_texts_and_turns(client):
    message = ask(client, system=[{"type": "text", "text": "Answer in one word.", "cache_control": {"type": "ephemeral"}}],
                  messages=[*QUESTION, {"role": "assistant", "content": [{"type": "text", "text": "Paris."}]},
                            {"role": "user", "content": [{"type": "text", "text": "And of Italy?"}]}])
    assert message.content[0].text


def test_usage_reports_cached_tokens(client):
    long = [{"role": "user", "content": "The sea is blue. " * 60}]
    ask(client, messages=long)
    usage = ask(client, messages=long).usage
    assert usage.cache_read_input_tokens > usage.input_tokens >= 1


def test_stop_sequences(client):
    message = ask(client, stop_sequences=["Paris"])
    assert "Paris" not in "".join(block.text for block in message.content)
    assert message.stop_reason == "stop_sequence" and message.stop_sequence == "Paris"


def test_count_tokens(client):
    counted = client.messages.count_tokens(model="smollm2", messages=QUESTION).input_tokens
    usage = ask(client).usage
    assert counted == usage.input_tokens + usage.cache_read_input_tokens


def test_answer_follows_a_schema(client):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "country": {"type": "string", "maxLength": 20}},
              "required": ["name", "country"], "additionalProperties": False}
    message = ask(client, max_tokens=100, messages=[{"role": "user", "content": "Describe Paris as JSON: its name and its country."}],
                  output_config={"format": {"type": "json_schema", "schema": schema}})
    assert sorted(json.loads(message.content[0].text)) == ["country", "name"]


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}])
def test_tool_call_and_result(client, choice):
    message = ask(client, model="qwen", messages=ASK, tools=[WEATHER], tool_choice=choice, max_tokens=100)
    assert message.stop_reason == "tool_use"
    call = message.content[-1]
    assert call.type == "tool_use" and call.name == "weather" and sorted(call.input) == ["city"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "Sunny, 23 degrees."}]}
    answer = ask(client, model="qwen", tools=[WEATHER], max_tokens=60, messages=[
        *ASK, {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]},
        {"role": "user", "content": [result]}])
    assert answer.content


def test_streamed_call(client):
    with client.messages.stream(model="qwen", messages=ASK, tools=[WEATHER], tool_choice={"type": "any"}, max_tokens=100, extra_body=GREEDY) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        call = stream.get_final_message().content[-1]
    assert json.loads("".join(pieces)) == call.input and call.name == "weather"


def test_models(client):
    models = client.models.list(limit=1)
    assert models.data[0].type == "model"
    assert {"smollm2:latest", "qwen:latest"} <= {model.id for model in client.models.list()}
    assert client.models.retrieve("smollm2").id == "smollm2"


def test_errors(client):
    with pytest.raises(anthropic.NotFoundError) as error:
        ask(client, model="nope")
    assert error.value.body["error"]["type"] == "not_found_error"
    assert error.value.body["request_id"] == error.value.response.headers["request-id"]
    with pytest.raises(anthropic.BadRequestError) as error:
        ask(client, tools=[{"type": "web_search_20250305", "name": "web_search"}])
    assert "web_search_20250305" in error.value.body["error"]["message"]
    with pytest.raises(anthropic.BadRequestError):
        ask(client, max_tokens=0)
