"""Tests Outlines, which constrains answers to a type through the APIs of vLLM, OpenAI and Ollama."""

import json
import re
from typing import Literal

import ollama
import openai
import outlines
import pydantic
import pytest
from outlines.types import CFG, Regex

QUESTION = "Describe Paris as JSON: its name and its country."


class City(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    country: str = pydantic.Field(max_length=20)


# An answer of this type is long: the pieces of a short one may arrive together.
Cities = pydantic.create_model("Cities", **{f"city{i}": (str, pydantic.Field(max_length=20)) for i in range(16)})


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def test_openai(client):
    found = outlines.from_openai(client, "qwen")(QUESTION, City, temperature=0, max_tokens=200)
    assert City.model_validate_json(found)


def test_ollama(server):
    found = outlines.from_ollama(ollama.Client(host=server.url), "qwen")(QUESTION, City, options={"temperature": 0, "num_predict": 200})
    assert City.model_validate_json(found)


@pytest.fixture
def vllm(client):
    return outlines.from_vllm(client, "qwen")


def test_vllm_with_a_type(vllm):
    assert City.model_validate_json(vllm(QUESTION, City, temperature=0, max_tokens=200))


def test_vllm_with_a_choice(vllm):
    assert vllm("Is the sea wet?", Literal["perhaps", "certainly"], temperature=0, max_tokens=20) in ("perhaps", "certainly")


def test_vllm_with_a_regular_expression(vllm):
    assert re.fullmatch(r"[0-9]{3}-[a-z]{2}", vllm("Make up a code.", Regex(r"[0-9]{3}-[a-z]{2}"), temperature=0, max_tokens=20))


def test_vllm_with_a_grammar(vllm):
    grammar = 'start: "the " animal " sleeps"\nanimal: "cat" | "dog"\n'
    assert vllm("Who sleeps?", CFG(grammar), temperature=0, max_tokens=20) in ("the cat sleeps", "the dog sleeps")


def test_vllm_streams(vllm):
    pieces = list(vllm.stream("Name sixteen cities as JSON.", Cities, temperature=0, max_tokens=1000))
    assert len(pieces) > 1 and len(json.loads("".join(pieces))) == 16
