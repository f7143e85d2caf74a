"""Tests the line editor of billow run on a terminal: pastes, resizes, stops and signals at any time."""
import os
import random
import signal
import time

from client_case import ClientCase
from program import main
from terminal import Job

BEGIN, END = "\x1b[200~", "\x1b[201~"
SHOWN = {"details": {}, "model_info": {}, "capabilities": ["completion"], "template": "{{ .Messages }}"}
SECONDS = float(os.environ.get("BILLOW_EDITOR_SECONDS", "12"))
FIRST_SEED = int(os.environ.get("BILLOW_EDITOR_SEED", "1"))


def chatted(*pieces):
    chunks = [{"message": {"role": "assistant", "content": piece}, "done": False} for piece in pieces]
    return chunks + [{"message": {"role": "assistant", "content": ""}, "done": True}]


class EditorCase(ClientCase):
    def setUp(self):
        super().setUp()
        self.answer(POST_api_show=SHOWN, POST_api_generate={"done": True}, POST_api_chat=chatted("Hello"))

    def job(self, **size):
        job = Job(self.env, "run", "m", **size)
        self.addCleanup(job.close)
        return job

    def messages(self):
        return [body["messages"][-1]["content"] for body in self.asked("/api/chat")]

    def history(self):
        lines = (self.dir / ".ollama" / "history").read_text().split("\n")
        self.assertEqual(lines.pop(), "")
        return [line.replace("\u2028", "\n") for line in lines]


class Editor(EditorCase):
    def test_a_paste_contains_no_commands(self):
        pasted = 'def f():\n\t"""Says\n"""\n/bye\n\x03\x04\x1a ' + BEGIN + "\x1b[A\x15 \x7f\nend"
        job = self.job()
        job.wait_for("help)")
        job.send(BEGIN + pasted.replace("\n", "\r") + END)
        job.wait_for("end")
        self.assertEqual(self.messages(), [])
        job.send("\r")
        job.wait_for("Hello")
        for text in ("/bye", '"""', "two\nlines\n"):
            job.wait_for(">>> ")
            job.send(BEGIN + text + END + "\r")
            job.wait_for("Hello")
        job.wait_for(">>> ")
        job.send("after\r")
        job.wait_for("Hello")
        self.assertEqual(self.messages(), [pasted, "/bye", '"""', "two\nlines\n", "after"])
        self.assertEqual(self.history(), [pasted, '"""/bye"""', '"""""""""', "two\nlines\n", "after"])
        job.wait_for(">>> ")
        job.send("\x10\x10\x10\x10\x10\r")  # a recalled entry is sent unchanged
        job.wait_for("Hello")
        self.assertEqual(self.messages()[-1], pasted)
        job.wait_for(">>> ")
        job.send("/bye\r")
        self.assertEqual(job.wait(), 0)
        self.assertTrue(job.has_own_modes())

    def test_a_dumb_terminal_gets_prompts_and_no_escape_sequences(self):
        job = Job(self.env | {"TERM": "dumb"}, "run", "m")
        self.addCleanup(job.close)
        job.wait_for(">>> ")
        job.send("hi\n")
        job.wait_for("Hello")
        job.wait_for(">>> ")
        job.send('"""one\n')
        job.wait_for("... ")
        job.send('two"""\n')
        job.wait_for("Hello")
        job.wait_for(">>> ")
        job.send("/bye\n")
        self.assertEqual(job.wait(), 0)
        self.assertEqual(self.messages(), ["hi", "one\ntwo"])
        self.assertNotIn(b"\x1b", job.shown)

    def test_typed_triple_quotes_begin_and_end_a_message(self):
        job = self.job()
        job.wait_for("help)")
        job.send('"""one\r')
        job.wait_for("... ")
        job.send(BEGIN + 'two\r"""' + END + "\r")
        job.wait_for("\n... ")
        job.send('three"""\r')
        job.wait_for("Hello")
        job.wait_for(">>> ")
        job.send('"""never')
        job.wait_for("never")
        job.send("\r")
        job.wait_for("... ")
        job.send("\x03")  # cancels the message of several lines
        job.wait_for(">>> ")
        job.send("/frob\r")
        job.wait_for("Unknown command '/frob'")
        self.assertEqual(self.messages(), ['one\ntwo\n"""\nthree'])
        self.assertEqual(self.history(), ['one\ntwo\n"""\nthree', "/frob"])

    def test_a_paste_of_thousands_of_words(self):
        words = [f"wörd{i}" for i in range(5000)]
        job = self.job()
        job.wait_for("help)")
        text = "\n".join(" ".join(words[i:i + 12]) for i in range(0, len(words), 12))
        job.send(BEGIN + text + END)
        job.wait_for("wörd4999")
        job.resize(40, 10)
        job.send(" and\r")
        job.wait_for("Hello")
        self.assertEqual(self.messages(), [text + " and"])

    def test_input_during_an_answer_waits_for_the_editor(self):
        answers = iter([[{"message": {"content": "Wait"}}, 1.0] + chatted("ed"), chatted("Hello"), chatted("Hello")])
        self.answer(POST_api_chat=lambda body: next(answers))
        job = self.job()
        job.wait_for("help)")
        job.send("go\r")
        job.wait_for("Wait")
        text = "many words\n" * 1000 + '"""\n/bye\n\x03\x1a\n'
        job.send(BEGIN + text + END + "\rtyped ahead\r")
        job.wait_for("Hello")
        job.wait_for("Hello")
        self.assertEqual(self.messages(), ["go", text, "typed ahead"])

    def test_ctrl_c_ends_an_unfinished_paste(self):
        job = self.job()
        job.wait_for("help)")
        job.send(BEGIN + "lost")
        job.wait_for("lost")
        at = len(job.shown)
        while b">>> " not in job.shown[at:]:
            time.sleep(1.1)  # only a Ctrl-C after a pause counts as typed
            job.send("\x03")
            job.turn("prompt")
        job.send("found\r")
        job.wait_for("Hello")
        self.assertEqual(self.messages(), ["found"])

    def test_an_interrupt_drops_the_whole_paste(self):
        job = self.job()
        job.wait_for("help)")
        job.send(BEGIN + "lost")
        job.wait_for("lost")
        job.kill(signal.SIGINT)
        job.wait_for(">>> ")
        job.send("more\r/bye\r" + END + "kept\r")
        job.wait_for("Hello")
        self.assertEqual(self.messages(), ["kept"])

    def test_a_stop_restores_the_terminal(self):
        job = self.job()
        job.wait_for("help)")
        job.send("half")
        job.wait_for("half")
        for stop in (lambda: job.stop(), lambda: job.send("\x1a")):
            stop()
            job.until(lambda: job.state() == "T", "stop")
            self.assertTrue(job.has_own_modes())
            job.go_on()
            job.wait_for("half")  # the text is shown again
        job.stop(signal.SIGSTOP)
        job.go_on()
        job.wait_for("half")
        job.send(" done\r")
        job.wait_for("Hello")
        self.assertEqual(self.messages(), ["half done"])

    def test_every_end_restores_the_terminal(self):
        self.answer(POST_api_chat=lambda body: [{"message": {"content": "Wait"}}, 30.0])
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            for in_answer in (False, True):
                if number == signal.SIGINT and not in_answer:
                    continue
                with self.subTest(number=number, in_answer=in_answer):
                    job = self.job()
                    job.wait_for("help)")
                    self.assertFalse(job.has_own_modes())
                    if in_answer:
                        job.send("go\r")
                        job.wait_for("Wait")
                    job.kill(number)
                    if number == signal.SIGINT:  # the first signal ends the answer
                        job.wait_for(">>> ")
                        job.send("/bye\r")
                        self.assertEqual(job.wait(), 0)
                    else:
                        self.assertEqual(job.wait(), -number & 0xFF)
                    self.assertTrue(job.has_own_modes())


class Model:
    """The expected state of the editor and the session. A text is a list of (character, pasted)."""

    def __init__(self):
        self.text, self.cursor, self.killed, self.draft = [], 0, [], []
        self.block = None  # lines so far of a message between triple quotes; None: no such message
        self.messages, self.history, self.recalled = [], [], 0

    def insert(self, text):
        self.text[self.cursor:self.cursor] = text
        self.cursor += len(text)

    def erase(self, begin, end, kills=False):
        if begin != end:
            if kills:
                self.killed = self.text[begin:end]
            del self.text[begin:end]
            self.cursor = begin

    def row(self):
        plain = [c for c, _ in self.text]
        start = self.cursor - (plain[:self.cursor][::-1] + ["\n"]).index("\n")
        return start, self.cursor + (plain[self.cursor:] + ["\n"]).index("\n")

    def begin(self):
        self.text, self.cursor, self.recalled = [], 0, len(self.history)

    def interrupt(self):
        self.block = None
        self.begin()

    def remember(self, entry):
        if entry.strip(" \t\n") and self.history[-1:] != [entry]:
            self.history = (self.history + [entry])[-100:]

    def words(self, step):
        """Returns the position where the next word in this direction begins or ends."""
        at = self.cursor
        def is_blank_next():
            place = at - (step < 0)
            return self.text[place][0] in " \t\n" if 0 <= place < len(self.text) else None
        while is_blank_next() is True:
            at += step
        while is_blank_next() is False:
            at += step
        return at

    def recall(self, step):
        if not 0 <= self.recalled + step <= len(self.history):
            return
        if self.recalled == len(self.history):
            self.draft = self.text
        self.recalled += step
        is_entry = self.recalled < len(self.history)
        self.text = [(c, False) for c in self.history[self.recalled]] if is_entry else self.draft[:]
        self.cursor = len(self.text)

    def enter(self):
        text = "".join(c for c, _ in self.text)
        quotes = [("\"", False)] * 3
        typed_open, typed_close = self.text[:3] == quotes, self.text[-3:] == quotes
        typed_slash = self.text[:1] == [("/", False)]
        if self.block is None and typed_open:
            self.block, text = [], text[3:]
            typed_close = typed_close and len(text) >= 3
        elif self.block is None:
            if typed_slash:
                self.remember(text)  # these commands do nothing
            else:
                self.ask(text)
            return self.begin()
        if typed_close:
            message, self.block = "\n".join(self.block + [text[:-3]]), None
            self.ask(message)
        else:
            self.block.append(text)
        self.begin()

    def ask(self, message):
        if not message.strip(" \t\n\r\v\f"):
            return
        self.messages.append(message)
        self.remember(f'"""{message}"""' if message.startswith(("/", '"""')) else message)


WORDS = ["a", "word", "zwölf", "漢字", "€", "🙂", "x" * 30, '"""', "/", "/frob"]
PASTED = WORDS + ["\n", "\r", "\r\n", "\t", "\x03", "\x04", "\x1a", "\x7f", "\x15", "/bye\n", '"""\n', "\n/set nohistory\n",
                  BEGIN, "\x1b[A", "\x1b", "\x00"]


class RandomUse(EditorCase):
    """Random actions of a user, compared with a model of the editor."""

    def write(self, job, data, dice):
        """Sends the data in pieces of random size, with random disturbances between them."""
        data = data.encode()
        while data:
            n = dice.choice([1, 2, 3, 7, 50, 4000])
            n += data[n:] == b"\x03"
            n += data[:n] == b"\x03"  # a single Ctrl-C after a pause would count as typed
            job.send(data[:n])
            data = data[n:]
            if dice.random() < 0.05:
                self.disturb(job, dice)

    def disturb(self, job, dice):
        if dice.random() < 0.7:
            job.resize(dice.randrange(15, 120), dice.randrange(3, 40))
        else:
            job.kill(dice.choice([signal.SIGWINCH, signal.SIGCONT]))

    def stop(self, job, dice):
        """Stops and continues the program. All sent input must have been read, because the rest would go to the shell."""
        job.stop(dice.choice([signal.SIGTSTP, signal.SIGSTOP]))
        job.resize(dice.randrange(15, 120), dice.randrange(3, 40))
        job.go_on()

    def mark(self):
        """Returns a unique character. When the terminal shows it, the editor has handled all input before it."""
        self.n_marks += 1
        return chr(0xE000 + self.n_marks)

    def settle(self, job, model):
        mark = self.mark()
        model.insert([(mark, False)])
        job.send(mark)
        job.wait_for(mark)

    def step(self, job, model, dice):
        """Does one random action of the user, in the program and in the model."""
        choice = dice.random()
        if choice < 0.3:
            word = dice.choice(WORDS) + dice.choice(["", " "])
            model.insert([(c, False) for c in word])
            return self.write(job, word, dice)
        if choice < 0.5:
            count = dice.choice([1, 5, 20]) if dice.random() < 0.9 else 1500
            first, then = ("".join(dice.choice(PASTED) for _ in range(n)) for n in (count, dice.choice([0, 5])))
            mark = self.mark() if dice.random() < 0.3 else ""
            kept = (first + mark + then).replace("\r\n", "\n").replace("\r", "\n")
            model.insert([(c, True) for c in kept])
            self.write(job, BEGIN + first + mark, dice)
            if mark:
                job.wait_for(mark)
                self.stop(job, dice)
            return self.write(job, then + END, dice)
        if choice < 0.62:
            model.enter()
            return self.write(job, dice.choice(["\r", "\n"]), dice)
        if choice < 0.67:
            self.settle(job, model)
            if dice.random() < 0.5:
                job.send("\x03")
            else:
                job.kill(signal.SIGINT)
            return model.interrupt()
        if choice < 0.7:
            self.settle(job, model)
            return self.stop(job, dice)
        start, end = model.row()
        cursor, size = model.cursor, len(model.text)
        keys = {
            "\x1b[D": lambda: setattr(model, "cursor", max(0, cursor - 1)),
            "\x1b[C": lambda: setattr(model, "cursor", min(size, cursor + 1)),
            "\x01": lambda: setattr(model, "cursor", start),
            "\x05": lambda: setattr(model, "cursor", end),
            "\x7f": lambda: model.erase(max(0, cursor - 1), cursor),
            "\x1b[3~": lambda: model.erase(cursor, min(size, cursor + 1)),
            "\x0b": lambda: model.erase(cursor, end, kills=True),
            "\x15": lambda: model.erase(start, cursor, kills=True),
            "\x19": lambda: model.insert(model.killed),
            "\x1b\r": lambda: model.insert([("\n", False)]),
            "\x0c": lambda: None,
            "\x10": lambda: model.recall(-1),
            "\x0e": lambda: model.recall(1),
            "\x1bb": lambda: setattr(model, "cursor", model.words(-1)),
            "\x1bf": lambda: setattr(model, "cursor", model.words(1)),
            "\x17": lambda: model.erase(model.words(-1), cursor, kills=True),
            "\x1bd": lambda: model.erase(cursor, model.words(1), kills=True),
        }
        key = dice.choice(list(keys))
        keys[key]()
        return self.write(job, key, dice)

    def session(self, seed):
        dice = random.Random(seed)
        self.server.asked.clear()
        (self.dir / ".ollama" / "history").unlink(missing_ok=True)
        model, self.n_marks = Model(), 0
        job = Job(self.env, "run", "m")
        try:
            job.wait_for("help)")
            for _ in range(60):
                self.step(job, model, dice)
            self.settle(job, model)  # during an answer, Ctrl-C would end the answer
            job.send("\x03/bye\r")
            self.assertEqual(job.wait(), 0)
            self.assertTrue(job.has_own_modes())
        finally:
            job.close()
        self.assertEqual(self.messages(), model.messages)
        model.remember("/bye")
        self.assertEqual(self.history(), model.history)

    def test_random_use_matches_the_model(self):
        end, seed = time.monotonic() + SECONDS, FIRST_SEED
        while seed < FIRST_SEED + 2 or time.monotonic() < end:
            with self.subTest(seed=seed):
                print("seed", seed, flush=True)
                self.session(seed)
            seed += 1


if __name__ == "__main__":
    main()
