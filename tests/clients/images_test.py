"""Tests images with the official clients of Ollama, OpenAI and Anthropic, for a model on a fake llama-server."""

import base64
import json
import pathlib

import anthropic
import ollama
import openai
import pytest

from pictures import data_url, png, projector, size_of, text64
from server import WEIGHTS, Server

FAKE = pathlib.Path(__file__).resolve().parents[1] / "server" / "fake_llama_server.py"
PICTURE = png(40, 30)


@pytest.fixture(scope="module")
def seeing(tmp_path_factory):
    """Returns a server with the model "see", and a function for the sizes of the images of llama-server's last request."""
    if not WEIGHTS.exists():
        pytest.skip(f"no model at {WEIGHTS}")
    folder = tmp_path_factory.mktemp("images")
    log = folder / "fake.log"
    (folder / "plan").write_text(json.dumps({"first": 400, "n_tokens": 100, "log": str(log)}))
    server = Server(folder, ["--llama-server", str(FAKE)], variables={"BILLOW_FAKE_LLAMA": str(folder / "plan")})
    server.add_files("see", {"m.gguf": WEIGHTS, "mmproj.gguf": projector(folder / "mmproj.gguf")})

    def sizes():
        prompt = [entry for entry in map(json.loads, log.read_text().splitlines()) if "body" in entry][-1]["body"]["prompt"]
        return [size_of(base64.b64decode(data)) for data in prompt["multimodal_data"]]

    yield server, sizes
    assert server.stop() == 0, server.log.read_text()


def test_ollama(seeing, tmp_path):
    server, sizes = seeing
    client = ollama.Client(host=server.url)
    assert "vision" in client.show("see").capabilities
    path = tmp_path / "photo.png"
    path.write_bytes(PICTURE)
    answer = client.chat(model="see", options={"num_predict": 4}, messages=[
        {"role": "user", "content": "What is this?", "images": [str(path), png(20, 10)]}])
    assert answer.eval_count == 4 and answer.prompt_eval_count > 40
    assert sizes() == [(40, 30), (20, 10)]
    assert client.generate(model="see", prompt="And this?", images=[PICTURE], options={"num_predict": 4}).eval_count == 4
    with pytest.raises(ollama.ResponseError, match="image 1: the PNG picture cannot be read"):
        client.generate(model="see", prompt="And this?", images=[PICTURE[:30]])


def test_openai(seeing):
    server, sizes = seeing
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    answer = client.chat.completions.create(model="see", max_tokens=4, messages=[{"role": "user", "content": [
        {"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": data_url(PICTURE)}}]}])
    assert answer.usage.completion_tokens == 4
    assert sizes() == [(40, 30)]
    response = client.responses.create(model="see", max_output_tokens=4, input=[{"role": "user", "content": [
        {"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": data_url(png(20, 10)), "detail": "auto"}]}])
    assert response.usage.output_tokens == 4
    assert sizes() == [(20, 10)]
    with pytest.raises(openai.BadRequestError, match="image URLs are not currently supported"):
        client.chat.completions.create(model="see", messages=[{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}])


def test_anthropic(seeing):
    server, sizes = seeing
    client = anthropic.Anthropic(base_url=server.url, api_key="none")

    def image(data):
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text64(data)}}

    with client.messages.stream(model="see", max_tokens=4, messages=[
            {"role": "user", "content": [image(PICTURE), {"type": "text", "text": "What is this?"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [image(png(20, 10))]}]}]) as stream:
        message = stream.get_final_message()
    assert message.usage.output_tokens == 4
    assert sizes() == [(40, 30), (20, 10)]
