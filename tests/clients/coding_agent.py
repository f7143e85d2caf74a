"""What tests of agents on the command line share: a scripted model that writes a file by the agent's shell, and an empty home."""

import os
import subprocess

from scripted_model import call_text, write_scripted_model

TASK = "Write the weather down."
COMMAND = "echo sunny > weather.txt && cat weather.txt"
ANSWER = "The file says that it is sunny."
RESULTS = "(messages | selectattr('role', 'equalto', 'tool') | map(attribute='content') | join(' '))"


def add_coder(server, folder, tool, **arguments):
    """Adds a model that calls the tool with the arguments, and ends with ANSWER once a result says that it is sunny; its name."""
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
    """What a command prints in an empty home, FOLDER/home, and FOLDER/work, with nothing else of this machine's environment.

    So neither settings nor keys of whoever runs the tests are in reach.
    """
    for name in ("home", "work"):
        (folder / name).mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), **variables}
    ran = subprocess.run(command, cwd=folder / "work", env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def written(folder):
    """What the model's command has written."""
    return (folder / "work" / "weather.txt").read_text()
