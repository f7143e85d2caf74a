"""Tests structured output, tools and agents of LangChain, with Ollama's API and both APIs of OpenAI."""

import json

import pydantic
import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI

QUESTION = "Describe Paris as JSON: its name and its country."
ASK = "What is the weather like in Rome?"


class City(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    country: str = pydantic.Field(max_length=20)


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"It is sunny in {city}."


@pytest.fixture(params=["ollama", "chat", "responses"])
def api(request):
    return request.param


@pytest.fixture
def model(api, server):
    def make(name, limit=200):
        if api == "ollama":
            return ChatOllama(model=name, base_url=server.url, temperature=0, num_predict=limit)
        return ChatOpenAI(model=name, base_url=server.url + "/v1", api_key="none", temperature=0, max_tokens=limit, max_retries=0,
                          use_responses_api=api == "responses")
    return make


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_answer_follows_a_type(model, api, method):
    if method == "function_calling" and api == "ollama":
        pytest.skip("Ollama's API has no tool_choice, and without it a small model need not call")
    found = model("qwen").with_structured_output(City, method=method, include_raw=True).invoke(QUESTION)
    if method == "json_mode":  # guarantees JSON, but no schema
        assert isinstance(json.loads(found["raw"].text), dict)
    else:
        assert isinstance(found["parsed"], City), found


def test_stream_equals_the_whole_answer(model):
    whole = model("qwen", 16).invoke("What is the capital of France?")
    chunks = list(model("qwen", 16).stream("What is the capital of France?"))
    assert "".join(chunk.text for chunk in chunks) == whole.text and "Paris" in whole.text
    assert len(chunks) > 1
    assert whole.usage_metadata["output_tokens"] > 3


def test_tool_call_and_result(model, agent):
    able = model(agent).bind_tools([weather])
    asked = able.invoke(ASK)
    [call] = asked.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Rome"}) and call["id"]
    messages = [HumanMessage(ASK), asked, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])]
    assert able.invoke(messages).text == "The sun shines in Rome."
    streamed = None
    for chunk in able.stream(ASK):
        streamed = chunk if streamed is None else streamed + chunk
    assert [(call["name"], call["args"]) for call in streamed.tool_calls] == [("weather", {"city": "Rome"})]


def test_agent_answers(model, agent):
    messages = create_agent(model(agent), [weather]).invoke({"messages": [HumanMessage(ASK)]})["messages"]
    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert messages[-1].text == "The sun shines in Rome."
