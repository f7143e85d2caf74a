"""Tests all functions of the official Python client of Ollama."""

import asyncio
import hashlib

import ollama
import pytest

from server import WEIGHTS

GREEDY = {"temperature": 0, "num_predict": 24, "seed": 1}
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def client(server):
    return ollama.Client(host=server.url)


def test_generate_equals_its_stream(client):
    whole = client.generate(model="smollm2", prompt="What is the capital of France?", options=GREEDY)
    assert "Paris" in whole.response
    assert whole.done and whole.done_reason in ("stop", "length")
    assert whole.prompt_eval_count > 0 and whole.eval_count > 0
    assert whole.total_duration >= whole.eval_duration > 0 and whole.load_duration > 0
    assert whole.context
    parts = list(client.generate(model="smollm2", prompt="What is the capital of France?", options=GREEDY, stream=True))
    assert "".join(part.response for part in parts) == whole.response
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].context == whole.context


def test_context_continues_an_earlier_answer(client):
    first = client.generate(model="smollm2", prompt="My name is Ada.", options=GREEDY)
    second = client.generate(model="smollm2", prompt="What is my name?", context=first.context, options=GREEDY)
    # What a small model remembers differs between processors. What it reads does not.
    assert second.context[: len(first.context)] == first.context
    assert second.prompt_eval_count > len(first.context)


def test_chat_equals_its_stream(client):
    whole = client.chat(model="smollm2", messages=QUESTION, options=GREEDY)
    assert whole.message.role == "assistant" and "Paris" in whole.message.content
    parts = list(client.chat(model="smollm2", messages=QUESTION, options=GREEDY, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content
    assert parts[-1].done_reason == whole.done_reason


def test_async_client(server):
    async def ask():
        client = ollama.AsyncClient(host=server.url)
        answers = await asyncio.gather(
            *(client.chat(model="smollm2", messages=QUESTION, options=GREEDY) for _ in range(4)))
        text = ""
        async for part in await client.generate(model="smollm2", prompt="Hi", options=GREEDY, stream=True):
            text += part.response
        listed = await client.list()
        shown = await client.show("smollm2")
        vectors = await client.embed(model="smollm2", input=["a", "b"])
        return answers, text, listed, shown, vectors

    answers, text, listed, shown, vectors = asyncio.run(ask())
    assert len({answer.message.content for answer in answers}) == 1
    assert text and listed.models and shown.modelinfo and len(vectors.embeddings) == 2


def test_embeddings_are_normalized_and_similar_for_similar_texts(client):
    cat, kitten, tax = client.embed(
        model="smollm2", input=["The cat sleeps.", "A kitten is sleeping.", "Quarterly tax returns are due."]).embeddings

    def product(a, b):
        return sum(x * y for x, y in zip(a, b))

    assert abs(product(cat, cat) - 1) < 1e-5
    assert product(cat, kitten) > product(cat, tax)
    cut = client.embed(model="smollm2", input="The cat sleeps.", dimensions=64).embeddings[0]
    assert len(cut) == 64 and abs(product(cut, cut) - 1) < 1e-5
    assert len(client.embeddings(model="smollm2", prompt="The cat sleeps.").embedding) == len(cat)
    assert client.embed(model="smollm2", input=[]).embeddings == []


def test_list_show_and_ps(client):
    client.generate(model="smollm2")
    listed = client.list().models
    model = next(model for model in listed if model.model == "smollm2:latest")
    assert model.size > WEIGHTS.stat().st_size and model.details.family == "llama"
    assert model.details.quantization_level == "Q4_1"
    shown = client.show("smollm2")
    assert shown.details.parameter_size == "134.52M"
    assert "completion" in shown.capabilities
    assert shown.modelinfo["llama.context_length"] == 8192
    running = client.ps().models
    assert [model.name for model in running] == ["smollm2:latest"]
    assert running[0].size > 0 and running[0].expires_at is not None and running[0].size_vram == 0


def test_create_copy_delete(client):
    made = client.create(model="pirate", from_="smollm2", system="You are a pirate.", parameters={"temperature": 0},
                         stream=False)
    assert made.status == "success"
    statuses = [part.status for part in client.create(model="pirate2", from_="pirate", license="MIT", stream=True)]
    assert statuses[-1] == "success" and "writing manifest" in statuses
    assert "SYSTEM You are a pirate." in client.show("pirate2").modelfile
    assert client.copy("pirate", "admiral").status == "success"
    for name in ("pirate", "pirate2", "admiral"):
        assert client.delete(name).status == "success"
    with pytest.raises(ollama.ResponseError) as error:
        client.delete("pirate")
    assert error.value.status_code == 404 and "not found" in error.value.error


def test_blobs(client, tmp_path):
    path = tmp_path / "blob"
    path.write_bytes(b"some bytes")
    assert client.create_blob(path) == "sha256:" + hashlib.sha256(b"some bytes").hexdigest()


def test_errors(client):
    for ask in (lambda: client.generate(model="nope", prompt="x"),
                lambda: client.chat(model="nope", messages=QUESTION),
                lambda: client.show("nope"),
                lambda: list(client.chat(model="nope", messages=QUESTION, stream=True))):
        with pytest.raises(ollama.ResponseError) as error:
            ask()
        assert error.value.status_code == 404 and "not found" in error.value.error
    with pytest.raises(ollama.ResponseError) as error:
        client.chat(model="smollm2", messages=QUESTION, think=True)
    assert error.value.status_code == 400 and '"smollm2" does not support thinking' == error.value.error
    with pytest.raises(ollama.ResponseError) as error:
        client.chat(model="smollm2", messages=QUESTION,
                    tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])
    assert error.value.status_code == 400 and "does not support tools" in error.value.error


def test_logprobs(client):
    answer = client.generate(model="smollm2", prompt="Hi", logprobs=True, top_logprobs=3,
                             options={"num_predict": 10, "temperature": 0})
    assert len(answer.logprobs) == 10
    for entry in answer.logprobs:
        assert entry.logprob <= 0 and len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].logprob >= entry.top_logprobs[1].logprob


def test_load_and_unload(client, server):
    assert client.generate(model="smollm2").done_reason == "load"
    assert client.chat(model="smollm2", messages=[]).message.content == ""
    assert client.generate(model="smollm2", keep_alive=0).done_reason == "unload"
