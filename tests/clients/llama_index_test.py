"""Tests the language models and the embedders of LlamaIndex, with the APIs of Ollama and OpenAI."""

import asyncio

import pydantic
import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.ollama import OllamaEmbedding
from llama_index.embeddings.openai import OpenAIEmbedding
from llama_index.llms.ollama import Ollama
from llama_index.llms.openai_like import OpenAILike

ASK = "What is the weather like in Rome?"


class City(pydantic.BaseModel):
    """A city."""

    name: str = pydantic.Field(max_length=20)
    country: str = pydantic.Field(max_length=20)


@pytest.fixture(params=["ollama", "openai-like"])
def model(request, server):
    def make(name, limit=200):
        if request.param == "ollama":
            return Ollama(name, base_url=server.url, temperature=0, request_timeout=300, additional_kwargs={"num_predict": limit})
        return OpenAILike(name, api_base=server.url + "/v1", api_key="none", temperature=0, max_tokens=limit, max_retries=0,
                          context_window=8192, is_chat_model=True, is_function_calling_model=True, should_use_structured_outputs=True)
    return make


def test_answer_and_stream(model):
    messages = [ChatMessage(role="user", content="What is the capital of France?")]
    whole = model("qwen", 16).chat(messages).message.content
    deltas = [part.delta for part in model("qwen", 16).stream_chat(messages)]
    assert "Paris" in whole and "".join(deltas) == whole and len(deltas) > 1


def test_completion(model):
    assert model("smollm2", 16).complete("The capital of France is").text


def test_answer_follows_a_type(model):
    found = model("qwen").structured_predict(City, PromptTemplate("Describe {city} as JSON: its name and its country."), city="Paris")
    assert isinstance(found, City)


def weather(city: str) -> str:
    """The weather of a city."""
    return f"It is sunny in {city}."


def test_tool_call(model, agent):
    found = model(agent).predict_and_call([FunctionTool.from_defaults(weather)], ASK)
    assert [(source.tool_name, source.raw_input["kwargs"]) for source in found.sources] == [("weather", {"city": "Rome"})]
    assert found.response == "It is sunny in Rome."


def test_agent_answers(model, agent):
    async def run():
        return await FunctionAgent(tools=[FunctionTool.from_defaults(weather)], llm=model(agent)).run(ASK)

    found = asyncio.run(run())
    assert [call.tool_name for call in found.tool_calls] == ["weather"]
    assert str(found) == "The sun shines in Rome."


def test_vectors(minilm):
    texts = ["The cat sleeps.", "A kitten is sleeping.", "Quarterly tax returns are due."]
    expected = [pytest.approx(vector, abs=1e-6) for vector in minilm.json("POST", "/api/embed", {"model": "minilm", "input": texts})["embeddings"]]
    native = OllamaEmbedding(model_name="minilm", base_url=minilm.url)
    assert native.get_text_embedding_batch(texts) == expected
    compatible = OpenAIEmbedding(model_name="minilm", api_base=minilm.url + "/v1", api_key="none")
    assert compatible.get_text_embedding_batch(texts) == expected
    assert [compatible.get_text_embedding(text) for text in texts] == expected
