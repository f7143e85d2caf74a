"""Runs Ollama's own integration tests against Billow. Installed models get the names that these tests expect.

BILLOW_OLLAMA_TESTS is the program of these tests (tags "integration fast"), next to the folder testdata of their source. Without it,
or without the models, this test is skipped. Ollama's tests skip cases that need other models or features. UNFIT names cases that
the small models fail. The server obeys num_ctx (--num-ctx-policy cap), as these tests expect.

ollama_integration_test.py --billow PROGRAM
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from server import MODELS, WEIGHTS, Server

SKIPPED = 77
MINILM = MODELS / "all-minilm-l6-v2"
WRITERS = ("llama3.2:1b", "llama3.2")
ENCODER = "all-minilm"
# Tests that the small models fail, and why.
UNFIT = {
    "TestContext/context-exhaustion": "the model's story has emoji and no words",
    "TestEmbedding/embed/": "the vectors to compare with are those of other models",
}


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def add_models(server, program):
    # A small model may repeat itself endlessly. Ollama's tests look for words in answers: sampled answers of a small model can lack them.
    parameters = {"num_predict": 512, "temperature": 0}
    for name in WRITERS:
        server.add_model(name, license="MIT", parameters=parameters)
    subprocess.run([program, "create", ENCODER, "-q", "f32"], cwd=MINILM, env=server.environment, check=True, capture_output=True)


def results(output):
    """Returns names and results of the tests, without tests that contain failed ones."""
    found = re.findall(r"--- (PASS|FAIL|SKIP): (\S+)", output)
    failed = [name for result, name in found if result == "FAIL"]
    return [(result, name) for result, name in found
            if not (result == "FAIL" and any(other.startswith(name + "/") for other in failed))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--billow", required=True)
    billow = str(pathlib.Path(parser.parse_args().billow).resolve())
    tests = os.environ.get("BILLOW_OLLAMA_TESTS")
    if not tests:
        skip("BILLOW_OLLAMA_TESTS does not name the program of Ollama's integration tests")
    if not (WEIGHTS.exists() and MINILM.exists()):
        skip(f"models are missing in {MODELS}")
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, ("--num-ctx-policy", "cap"), program=billow)
        try:
            add_models(server, billow)
            run = subprocess.run([tests, "-test.v", "-test.count=1", "-test.timeout=60m"], cwd=pathlib.Path(tests).parent, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                                 env={**server.environment, "OLLAMA_TEST_EXISTING": "1"})
        finally:
            server.stop()
    wrong = []
    for result, name in results(run.stdout):
        why = next((why for test, why in UNFIT.items() if name.startswith(test)), "") if result == "FAIL" else ""
        print(f"{result} {name}" + (f" (expected: {why})" if why else ""))
        if result == "FAIL" and not why:
            wrong.append(name)
    if wrong or not re.search("^--- PASS", run.stdout, re.M):
        print(run.stdout)
        sys.exit("failed: " + (", ".join(wrong) or "no test passed"))


main()
