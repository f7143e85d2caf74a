"""Tests images with the official clients of Ollama, OpenAI and Anthropic, for tiny vision models on Billow's own engine.

The models are in ../shared/data/vision. Without the folder, the tests are skipped.
"""

import json
import pathlib

import anthropic
import ollama
import openai
import pytest

from pictures import data_url, png, text64
from server import Server

MODELS = pathlib.Path(__file__).resolve().parents[3] / "shared/data/vision"
NAMES = ["gemma3", "qwen3_vl", "smolvlm"]
TEMPLATE = "{{ range .Messages }}{{ .Role }} {{ .Content }}\n{{ range .ToolCalls }}{{ .Function.Name }}{{ end }}{{ end }}{{ if .Tools }} {{ end }}"
OTHER = png(150, 100, 80)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if not MODELS.is_dir():
        pytest.skip(f"{MODELS} does not exist")
    server = Server(tmp_path_factory.mktemp("vision"), ["--threads", "1"])
    for name in NAMES:
        server.add_files(name, {"m.gguf": MODELS / f"{name}.gguf", "mmproj.gguf": MODELS / f"{name}.mmproj.gguf"}, template=TEMPLATE)
    yield server
    assert server.stop() == 0, server.log.read_text()


@pytest.fixture(scope="module")
def picture():
    return (MODELS / "picture.png").read_bytes()


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


def per_picture(name, text, one, two):
    """Checks that the second picture takes as many tokens as the first one, and as many as transformers gives it."""
    n_tokens = len(json.loads((MODELS / f"{name}.json").read_text())["image_positions"])
    assert one - text >= n_tokens
    assert two - one >= n_tokens


def test_ollama(server, name, picture, tmp_path):
    client = ollama.Client(host=server.url)
    assert "vision" in client.show(name).capabilities
    path = tmp_path / "photo.png"
    path.write_bytes(picture)
    options = {"num_predict": 4, "temperature": 0}

    def ask(*images):
        answer = client.chat(model=name, options=options, messages=[{"role": "user", "content": "a", "images": list(images)}])
        assert answer.eval_count == 4
        return answer.prompt_eval_count

    per_picture(name, ask(), ask(str(path)), ask(str(path), OTHER))
    answers = [client.generate(model=name, prompt="a", images=[image], options=options, logprobs=True, top_logprobs=1)
               for image in (picture, OTHER, picture)]
    assert answers[0].response == answers[2].response
    assert answers[0].logprobs[0].logprob == answers[2].logprobs[0].logprob
    assert answers[0].logprobs[0].logprob != answers[1].logprobs[0].logprob
    pieces = list(client.chat(model=name, options=options, stream=True, messages=[
        {"role": "user", "content": "a", "images": [picture]}, {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c", "images": [OTHER]}]))
    assert pieces[-1].done and pieces[-1].prompt_eval_count > 0
    with pytest.raises(ollama.ResponseError, match="image 1: the PNG picture cannot be read"):
        client.generate(model=name, prompt="a", images=[picture[:200]])


def test_openai(server, name, picture):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")

    def image(data):
        return {"type": "image_url", "image_url": {"url": data_url(data)}}

    def ask(*images):
        answer = client.chat.completions.create(model=name, max_tokens=4, temperature=0, messages=[
            {"role": "user", "content": [{"type": "text", "text": "a"}, *map(image, images)]}])
        return answer.usage.prompt_tokens

    per_picture(name, ask(), ask(picture), ask(picture, OTHER))
    stream = client.chat.completions.create(model=name, max_tokens=4, stream=True, stream_options={"include_usage": True}, messages=[
        {"role": "user", "content": [image(picture), {"type": "text", "text": "a"}]}])
    assert [chunk.usage for chunk in stream if chunk.usage][-1].prompt_tokens > 0


def test_openai_responses(server, name, picture):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")

    def image(data):
        return {"type": "input_image", "image_url": data_url(data), "detail": "auto"}

    def ask(*images, output="seen"):
        response = client.responses.create(model=name, max_output_tokens=4, input=[
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, *map(image, images)]},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": output}])
        return response.usage.input_tokens

    per_picture(name, ask(), ask(picture), ask(picture, OTHER))
    in_result = ask(output=[{"type": "input_text", "text": "seen"}, image(picture)])
    assert in_result - ask() >= len(json.loads((MODELS / f"{name}.json").read_text())["image_positions"])


def test_anthropic(server, name, picture):
    client = anthropic.Anthropic(base_url=server.url, api_key="none")

    def image(data):
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text64(data)}}

    def messages(*images, result=()):
        return [{"role": "user", "content": [*map(image, images), {"type": "text", "text": "a"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [
                    {"type": "text", "text": "seen"}, *map(image, result)]}]}]

    def ask(*images, result=()):
        usage = client.messages.create(model=name, max_tokens=4, messages=messages(*images, result=result)).usage
        return usage.input_tokens + usage.cache_read_input_tokens

    per_picture(name, ask(), ask(picture), ask(picture, OTHER))
    per_picture(name, ask(), ask(result=[picture]), ask(result=[picture, OTHER]))
    counted = client.messages.count_tokens(model=name, messages=messages(picture)).input_tokens
    assert counted == ask(picture)


def test_model_without_a_projector_refuses_by_name(server):
    server.add_files("blind", {"m.gguf": MODELS / "qwen3_vl.gguf"}, template=TEMPLATE)
    with pytest.raises(ollama.ResponseError, match="blind:latest does not support vision"):
        ollama.Client(host=server.url).generate(model="blind", prompt="a", images=[OTHER])
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    with pytest.raises(openai.BadRequestError, match="does not support vision"):
        client.chat.completions.create(model="blind", messages=[
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": data_url(OTHER)}}]}])
