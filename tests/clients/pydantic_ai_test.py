"""Tests agents of pydantic-ai with each supported API: OpenAI's two, its Ollama provider, and Anthropic's."""

import pydantic
import pytest
from anthropic import AsyncAnthropic
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider

QUESTION = "Describe Paris as JSON: its name and its country."


class City(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    country: str = pydantic.Field(max_length=20)


@pytest.fixture(params=["chat", "responses", "ollama", "anthropic"])
def model(request, server):
    openai = OpenAIProvider(base_url=server.url + "/v1", api_key="none")
    make = {"chat": lambda name: OpenAIChatModel(name, provider=openai),
            "responses": lambda name: OpenAIResponsesModel(name, provider=openai),
            "ollama": lambda name: OllamaModel(name, provider=OllamaProvider(base_url=server.url + "/v1", api_key="none")),
            "anthropic": lambda name: AnthropicModel(name, provider=AnthropicProvider(
                anthropic_client=AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0)),
                profile={"supports_json_schema_output": True})}
    return make[request.param]


def settings(**more):
    return {"temperature": 0, "max_tokens": 200, **more}


@pytest.mark.parametrize("form", [NativeOutput, ToolOutput, PromptedOutput])
def test_answer_follows_a_type(model, form):
    agent = Agent(model("qwen"), output_type=form(City), model_settings=settings(), retries=2)
    assert isinstance(agent.run_sync(QUESTION).output, City)


def test_tool_call_and_result(model, agent):
    asked = []
    helper = Agent(model(agent), model_settings=settings())

    @helper.tool_plain(strict=False)
    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return f"It is sunny in {city}."

    result = helper.run_sync("What is the weather like in Rome?")
    assert asked == ["Rome"] and result.output == "The sun shines in Rome."
    assert result.usage.requests == 2 and result.usage.tool_calls == 1 and result.usage.output_tokens > 2
    asked.clear()
    streamed = helper.run_stream_sync("What is the weather like in Rome?")
    assert streamed.get_output() == "The sun shines in Rome." and asked == ["Rome"]
