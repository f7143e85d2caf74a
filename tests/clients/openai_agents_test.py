"""Tests openai-agents, which use the Responses API by default, and Chat Completions on request."""

import asyncio

import openai
import pydantic
import pytest
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from agents.models.openai_provider import OpenAIProvider

ASK = "What is the weather like in Rome?"
SETTINGS = ModelSettings(temperature=0, max_tokens=200)

set_tracing_disabled(True)


class City(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    country: str = pydantic.Field(max_length=20)


@pytest.fixture(params=["default", "chat"])
def model(request, server):
    client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)

    def make(name):
        if request.param == "chat":
            return OpenAIChatCompletionsModel(name, client)
        found = OpenAIProvider(openai_client=client).get_model(name)
        assert isinstance(found, OpenAIResponsesModel)
        return found
    return make


def test_answer_follows_a_type(model):
    helper = Agent("helper", model=model("qwen"), output_type=City, model_settings=SETTINGS)
    assert isinstance(Runner.run_sync(helper, "Describe Paris as JSON: its name and its country.").final_output, City)


@pytest.fixture
def weather():
    asked = []

    @function_tool(strict_mode=False)
    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return f"It is sunny in {city}."
    weather.asked = asked
    return weather


def test_tool_call_and_result(model, agent, weather):
    result = Runner.run_sync(Agent("helper", instructions="Be brief.", model=model(agent), tools=[weather], model_settings=SETTINGS), ASK)
    assert weather.asked == ["Rome"] and result.final_output == "The sun shines in Rome."
    assert [item.type for item in result.new_items] == ["tool_call_item", "tool_call_output_item", "message_output_item"]
    assert result.context_wrapper.usage.requests == 2 and result.context_wrapper.usage.input_tokens > 0


def test_streamed_steps(model, agent, weather):
    async def run():
        result = Runner.run_streamed(Agent("helper", model=model(agent), tools=[weather], model_settings=SETTINGS), ASK)
        events = [event async for event in result.stream_events()]
        return result.final_output, [event.data.delta for event in events
                                     if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"]

    answer, deltas = asyncio.run(run())
    assert answer == "".join(deltas) == "The sun shines in Rome." and weather.asked == ["Rome"]


def test_real_model_calls_a_strict_tool(model):
    asked = []

    @function_tool
    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return "It is sunny."

    helper = Agent("helper", model=model("qwen"), tools=[weather], tool_use_behavior="stop_on_first_tool",
                   model_settings=ModelSettings(temperature=0, max_tokens=200, tool_choice="required"))
    assert Runner.run_sync(helper, ASK).final_output == "It is sunny." and len(asked) == 1
