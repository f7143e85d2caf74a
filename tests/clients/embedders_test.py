"""Tests embeddings of a real encoder with unchanged popular clients and embedders."""

import asyncio

import ollama
import openai
import pytest
from langchain_ollama import OllamaEmbeddings
from langchain_openai import OpenAIEmbeddings

TEXTS = ["The cat sleeps.", "A kitten is sleeping.", "Quarterly tax returns are due."]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


@pytest.fixture(scope="module")
def expected(minilm):
    vectors = minilm.json("POST", "/api/embed", {"model": "minilm", "input": TEXTS})["embeddings"]
    cat, kitten, tax = vectors
    assert dot(cat, cat) == pytest.approx(1, abs=1e-5)
    assert dot(cat, kitten) > 0.6 > 0.2 > dot(cat, tax)
    return vectors


def check(vectors, expected):
    assert len(vectors) == len(expected)
    for vector, wanted in zip(vectors, expected, strict=True):
        assert vector == pytest.approx(wanted, abs=1e-6)


def test_ollama_client(minilm, expected):
    client = ollama.Client(host=minilm.url)
    check(client.embed(model="minilm", input=TEXTS).embeddings, expected)
    assert client.embed(model="minilm", input=TEXTS).prompt_eval_count > 15
    check([client.embed(model="minilm", input=text).embeddings[0] for text in TEXTS], expected)
    assert "embedding" in client.show("minilm").capabilities


def test_openai_client(minilm, expected):
    client = openai.OpenAI(base_url=minilm.url + "/v1", api_key="none", max_retries=0)
    for form in ("float", "base64"):
        answer = client.embeddings.create(model="minilm", input=TEXTS, encoding_format=form)
        assert answer.usage.prompt_tokens == answer.usage.total_tokens > 15
        if form == "float":
            check([data.embedding for data in answer.data], expected)
    check([data.embedding for data in client.embeddings.create(model="minilm", input=TEXTS).data], expected)


def test_langchain(minilm, expected):
    native = OllamaEmbeddings(model="minilm", base_url=minilm.url)
    check(native.embed_documents(TEXTS), expected)
    check([native.embed_query(text) for text in TEXTS], expected)
    check(asyncio.run(native.aembed_documents(TEXTS)), expected)
    compatible = OpenAIEmbeddings(model="minilm", base_url=minilm.url + "/v1", api_key="none", check_embedding_ctx_length=False)
    check(compatible.embed_documents(TEXTS), expected)
    check([compatible.embed_query(text) for text in TEXTS], expected)


def test_embedding_model_refuses_text_requests(minilm):
    status, _, text = minilm.request("POST", "/api/generate", {"model": "minilm", "prompt": "a"})
    assert status == 400 and b"does not support generate" in text
    status, _, text = minilm.request("POST", "/api/chat", {"model": "minilm", "messages": [{"role": "user", "content": "a"}]})
    assert status == 400 and b"does not support chat" in text
