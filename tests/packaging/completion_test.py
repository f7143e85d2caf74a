"""Completion in bash, zsh and fish, with a server whose names of models have colons."""
import contextlib
import http.server
import json
import os
import pathlib
import pty
import select
import shlex
import shutil
import tempfile
import threading
import time
import unittest

import package_case
from package_case import ARGS, SOURCE, run

SCRIPTS = SOURCE / "packaging/completions"
MODELS = ["llama3.2:1b", "llama3.2:latest", "smollm2:latest"]


class Tags(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"models": [{"name": name} for name in MODELS]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tags)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.folder = tempfile.TemporaryDirectory()
        cls.home = pathlib.Path(cls.folder.name)
        (cls.home / "bin").mkdir()
        (cls.home / "bin/billow").symlink_to(pathlib.Path(ARGS.billow).resolve())
        (cls.home / "notes.gguf").touch()
        cls.environment = {"PATH": f"{cls.home}/bin:{os.environ['PATH']}", "HOME": str(cls.home), "TERM": "dumb",
                           "BILLOW_HOST": f"127.0.0.1:{cls.server.server_port}", "LC_ALL": "C.UTF-8"}

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()
        cls.folder.cleanup()

    def bash(self, line, *words):
        """The offers of bash for a line that bash itself splits into `words`."""
        script = f"""source {shlex.quote(str(SCRIPTS / 'billow.bash'))}
COMP_WORDS=({' '.join(map(shlex.quote, words))}) COMP_CWORD={len(words) - 1} COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}
_billow billow "${{COMP_WORDS[COMP_CWORD]}}"
printf '%s\\n' "${{COMPREPLY[@]}}" """
        return run("bash", "-c", script, env=self.environment, cwd=self.home).stdout.split()

    def bash_names(self, line, *words):
        """The same for names of models. The program offers none if the server is late, so this asks again."""
        deadline = time.monotonic() + 60
        while not (offers := self.bash(line, *words)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return offers

    def test_bash_offers_commands_options_and_values(self):
        self.assertEqual(self.bash("billow insp", "billow", "insp"), ["inspect"])
        self.assertIn("serve", self.bash("billow ", "billow", ""))
        self.assertEqual(self.bash("billow serve --keep", "billow", "serve", "--keep"), ["--keep-alive"])
        self.assertEqual(self.bash("billow serve --engine ", "billow", "serve", "--engine", ""), ["auto", "billow", "llama"])
        self.assertEqual(self.bash("billow serve --engine=l", "billow", "serve", "--engine", "=", "l"), ["llama"])

    def test_bash_offers_models_with_colons(self):
        self.assertEqual(self.bash_names("billow run ", "billow", "run", ""), MODELS)
        self.assertEqual(self.bash_names("billow run llama3.2:", "billow", "run", "llama3.2", ":"), ["1b", "latest"])
        self.assertEqual(self.bash_names("billow run llama3.2:l", "billow", "run", "llama3.2", ":", "l"), ["latest"])
        # A colon of an earlier word is no part of the last one.
        self.assertEqual(self.bash_names("billow cp smollm2:latest l", "billow", "cp", "smollm2", ":", "latest", "l"), MODELS[:2])

    def test_bash_offers_nothing_where_files_are_wanted(self):
        self.assertEqual(self.bash("billow inspect n", "billow", "inspect", "n"), [])

    def test_bash_on_a_terminal(self):
        self.on_terminal(["bash", "--norc", "--noprofile", "-i"], f"source {SCRIPTS}/billow.bash; bind 'set bell-style none'", {
            "billow run llama3.2:l": "billow run llama3.2:latest", "billow inspect n": "billow inspect notes.gguf",
            "billow serve --engine=au": "billow serve --engine=auto"})

    def test_zsh_on_a_terminal(self):
        if shutil.which("zsh") is None:
            self.skipTest("no zsh here; tools/setup packaging installs it")
        setup = f"fpath=({SCRIPTS} $fpath); autoload -U compinit; compinit -u -D; zstyle ':completion:*' menu no"
        self.on_terminal(["zsh", "-f", "-i"], setup, {
            "billow run llama3.2:l": "billow run llama3.2:latest", "billow insp": "billow inspect",
            "billow inspect n": "billow inspect notes.gguf", "billow serve --engine=au": "billow serve --engine=auto"})

    def test_fish(self):
        if shutil.which("fish") is None:
            self.skipTest("no fish here; tools/setup packaging installs it")
        def offers(line):
            script = f"source {SCRIPTS}/billow.fish; complete -C {shlex.quote(line)}"
            lines = run("fish", "--no-config", "-c", script, env=self.environment, cwd=self.home).stdout.splitlines()
            return [text.split("\t")[0] for text in lines]
        self.assertEqual(offers("billow insp"), ["inspect"])
        deadline = time.monotonic() + 60
        while offers("billow run llama3.2:") != MODELS[:2]:  # there are none if the server is late
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(offers("billow serve --engine=l"), ["--engine=llama"])
        self.assertEqual(offers("billow inspect no"), ["notes.gguf"])

    def on_terminal(self, shell, setup, lines):
        """Types each line and Tab on a terminal, until it shows the completed line. Deletes each line again."""
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(self.home)
            os.execvpe(shell[0], shell, {**self.environment, "PS1": "> "})
        shown = ""

        def read(until, seconds):
            """Reads until the terminal shows this. Returns whether it did in time."""
            nonlocal shown
            begin, end = len(shown), time.monotonic() + seconds
            while time.monotonic() < end and until not in shown[begin:]:
                if select.select([terminal], [], [], 0.05)[0]:
                    with contextlib.suppress(OSError):
                        shown += os.read(terminal, 65536).decode(errors="replace")
            return until in shown[begin:]

        try:
            os.write(terminal, f"{setup}; PS1='> '; echo re''ady\n".encode())
            self.assertTrue(read("ready\r\n", 60), shown)
            for line, completed in lines.items():
                deadline, seconds = time.monotonic() + 60, 1
                while True:
                    os.write(terminal, line.encode() + b"\t")
                    is_shown = read(completed, seconds)
                    os.write(terminal, b"\x15")
                    if is_shown:
                        break
                    # The program offers no names of models if the server is late, so this asks again.
                    self.assertLess(time.monotonic(), deadline, f"{completed}: {shown!r}")
                    seconds *= 2
        finally:
            os.close(terminal)
            os.waitpid(process, 0)


if __name__ == "__main__":
    package_case.main()
