"""The official npm client of Ollama, in a Node program of ours that prints what it found as JSON."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent


def test_npm_client(server):
    packages = pathlib.Path(os.environ.get("BILLOW_NODE_MODULES", HERE / "node_modules"))
    if shutil.which("node") is None or not (packages / "ollama").exists():
        pytest.skip("no node, or no package ollama for it")
    ran = subprocess.run(["node", HERE / "ollama_npm.mjs", packages / "ollama" / "dist" / "index.mjs", server.url],
                         capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert "Paris" in found["generate"]
    assert found["stream"] == found["chat"] and "Paris" in found["chat"]
    assert "smollm2:latest" in found["models"] and found["running"] == ["smollm2:latest"]
    assert found["vectors"] == 2 and found["family"] == "llama"
    assert found["created"] == "success" and found["deleted"] == "success"
    assert found["error"] == [404, "model 'nope' not found"]
    assert found["aborted"] == "AbortError"
