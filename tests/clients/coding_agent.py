"""Shared code of tests of command line agents: a scripted model that writes a file with the agent's shell, and an empty home."""

import os
import subprocess

from scripted_model import call_text, write_scripted_model

TASK = "Write the weather down."
COMMAND = "echo sunny > weather.txt && cat weather.txt"
ANSWER = "The file says that it is sunny."
RESULTS = "(messages | selectattr('role', 'equalto', 'tool') | map(attribute='content') | join(' '))"


def add_coder(server, folder, tool, **arguments):
    """Adds a model that calls the tool with the arguments. After a result with "sunny", the model writes ANSWER. Returns its name."""
    path = folder / "coder.gguf"
    write_scripted_model(path, [
        (f"tools and 'sunny' in {RESULTS}", ANSWER),
        (f"tools and {RESULTS}", "The tool has not done its work."),
        ("tools", call_text(tool, **arguments)),
        ("true", "A file about the weather"),
    ])
    server.add_model("coder", path)
    return "coder"


def run_agent(folder, command, **variables):
    """Runs a command in FOLDER/work with the empty home FOLDER/home and a minimal environment. Returns its output.

    The command therefore has no access to the user's settings and keys.
    """
    for name in ("home", "work"):
        (folder / name).mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), **variables}
    ran = subprocess.run(command, cwd=folder / "work", env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         timeout=1000, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def written(folder):
    """Returns the text that the model's command has written."""
    return (folder / "work" / "weather.txt").read_text()
