"""Tests lm-evaluation-harness with its defaults: the server tokenizes, and returns the log probabilities of token ids.

Compares the results with a plain computation of the same model. Both use the file's weights as floats, so the figures differ only by
rounding.
"""

import json
import os

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import lm_eval  # noqa: E402
import pytest  # noqa: E402
from plain_llama import PlainLlama, write_floats  # noqa: E402
from server import WEIGHTS, Server  # noqa: E402

QUESTIONS = [
    ("The capital of France is", [" Paris", " Berlin", " Madrid"], 0),
    ("The opposite of hot is", [" blue", " cold", " tall"], 1),
    ("Two plus two equals", [" four", " nine hundred", " a colour"], 0),
    ("A baby cat is called a", [" puppy", " kitten", " tractor"], 1),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Starts a server with one model, because the harness names no model when it tokenizes."""
    if not WEIGHTS.exists():
        pytest.skip(f"no model at {WEIGHTS}")
    folder = tmp_path_factory.mktemp("server")
    write_floats(WEIGHTS, folder / "floats.gguf")
    server = Server(folder, ["--kv-type", "f32"])
    server.add_model("smollm2", folder / "floats.gguf")
    yield server
    assert server.stop() == 0, server.log.read_text()


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "questions.json"
    path.write_text("".join(json.dumps({"question": question, "choices": choices, "answer": answer}) + "\n"
                            for question, choices, answer in QUESTIONS))
    return {"task": "questions", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(path)}}, "test_split": "test",
            "output_type": "multiple_choice", "doc_to_text": "{{question}}", "doc_to_choice": "{{choices}}", "doc_to_target": "{{answer}}",
            "target_delimiter": "", "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]}


def test_multiple_choice(server, task, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    found = lm_eval.simple_evaluate(
        model="local-completions", tasks=[task], log_samples=True, bootstrap_iters=0,
        model_args={"model": "smollm2", "base_url": server.url + "/v1/completions", "tokenizer_backend": "remote", "batch_size": 4,
                    "max_retries": 1})
    samples = sorted(found["samples"]["questions"], key=lambda sample: sample["doc_id"])
    assert len(samples) == len(QUESTIONS)
    texts, n_known = [], []
    for question, choices, _ in QUESTIONS:
        asked, *wholes = (server.json("POST", "/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]
                          for text in (question, *(question + choice for choice in choices)))
        texts += wholes
        n_known += [len(asked)] * len(choices)
    expected = list(PlainLlama(WEIGHTS).loglikelihoods(texts, n_known))
    found_logprobs = [(float(logprob), is_greedy in (True, "True")) for sample in samples for ((logprob, is_greedy),) in sample["resps"]]
    assert [logprob for logprob, _ in found_logprobs] == pytest.approx([logprob for logprob, _ in expected], abs=1e-3)
    assert [is_greedy for _, is_greedy in found_logprobs] == [is_greedy for _, is_greedy in expected]
    n_right = 0
    for _, choices, answer in QUESTIONS:
        logprobs, expected = [logprob for logprob, _ in expected[:len(choices)]], expected[len(choices):]
        n_right += max(range(len(choices)), key=logprobs.__getitem__) == answer
    assert found["results"]["questions"]["acc,none"] == n_right / len(QUESTIONS)
    assert n_right > len(QUESTIONS) // 2
