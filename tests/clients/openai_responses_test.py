"""Tests the official Python client of OpenAI with /v1/responses."""

import json

import openai
import pydantic
import pytest

QUESTION = "What is the capital of France?"
WEATHER = {"type": "function", "name": "weather", "description": "The weather of a city.", "strict": True,
           "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}
ASK = [{"role": "user", "content": "What is the weather like in Rome? Use the tool."}]


class City(pydantic.BaseModel):
    name: str
    country: str


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def ask(client, **fields):
    return client.responses.create(**{"model": "smollm2", "input": QUESTION, "temperature": 0, "max_output_tokens": 24, **fields})


def test_response(client):
    response = ask(client)
    assert response.object == "response" and response.status in ("completed", "incomplete")
    assert "Paris" in response.output_text
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


def test_stream_equals_the_whole_answer(client):
    events = list(ask(client, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:4]] == ["response.created", "response.in_progress", "response.output_item.added",
                                                    "response.content_part.added"]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    whole = ask(client)
    assert events[-1].type in ("response.completed", "response.incomplete")
    assert text == events[-1].response.output_text == whole.output_text


def test_answer_at_its_limit_is_incomplete(client):
    response = ask(client, max_output_tokens=2, input="Tell me a long story.")
    assert response.status == "incomplete" and response.incomplete_details.reason == "max_output_tokens"


def test_conversation_continues_by_response_id(client):
    first = ask(client)
    second = ask(client, input="And of Italy?", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.usage.input_tokens > first.usage.input_tokens
    items = client.responses.input_items.list(second.id, order="asc").data
    assert [item.role for item in items] == ["user", "assistant", "user"]
    assert client.responses.retrieve(first.id).output_text == first.output_text
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError):
        ask(client, previous_response_id=first.id)


def test_instructions_and_items(client):
    response = ask(client, instructions="Answer in one word.", store=False, input=[
        {"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Paris."}]},
        {"role": "user", "content": "And of Italy?"}])
    assert response.output_text and response.instructions == "Answer in one word."
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


def test_answer_follows_a_type(client):
    response = client.responses.parse(model="smollm2", input="Describe Paris as JSON: its name and its country.", text_format=City,
                                      temperature=0, max_output_tokens=200)
    assert isinstance(response.output_parsed, City)


def test_tool_call_and_result(client):
    response = ask(client, model="qwen", input=ASK, tools=[WEATHER], tool_choice="required", max_output_tokens=100)
    call = response.output[-1]
    assert call.type == "function_call" and call.name == "weather" and sorted(json.loads(call.arguments)) == ["city"]
    answer = ask(client, model="qwen", tools=[WEATHER], previous_response_id=response.id, max_output_tokens=60, input=[
        {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny, 23 degrees."}])
    assert answer.output_text


def test_streamed_call(client):
    with client.responses.stream(model="qwen", input=ASK, tools=[WEATHER], tool_choice="required", temperature=0, max_output_tokens=100) as stream:
        pieces = [event.delta for event in stream if event.type == "response.function_call_arguments.delta"]
        call = stream.get_final_response().output[-1]
    assert "".join(pieces) == call.arguments and call.name == "weather"


def test_optional_tools_are_omitted(client):
    raw = client.responses.with_raw_response.create(model="smollm2", input=QUESTION, temperature=0, max_output_tokens=8,
                                                    tools=[{"type": "web_search"}])
    assert raw.headers["X-Billow-Tools-Left-Out"] == "web_search"
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, tools=[{"type": "file_search", "vector_store_ids": ["v"]}])
    assert "file_search" in error.value.body["message"]


def test_log_probabilities(client):
    response = ask(client, include=["message.output_text.logprobs"], top_logprobs=2)
    logprobs = response.output[0].content[0].logprobs
    assert logprobs and all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in logprobs)


def test_count_tokens(client):
    counted = client.responses.input_tokens.count(model="smollm2", input=QUESTION).input_tokens
    assert counted == ask(client).usage.input_tokens


def test_errors(client):
    with pytest.raises(openai.NotFoundError):
        ask(client, model="nope")
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, background=True)
    assert "background" in error.value.body["message"]
