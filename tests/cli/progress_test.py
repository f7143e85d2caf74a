"""Progress lines on terminals that are resized: transfers, and models that load."""
import os
import pathlib
import re
import threading

from client_case import ClientCase
from program import billow, main
from screen import Screen
from terminal import Job

SHOWN = {"details": {}, "model_info": {}, "capabilities": ["completion"], "template": "{{ .Messages }}"}
LAST = {"response": "", "done": True, "done_reason": "stop"}
BYTES = 3_000_000
# Its load takes long enough to be seen.
REAL_MODEL = pathlib.Path(os.environ.get("BILLOW_TEST_MODELS", pathlib.Path.home() / ".cache/billow/models")) / "qwen2.5-coder-0.5b-q4_k_m.gguf"


def loading(n_loaded, **more):
    return {"name": "m:latest", "state": "loading", "loaded_bytes": n_loaded, "to_load_bytes": BYTES, **more}


class Shown:
    """A job on a terminal, with its screen."""

    def __init__(self, job, columns, reflows=True):
        self.job, self.screen, self.n_taken = job, Screen(columns, reflows), 0

    def take(self):
        whole = self.job.shown
        end = len(whole)
        while end > self.n_taken and whole[end - 1] & 0xC0 == 0x80:  # the last character may be incomplete
            end -= 1
        if end > self.n_taken and whole[end - 1] >= 0xC0:
            end -= 1
        piece = whole[self.n_taken:end].decode()
        cut = len(piece) - len(re.sub(r"\x1b(\[[0-9;?]*)?\Z", "", piece))  # so may the last sequence
        self.screen.write(piece[:len(piece) - cut])
        self.n_taken = end - cut

    def until(self, condition, wanted):
        def holds():
            self.take()
            return condition(self.screen.rows())
        self.job.until(holds, f"{wanted} in {self.screen.rows()}")

    def until_row(self, pattern):
        self.until(lambda rows: any(re.search(pattern, row) for row in rows), pattern)

    def resize(self, columns):
        self.job.resize(columns, 24)
        self.screen.resize(columns)


class Transfers(ClientCase):
    def steps(self, rest):
        """The lines of a transfer. It stays at 20 % until `rest` is set."""
        layer = {"status": "pulling 0123456789ab", "digest": "sha256:01", "total": BYTES}
        done = [{**layer, "completed": BYTES * n // 10} for n in range(11)]
        return [{"status": "pulling manifest"}, 0.2, *done[:3], rest, *done[3:], {"status": "success"}, 0.2]

    def test_no_row_of_an_old_width_is_left(self):
        for command in ("pull", "push"):
            for reflows in (True, False):
                with self.subTest(command=command, reflows=reflows):
                    rest = threading.Event()
                    self.addCleanup(rest.set)
                    self.answer(POST_api_pull=self.steps(rest), POST_api_push=self.steps(rest))
                    job = Job(self.env, command, "me/m", columns=110)
                    self.addCleanup(job.close)
                    shown = Shown(job, 110, reflows)
                    shown.until_row(r"pulling 0123456789ab:  20% ▕█+ +▏ 600 KB")
                    before = 110
                    for columns in (60, 33, 21, 90, 45):
                        shown.resize(columns)
                        at_least = before if columns > before else 1
                        shown.until(lambda rows, columns=columns, at_least=at_least:
                                    len(rows) == 2 and rows[1].startswith("pulling 01234567") and max(map(len, rows)) < columns
                                    and len(rows[1]) >= at_least, f"two rows of {columns} columns")
                        before = columns
                    rest.set()
                    shown.until_row(r"\Asuccess\Z")
                    rows = shown.screen.rows()
                    self.assertEqual([row.split(":")[0] for row in rows], ["pulling manifest", "pulling 0123456789ab", "success"])
                    self.assertRegex(rows[1], r": 100% ▕█+▏\Z")
                    self.assertEqual(job.wait(), 0)


class Loads(ClientCase):
    def setUp(self):
        super().setUp()
        self.memory = [loading(BYTES * 5 // 100)]
        self.loaded = threading.Event()  # the answer comes after it is set
        self.addCleanup(self.loaded.set)
        self.answer(POST_api_show=SHOWN, POST_api_generate=[self.loaded, {"response": "Hello", "done": False}, 0.3, LAST],
                    GET_api_memory=lambda _: {"models": self.memory})

    def shown(self, *args, columns=80):
        job = Job(self.env, *args, columns=columns)
        self.addCleanup(job.close)
        return Shown(job, columns)

    def test_the_load_of_a_model_is_a_bar_until_the_first_token(self):
        shown = self.shown("run", "m", "hi")
        shown.until_row(r"\Aloading m:latest   5% ▕█? +▏ 150 KB/ +3 MB")
        self.memory = [loading(BYTES // 2)]
        shown.until_row(r"\Aloading m:latest  50% ▕█+ +▏ 1\.5 MB/ +3 MB")
        shown.resize(30)
        shown.until(lambda rows: len(rows) == 1 and len(rows[0]) < 30 and rows[0].startswith("loading m:latest  50%"), "one short row")
        self.loaded.set()
        shown.until_row("Hello")
        self.assertEqual(shown.screen.rows(), ["Hello"])
        self.assertEqual(shown.job.wait(), 0)
        self.assertNotIn(b"loading", shown.job.shown[shown.job.shown.index(b"Hello"):])

    def test_a_load_that_ends_before_the_first_token_leaves_a_spinner(self):
        shown = self.shown("run", "m", "hi")
        shown.until_row("loading m:latest")
        self.memory = [{"name": "m:latest", "state": "ready"}]
        shown.until_row(r"\A[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]\Z")
        self.assertEqual(len(shown.screen.rows()), 1)
        self.loaded.set()
        shown.until_row("Hello")
        self.assertEqual(shown.screen.rows(), ["Hello"])

    def test_a_session_shows_the_load_before_its_first_prompt(self):
        self.answer(POST_api_generate=[self.loaded, LAST])
        shown = self.shown("run", "m")
        shown.until_row("loading m:latest   5%")
        self.loaded.set()
        shown.until_row(r"\A>>> Send a message")
        self.assertEqual(len(shown.screen.rows()), 1, shown.screen.rows())

    def test_embeddings_show_the_load(self):
        self.answer(POST_api_show=SHOWN | {"capabilities": ["embedding"]},
                    POST_api_embed=lambda _: self.loaded.wait(300) and {"embeddings": [[0.5]]})
        shown = self.shown("run", "e", "some text")
        shown.until_row("loading m:latest")
        self.loaded.set()
        shown.until_row(r"\A\[0\.5\]\Z")
        self.assertEqual(shown.screen.rows(), ["[0.5]"])

    def test_other_servers_get_a_spinner(self):
        for answer in ((404, {"error": "no"}), {"models": 7}, [1, "x"], {"models": [7, {"state": "loading", "to_load_bytes": -1}]}, (200, b"<html>")):
            self.answer(GET_api_memory=answer if not isinstance(answer, list) else (200, b"[1]"),
                        POST_api_generate=[0.6, {"response": "Hello", "done": False}, LAST])
            shown = self.shown("run", "m", "hi")
            shown.until_row("Hello")
            self.assertEqual(shown.screen.rows(), ["Hello"])
            self.assertEqual(shown.job.wait(), 0)
            self.assertNotIn(b"loading", shown.job.shown)

    def test_a_server_that_does_not_answer_about_the_load_does_not_delay_the_answer(self):
        self.answer(GET_api_memory=lambda _: self.loaded.wait(300), POST_api_generate=[0.6, {"response": "Hello", "done": False}, LAST])
        shown = self.shown("run", "m", "hi")
        self.assertEqual(shown.job.wait(), 0)
        self.assertFalse(self.loaded.is_set(), "the server has not answered about the load")

    def test_a_pipe_shows_and_asks_nothing(self):
        self.answer(POST_api_generate=[0.6, {"response": "Hello", "done": False}, LAST])
        done = billow("run", "m", "hi", env=self.env)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"Hello\n\n", b""))
        self.assertEqual(self.asked("/api/memory"), [])


class Engines(ClientCase):
    def test_generate_shows_the_load_of_its_engine(self):
        if not REAL_MODEL.exists():
            self.skipTest(f"{REAL_MODEL} does not exist: tools/setup models fetches it")
        environment = self.env | {"XDG_CACHE_HOME": str(self.dir)}  # no packed weights of an earlier load
        job = Job(environment, "generate", "--chat", "--model", str(REAL_MODEL), "--threads", "1", columns=70)
        self.addCleanup(job.close)
        shown = Shown(job, 70)
        shown.until_row(r"\Aloading qwen2\.5-coder-0\.5b-q4_k_m\.gguf +\d+% ▕.*▏")
        shown.resize(44)
        shown.until_row(r"\A>>> Send a message")
        self.assertEqual(shown.screen.rows()[:1], ["Write a message and press Enter. /clear star"], shown.screen.rows())
        self.assertNotIn("loading", "\n".join(shown.screen.rows()))
        quiet = billow("generate", "--model", str(REAL_MODEL), "--prompt", "Hi", "--max-tokens", "1", "--quiet", env=environment)
        self.assertEqual((quiet.returncode, quiet.stderr), (0, b""))


if __name__ == "__main__":
    main()
