"""Tests Instructor in its modes JSON, JSON schema and tools, with clients of OpenAI's API."""

import instructor
import openai
import pydantic
import pytest

MESSAGES = [{"role": "user", "content": "Describe Paris as JSON: its name and its country."}]


class City(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    country: str = pydantic.Field(max_length=20)


class Found(pydantic.BaseModel):
    cities: list[City] = pydantic.Field(min_length=1, max_length=2)


# An answer of this type is long: the pieces of a short one may arrive together.
Cities = pydantic.create_model("Cities", **{f"city{i}": (str, pydantic.Field(max_length=20)) for i in range(16)})


def client(server, mode):
    return instructor.from_openai(openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0), mode=mode)


def ask(client, **fields):
    return client.chat.completions.create(model="qwen", messages=MESSAGES, temperature=0, max_tokens=200, max_retries=0, **fields)


@pytest.mark.parametrize("mode", [instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON])
def test_answer_follows_a_type(server, mode):
    assert isinstance(ask(client(server, mode), response_model=City), City)


@pytest.mark.parametrize("mode", [instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS])
def test_nested_types(server, mode):
    assert 1 <= len(ask(client(server, mode), response_model=Found).cities) <= 2


@pytest.mark.parametrize("mode", [instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS])
def test_streamed_partial_answers(server, mode):
    parts = list(client(server, mode).chat.completions.create_partial(
        model="qwen", messages=[{"role": "user", "content": "Name sixteen cities as JSON."}], temperature=0, max_tokens=1000, max_retries=0,
        response_model=Cities))
    assert len(parts) > 1 and None not in parts[-1].model_dump().values()


def test_provider_by_name(server):
    asks = instructor.from_provider("ollama/qwen", base_url=server.url + "/v1", mode=instructor.Mode.JSON_SCHEMA)
    found = asks.chat.completions.create(messages=MESSAGES, response_model=City, temperature=0, max_tokens=200, max_retries=0)
    assert isinstance(found, City)
