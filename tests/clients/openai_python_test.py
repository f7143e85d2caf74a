"""Tests the official Python client of OpenAI with /v1."""

import base64
import struct

import openai
import pytest

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def ask(client, **fields):
    return client.chat.completions.create(model="smollm2", messages=QUESTION, temperature=0, max_tokens=24, **fields)


def test_chat(client):
    answer = ask(client)
    assert answer.object == "chat.completion" and "Paris" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stream_equals_the_whole_answer_and_has_usage(client):
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == ask(client).choices[0].message.content
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    assert chunks[-2].choices[0].finish_reason in ("stop", "length")


def test_usage_reports_cached_tokens(client):
    ask(client)
    usage = ask(client).usage
    assert 0 <= usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens


def test_seed_stop_and_penalties(client):
    fields = {"temperature": 1.0, "seed": 7, "max_tokens": 16, "messages": QUESTION, "model": "smollm2",
              "frequency_penalty": 0.5, "presence_penalty": 0.5}
    first = client.chat.completions.create(**fields)
    assert first.choices[0].message.content == client.chat.completions.create(**fields).choices[0].message.content
    stopped = ask(client, stop=["Paris"])
    assert "Paris" not in stopped.choices[0].message.content and stopped.choices[0].finish_reason == "stop"


def test_logprobs(client):
    answer = ask(client, logprobs=True, top_logprobs=2)
    entries = answer.choices[0].logprobs.content
    assert answer.choices[0].finish_reason == "stop"
    assert len(entries) == answer.usage.completion_tokens - 1  # usage includes the end token, which has no text
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in entries)


def test_completions(client):
    answer = client.completions.create(model="smollm2", prompt="Say hello.", max_tokens=8, temperature=0)
    assert answer.object == "text_completion" and answer.choices[0].text
    chunks = list(client.completions.create(model="smollm2", prompt="Say hello.", max_tokens=8, temperature=0,
                                            stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == answer.choices[0].text


def test_embeddings_as_floats_and_as_base64(client):
    floats = client.embeddings.create(model="smollm2", input=["a", "b"], encoding_format="float")
    assert [entry.index for entry in floats.data] == [0, 1]
    coded = client.embeddings.create(model="smollm2", input=["a", "b"], encoding_format="base64")
    vector = coded.data[1].embedding
    if isinstance(vector, str):
        bytes_ = base64.b64decode(vector)
        vector = list(struct.unpack(f"<{len(bytes_) // 4}f", bytes_))
    assert vector == pytest.approx(floats.data[1].embedding, abs=1e-7)
    assert floats.usage.prompt_tokens == floats.usage.total_tokens > 0


def test_models(client):
    assert "smollm2:latest" in [model.id for model in client.models.list()]
    assert client.models.retrieve("smollm2").owned_by == "library"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nope")


def test_errors(client):
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="nope", messages=QUESTION)
    assert error.value.body["type"] == "not_found_error"
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="smollm2", messages=[])
    assert "[] is too short" in error.value.body["message"]
