"""Tests structured answers with the official Python client of OpenAI: schemas, tools, choices and log probabilities."""

import json
import math

import openai
import pydantic
import pytest

CITY = [{"role": "user", "content": "Describe the city of Paris as JSON: its name, its country and its population in millions."}]
WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a city.", "strict": True,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                   "required": ["city", "days"], "additionalProperties": False}}}
ASK = [{"role": "user", "content": "What will the weather be like in Rome for the next two days? Use the tool."}]


class City(pydantic.BaseModel):
    name: str
    country: str
    population: float


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def test_answer_follows_a_type(client):
    answer = client.chat.completions.parse(model="smollm2", messages=CITY, response_format=City, temperature=0, max_tokens=200)
    assert isinstance(answer.choices[0].message.parsed, City) and answer.choices[0].finish_reason == "stop"


def test_stream_follows_a_type(client):
    with client.chat.completions.stream(model="smollm2", messages=CITY, response_format=City, temperature=0, max_tokens=200) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, City)


def test_json_mode(client):
    answer = client.chat.completions.create(model="smollm2", messages=CITY, response_format={"type": "json_object"}, temperature=0.8, seed=3,
                                            max_tokens=300)
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)


def held_to(client, extra, allowed):
    answer = client.chat.completions.create(model="smollm2", messages=CITY, temperature=1, max_tokens=20, extra_body=extra)
    assert answer.choices[0].message.content in allowed


def test_choices_and_grammars(client):
    held_to(client, {"structured_outputs": {"choice": ["red", "green"]}}, ("red", "green"))
    held_to(client, {"grammar": 'root ::= "left" | "right"'}, ("left", "right"))


def test_regular_expressions_of_vllm(client):
    held_to(client, {"guided_regex": "(yes|no)!"}, ("yes!", "no!"))


def test_unsupported_schema_is_refused(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="smollm2", messages=CITY, response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}})
    assert "type" in error.value.body["message"]


def test_required_tools_are_called(client):
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        answer = client.chat.completions.create(model="qwen", messages=ASK, tools=[WEATHER], tool_choice=choice, temperature=0, max_tokens=200)
        assert answer.choices[0].finish_reason == "tool_calls"
        call = answer.choices[0].message.tool_calls[0]
        arguments = json.loads(call.function.arguments)
        assert call.function.name == "weather" and isinstance(arguments["city"], str) and 1 <= arguments["days"] <= 9


def test_streamed_call_equals_the_whole_call(client):
    fields = {"model": "qwen", "messages": ASK, "tools": [WEATHER], "tool_choice": "required", "temperature": 0, "max_tokens": 200}
    whole = client.chat.completions.create(**fields).choices[0].message.tool_calls
    names, arguments = {}, {}
    for chunk in client.chat.completions.create(stream=True, **fields):
        for call in chunk.choices[0].delta.tool_calls or []:
            names.setdefault(call.index, call.function.name)
            arguments[call.index] = arguments.get(call.index, "") + (call.function.arguments or "")
    assert [(call.function.name, call.function.arguments) for call in whole] == [(names[i], arguments[i]) for i in sorted(names)]


def test_model_calls_a_tool_and_reads_its_result(client):
    answer = client.chat.completions.create(model="qwen", messages=ASK, tools=[WEATHER], temperature=0, max_tokens=200)
    message = answer.choices[0].message
    assert message.tool_calls and message.tool_calls[0].function.name == "weather"
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": json.dumps({"sky": "purple", "degrees": 21})}
    answer = client.chat.completions.create(model="qwen", messages=[*ASK, message, result], tools=[WEATHER], temperature=0, max_tokens=100)
    assert "21" in answer.choices[0].message.content or "purple" in answer.choices[0].message.content


def test_tool_choice_none_prevents_calls(client):
    answer = client.chat.completions.create(model="qwen", messages=ASK, tools=[WEATHER], tool_choice="none", temperature=0, max_tokens=60)
    assert not answer.choices[0].message.tool_calls and answer.choices[0].message.content


def test_choices(client):
    fields = {"model": "smollm2", "messages": CITY, "temperature": 1, "max_tokens": 12, "seed": 5}
    answer = client.chat.completions.create(n=3, **fields)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    for i, choice in enumerate(answer.choices):
        alone = client.chat.completions.create(**{**fields, "seed": 5 + i})
        assert choice.message.content == alone.choices[0].message.content
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(n=3, stream=True, **fields):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in answer.choices]


def test_biased_token_is_always_chosen(client):
    token = client.completions.create(model="smollm2", prompt="a", max_tokens=1, temperature=0, logprobs=1)
    assert token.choices[0].logprobs.tokens
    answer = client.completions.create(model="smollm2", prompt="One, two, three,", max_tokens=3, temperature=0, logit_bias={"99": 100})
    once = client.completions.create(model="smollm2", prompt="One, two, three,", max_tokens=3, temperature=0)
    assert answer.choices[0].text != once.choices[0].text


def test_several_prompts_and_token_prompts(client):
    fields = {"model": "smollm2", "max_tokens": 6, "temperature": 0}
    both = client.completions.create(prompt=["The capital of France is", "One, two, three,"], **fields)
    assert [choice.index for choice in both.choices] == [0, 1]
    for choice, prompt in zip(both.choices, ("The capital of France is", "One, two, three,")):
        assert choice.text == client.completions.create(prompt=prompt, **fields).choices[0].text
    assert client.completions.create(prompt=[[28, 29, 30]], **fields).usage.prompt_tokens == 3


def test_prompt_logprobs(client):
    fields = {"model": "smollm2", "prompt": "The capital of France is Paris", "temperature": 0, "logprobs": 1}
    scored = client.completions.create(echo=True, max_tokens=0, **fields)
    logprobs = scored.choices[0].logprobs
    assert scored.choices[0].text == fields["prompt"] and "".join(logprobs.tokens) == fields["prompt"]
    assert logprobs.token_logprobs[0] is None and all(value <= 0 for value in logprobs.token_logprobs[1:])
    assert logprobs.text_offset == [sum(map(len, logprobs.tokens[:i])) for i in range(len(logprobs.tokens))]
    # As a prompt, the model's own continuation has the same log probabilities.
    written = client.completions.create(max_tokens=4, **fields).choices[0]
    again = client.completions.create(echo=True, max_tokens=0, **{**fields, "prompt": fields["prompt"] + written.text}).choices[0].logprobs
    for value, other in zip(reversed(written.logprobs.token_logprobs), reversed(again.token_logprobs)):
        assert math.isclose(value, other, abs_tol=0.1)  # on AMX, prompts are read in BF16
