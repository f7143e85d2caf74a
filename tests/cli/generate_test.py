"""Tests billow generate as a user sees it: context, events, summary and signals."""
import csv
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import tempfile
import termios
import time

from program import ARGS, ProgramTest, billow, main
from terminal import Job

# The default prompt.
TASK = "Write a Tic Tac Toe game in Python that two people can play in a terminal."
TRANSITION = re.compile(r"^\[transition\] ctx(\d+) -> ctx(\d+) at tokens=(\d+) \((\d+\.\d) ms, avg decode (\d+\.\d) t/s\)$", re.M)
COMPACTION = re.compile(r"^\[compact\] ctx(\d+) drop=(\d+) keep=(\d+) \((\d+\.\d) ms, avg decode (\d+\.\d) t/s\)$", re.M)
SMALL_CONTEXT = ["--context-sizes", "64,128", "--max-context-size", 128, "--overflow-batch", 8, "--overflow-reserve-batches", 4]
SUMMARY = re.compile(r"""=== Summary ===
prompt_tokens=(?P<prompt>\d+)
stop_reason=(?P<reason>[a-z-]+)
prefill=\d+\.\dms \(\d+\.\d t/s\) context=(?P<context>\d+)
decode_tokens=(?P<tokens>\d+) decode_tps=\d+\.\d final_context=(?P<final>\d+)
transitions:(?P<transitions> \(none\)|(?:\n  ctx\d+->ctx\d+ at token_count=\d+ \(\d+\.\d ms\))+)
compactions:(?P<compactions> \(none\)|(?:\n  ctx\d+ drop=\d+ keep=\d+ \(\d+\.\d ms\))+)
decode_tps_with_events=\d+\.\d
tokens_per_context:(?P<rungs>(?:\n  ctx\d+ tokens=\d+ decode_tps=\d+\.\d)+)
tokens_evaluated_again=(?P<again>\d+) per_generated_token=(?P<per_token>\d+\.\d+)
peak_kv_memory=\d+(?:\.\d)? [KMGT]?i?B
drafted_tokens=(?P<drafted>\d+) accepted=(?P<accepted>\d+)
""")


def split_summary(errors):
    """Returns the part of standard error before the summary, and the summary's fields."""
    before, begin, summary = errors.decode().partition("=== Summary ===")
    return before, SUMMARY.fullmatch(begin + summary)


def course(n_prompt, n_tokens, sizes, recent):
    """Computes the expected events and the tokens on each rung from the formula of the design, without the program."""
    rung = min(size for size in sizes if size > n_prompt)
    events, per_rung, held = [], {rung: 0}, n_prompt
    for _ in range(n_tokens - 1):
        per_rung[rung] += 1
        if held == rung and rung < max(sizes):
            wider = min(size for size in sizes if size > rung)
            events.append(("transition", rung, wider, held))
            rung = wider
            per_rung[rung] = 0
        elif held == rung:
            keep = min(n_prompt + recent, rung - max(64, rung // 16))
            events.append(("compaction", rung, rung - keep, keep))
            held = keep
        held += 1
    per_rung[rung] += 1
    return events, per_rung


def text_events(text):
    """Returns the events in a text, in order, in the format of course()."""
    found = [(m.start(), ("transition", *map(int, m.group(1, 2, 3)))) for m in TRANSITION.finditer(text)]
    found += [(m.start(), ("compaction", *map(int, m.group(1, 2, 3)))) for m in COMPACTION.finditer(text)]
    return [event for _, event in sorted(found)]


def json_events(out):
    fields = {"transition": ("from", "to", "tokens"), "compaction": ("context", "drop", "keep")}
    return [(event["type"], *(event[field] for field in fields[event["type"]])) for event in out["events"]]


def with_metadata(source, target, values):
    """Copies a GGUF file and adds metadata: floats and strings."""
    data = source.read_bytes()
    added, n_added = b"", 0
    def string(text):
        return struct.pack("<Q", len(text)) + text.encode()
    for key, value in values.items():
        is_float = isinstance(value, float)
        added += string(key) + (struct.pack("<If", 6, value) if is_float else struct.pack("<I", 8) + string(value))
        n_added += 1
    # The filler keeps the rest of the file aligned.
    filler = -(len(added) + len(string("test.filler")) + 12) % 32
    added += string("test.filler") + struct.pack("<I", 8) + string(" " * filler)
    magic, version, n_tensors, n_keys = struct.unpack("<4sIQQ", data[:24])
    target.write_bytes(struct.pack("<4sIQQ", magic, version, n_tensors, n_keys + n_added + 1) + added + data[24:])
    return target


class Generate(ProgramTest):
    def generate(self, *args, **kwargs):
        """Returns the JSON report for a raw prompt; the answer does not end by itself."""
        return json.loads(self.ok("generate", "--model", self.model, "--raw", "--ignore-eos", "--json", *args, **kwargs))

    def start(self, *args, **kwargs):
        """Starts a process that generates text until it is stopped."""
        command = [ARGS.billow, "generate", "--model", self.model, "--ignore-eos", "--max-tokens", -1, *args]
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **kwargs)  # a background shell ignores SIGINT
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for pipe in (process.stdin, process.stdout, process.stderr):
            self.addCleanup(pipe.close)
        return process

    def test_the_context_grows_and_is_compacted_like_the_formula(self):
        args = ["generate", "--model", self.model, "--raw", "--ignore-eos", "--prompt", "hello there", "--max-tokens", 500,
                "--live-events", *SMALL_CONTEXT]
        done = billow(*args, "--json", "--tokens")
        out = json.loads(done.stdout)
        events, per_rung = course(out["prompt_eval_count"], 500, [64, 128], 4 * 8)
        self.assertGreater(len(events), 4)
        self.assertEqual(json_events(out), events)
        self.assertEqual(text_events(done.stderr.decode()), events)
        self.assertEqual(done.stderr.decode().count("\n"), len(events))
        summary = out["summary"]
        self.assertEqual({rung["context"]: rung["tokens"] for rung in summary["tokens_per_context"]}, per_rung)
        self.assertEqual(sum(per_rung.values()), 500)
        kept = [event[3] for event in events if event[0] == "compaction"]
        self.assertEqual(summary["tokens_evaluated_again"], sum(kept))
        self.assertAlmostEqual(summary["tokens_evaluated_again_per_token"], sum(kept) / 500)
        self.assertEqual((summary["transitions"], summary["compactions"]), (1, len(kept)))
        self.assertEqual((summary["context"], summary["final_context"], summary["decode_tokens"]), (64, 128, 500))
        for event in out["events"]:
            self.assertGreaterEqual(event["ms"], 0)
            self.assertGreater(event["avg_decode_tps"], 0)
            if event["type"] == "compaction":
                self.assertEqual((event["anchor"], event["tokens"]), (out["prompt_eval_count"], 128))
                self.assertEqual(event["tokens_evaluated_again"], event["keep"])
                self.assertGreater(event["ms"], 0)

    def test_the_summary_has_the_numbers_of_the_json(self):
        args = ["generate", "--model", self.model, "--raw", "--ignore-eos", "--prompt", "hello there", "--max-tokens", 400,
                *SMALL_CONTEXT]
        out = json.loads(self.ok(*args, "--json"))
        done = billow(*args)
        self.assertEqual(done.stdout.decode().rstrip("\n"), out["response"].rstrip("\n"))
        before, found = split_summary(done.stderr)
        self.assertTrue(found, done.stderr.decode())
        self.assertEqual(text_events(before), json_events(out))
        self.assertEqual(before.count("\n"), len(out["events"]))
        wanted = out["summary"]
        numbers = [int(found[name]) for name in ("prompt", "context", "tokens", "final", "again")]
        self.assertEqual(numbers, [wanted[name] for name in ("prompt_tokens", "context", "decode_tokens", "final_context",
                                                             "tokens_evaluated_again")])
        self.assertEqual(found["reason"], "max-tokens")
        self.assertEqual(found["per_token"], f"{wanted['tokens_evaluated_again_per_token']:.3f}")
        self.assertEqual(sum(int(n) for n in re.findall(r"tokens=(\d+)", found["rungs"])), 400)
        self.assertEqual(found["transitions"].count("->"), wanted["transitions"])
        self.assertEqual(found["compactions"].count("drop="), wanted["compactions"])
        quiet = billow(*args, "--quiet")
        self.assertEqual((quiet.returncode, quiet.stderr, quiet.stdout), (0, b"", done.stdout))

    def test_the_summary_reports_a_run_without_events(self):
        done = billow("generate", "--model", self.model, "--raw", "--ignore-eos", "--prompt", "hi", "--max-tokens", 5)
        before, found = split_summary(done.stderr)
        self.assertEqual(before, "")
        self.assertEqual((found["transitions"], found["compactions"], found["again"]), (" (none)", " (none)", "0"))
        self.assertEqual((found["context"], found["final"], found["tokens"]), ("512", "512", "5"))

    def test_growth_changes_no_token(self):
        fixed = self.generate("--prompt", "hi", "--max-tokens", 300, "--tokens", "--context-sizes", 1024)
        grown = self.generate("--prompt", "hi", "--max-tokens", 300, "--tokens", "--context-sizes", "32,64,128,256,512")
        self.assertEqual(grown["tokens"], fixed["tokens"])
        self.assertEqual((len(fixed["events"]), len(grown["events"])), (0, 4))

    def test_reports_the_stop_reason(self):
        def reason(*args):
            return json.loads(self.ok("generate", "--model", self.model, "--raw", "--prompt", "hi", "--json", *args))["summary"]
        eos = json.loads(self.ok("inspect", self.model, "--json"))["metadata"]["tokenizer.ggml.eos_token_id"]["value"]
        self.assertEqual(reason("--max-tokens", 5, "--ignore-eos")["stop_reason"], "max-tokens")
        self.assertEqual(reason("--max-tokens", 500, "--logit-bias", f"{eos}=1000")["stop_reason"], "end-of-text")
        text = self.generate("--prompt", "hi", "--max-tokens", 40)["response"]
        self.assertEqual(reason("--max-tokens", 40, "--ignore-eos", "--stop", text[5:8])["stop_reason"], "stop-string")
        full = reason("--max-tokens", -2, "--ignore-eos", "--max-context-size", 100)
        self.assertEqual((full["stop_reason"], full["compactions"]), ("context-full", 0))
        self.assertEqual(full["prompt_tokens"] + full["decode_tokens"], 101)  # the last token needs no position
        stopped = reason("--overflow-policy", "stop", "--ignore-eos", "--max-context-size", 100)
        self.assertEqual((stopped["stop_reason"], stopped["decode_tokens"]), ("context-full", full["decode_tokens"]))
        nothing = reason("--max-tokens", 0)
        self.assertEqual((nothing["stop_reason"], nothing["decode_tokens"]), ("max-tokens", 0))

    def test_max_time_ends_an_answer_of_any_length(self):
        begin = time.monotonic()
        out = self.generate("--prompt", "hi", "--max-time", 0.7, *SMALL_CONTEXT)
        self.assertGreaterEqual(time.monotonic() - begin, 0.7)
        self.assertEqual((out["summary"]["stop_reason"], out["done_reason"]), ("max-time", "length"))
        self.assertGreater(out["eval_count"], 0)
        self.assertGreaterEqual(out["prompt_eval_duration"] + out["eval_duration"], 0.7e9)
        for limit in (1, 0, -2):
            out = self.generate("--prompt", "hi", "--max-time", 0.7, "--max-tokens", limit, *SMALL_CONTEXT)
            self.assertEqual(out["summary"]["stop_reason"], "max-time", limit)
            self.assertGreaterEqual(out["prompt_eval_duration"] + out["eval_duration"], 0.7e9)

    def test_live_events_are_on_by_default(self):
        args = ["generate", "--model", self.model, "--raw", "--ignore-eos", "--prompt", "hello there", "--max-tokens", 200,
                *SMALL_CONTEXT]
        out = json.loads(self.ok(*args, "--json"))
        for more, shown in (([], True), (["--no-live-events"], False), (["--quiet"], False), (["--json"], False),
                            (["--quiet", "--live-events"], True), (["--json", "--live-events"], True)):
            events = text_events(billow(*args, *more).stderr.decode())
            self.assertEqual(events, json_events(out) if shown else [], more)

    def test_uses_the_default_prompt(self):
        task = self.generate("--prompt", TASK, "--max-tokens", 8, "--tokens")
        for stdin in (b"", b"Something else"):
            out = self.generate("--max-tokens", 8, "--tokens", stdin=stdin)
            same = (out["prompt_eval_count"], out["tokens"]) == (task["prompt_eval_count"], task["tokens"])
            self.assertEqual(same, stdin == b"")

    def test_answers_repeat_with_the_same_seed(self):
        args = ["--prompt", "hi", "--max-tokens", 20, "--tokens", "--temperature", 1]
        first, second, other = self.generate(*args), self.generate(*args), self.generate(*args, "--seed", 7)
        self.assertEqual((first["seed"], first["tokens"]), (123, second["tokens"]))
        self.assertNotEqual(first["tokens"], other["tokens"])

    def test_uses_the_recommended_sampling_of_the_file(self):
        args = ["--prompt", "hi", "--max-tokens", 20, "--tokens"]
        def tokens(*more):
            return self.generate(*args, *more)["tokens"]
        greedy, free = tokens("--sampling-mode", "greedy"), tokens("--temperature", 1.5, "--top-k", 0, "--top-p", 1)
        self.assertEqual(greedy, tokens("--temperature", 0))
        self.assertNotEqual(greedy, free)
        wild = {"general.sampling.temp": 1.5, "general.sampling.top_k": 0.0, "general.sampling.top_p": 1.0}
        plain, self.model = self.model, with_metadata(self.model, self.dir / "recommends.gguf", wild)
        self.assertEqual(tokens(), free)
        self.assertEqual(tokens("--temperature", 0), greedy)
        self.assertEqual(tokens("--sampling-mode", "greedy"), greedy)
        self.model = with_metadata(plain, self.dir / "wrong.gguf", {"general.sampling.top_p": 3.0})
        self.refused("generate", "--model", self.model, "--prompt", "x", names=[self.model, "top_p", "3"])
        self.assertEqual(len(tokens("--top-p", 0.5)), 20)
        self.model = with_metadata(plain, self.dir / "no_count.gguf", {"general.sampling.top_k": 1e30})
        self.refused("generate", "--model", self.model, "--prompt", "x", names=[self.model, "top_k", "--top-k"])

    def test_the_template_gets_enable_thinking(self):
        template = "{% if enable_thinking %}Please think about it. {% endif %}{{ messages[0].content }}"
        source = sorted(self.dir.glob("llama-spm*.gguf"))[0]
        model = with_metadata(source, self.dir / "thinks.gguf", {"tokenizer.chat_template": template})
        def n_prompt(*args):
            out = self.ok("generate", "--model", model, "--prompt", "hi", "--max-tokens", 1, "--json", *args)
            return json.loads(out)["prompt_eval_count"]
        self.assertEqual(n_prompt(), n_prompt("--no-think"))
        self.assertGreater(n_prompt("--think"), n_prompt() + 5)

    def test_quiet_hides_log_lines(self):
        model = sorted(self.dir.glob("llama-spm*.gguf"))[0]  # a model without a chat template causes a log line
        args = ["generate", "--model", model, "--prompt", "hi", "--max-tokens", 2]
        self.assertIn(b"no chat template", billow(*args, env={"BILLOW_LOG": "info"}).stderr)
        self.assertEqual(billow(*args, "--quiet", env={"BILLOW_LOG": "info"}).stderr, b"")

    def test_a_trace_has_a_line_for_each_token(self):
        path = self.dir / "trace.csv"
        out = self.generate("--prompt", "hello there", "--max-tokens", 300, "--trace", path, *SMALL_CONTEXT)
        rows = list(csv.DictReader(path.read_text().splitlines()))
        self.assertEqual(list(rows[0]), ["n", "seconds", "held", "rung", "kv_in_use_bytes", "kv_granted_bytes",
                                          "accounted_bytes", "resident_bytes"])
        self.assertEqual([int(row["n"]) for row in rows], list(range(1, 301)))
        seconds = [float(row["seconds"]) for row in rows]
        self.assertEqual((seconds[0], seconds), (0.0, sorted(seconds)))
        self.assertLessEqual(seconds[-1] * 1e9, out["eval_duration"] + 1000)
        held = [int(row["held"]) for row in rows]
        drops = [before + 1 - after for before, after in zip(held, held[1:]) if after != before + 1]
        self.assertEqual(held[0], out["prompt_eval_count"])
        self.assertEqual(drops, [event["drop"] for event in out["events"] if event["type"] == "compaction"])
        for row in rows:
            self.assertLessEqual(int(row["held"]), int(row["rung"]))
            self.assertGreater(int(row["resident_bytes"]), 1 << 20)
        kv = [int(row["kv_in_use_bytes"]) for row in rows]
        self.assertEqual(max(kv), out["summary"]["peak_kv_bytes"])
        self.assertEqual((min(kv[:-1]) > 0, kv[-1]), (True, 0))
        self.refused("generate", "--model", self.model, "--prompt", "x", "--trace", self.dir / "no" / "t",
                     names=["trace", self.dir])

    def test_a_small_budget_ends_or_compacts_the_answer(self):
        path = self.dir / "budget.csv"
        args = ["--prompt", "hello there", "--max-tokens", 300, "--context-sizes", "64,512", "--max-context-size", 512]
        memory = self.generate(*args, "--trace", path)["memory"]
        first_rung = int(next(csv.DictReader(path.read_text().splitlines()))["kv_granted_bytes"])
        fixed = memory["weights_bytes"] + memory["scratch_granted_bytes"]
        plenty = ["generate", "--model", self.model, "--raw", "--ignore-eos", *args, "--json", "--memory"]
        short = billow(*plenty, fixed + first_rung, "--overflow-policy", "stop")
        self.assertEqual(short.returncode, 1)
        self.assertRegex(short.stderr.decode(), r"\Abillow: error: no memory for a context of 512 tokens: .*\n\Z")
        summary = json.loads(short.stdout)["summary"]
        self.assertEqual((summary["stop_reason"], summary["final_context"]), ("out-of-memory", 64))
        self.assertEqual(summary["prompt_tokens"] + summary["decode_tokens"], 65)
        compacted = json.loads(self.ok(*plenty, fixed + first_rung, "--overflow-policy", "refill"))
        self.assertEqual({event["type"] for event in compacted["events"]}, {"compaction"})
        self.assertEqual(compacted["eval_count"], 300)
        self.refused(*plenty, 1000, names=["weights", "1000 B"])
        self.refused(*plenty, memory["weights_bytes"] + 1000, names=["context of 64 tokens", "allow more memory"])

    def test_impossible_options_are_refused_before_loading(self):
        base = ["generate", "--model", self.model, "--prompt", "x"]
        env = {"BILLOW_ISA": "z80"}  # loading would fail with this name
        of_the_model = [
            (["--max-context-size", 4096], ["4096", "2048", self.model]),
            (["--max-context-size", 512, "--overflow-batch", 64, "--overflow-reserve-batches", 8], ["8", "64", "512"]),
            (["--context-sizes", "64,128", "--overflow-reserve-batches", 2], ["2", "64", "128"]),
            (["--overflow-reserve-batches", 2**62, "--overflow-batch", 2**62], [2**62]),
            (["--context-sizes", "3000,5000"], ["2048", "3000"]),
        ]
        of_the_options = [
            (["--max-context-size", 0], ["--max-context-size", "0"]),
            (["--max-context-size", -5], ["--max-context-size", "-5"]),
            (["--overflow-reserve-batches", -1], ["--overflow-reserve-batches", "-1"]),
            (["--overflow-batch", 0], ["--overflow-batch", "0"]),
            (["--max-time", 0], ["--max-time", "0"]),
            (["--max-time", -1.5], ["--max-time", "-1.5"]),
            (["--max-time", "nan"], ["--max-time", "nan"]),
            (["--max-tokens", -3], ["--max-tokens", "-3"]),
            (["--max-tokens", -2, "--overflow-policy", "refill"], ["-2", "refill"]),
            (["--context-sizes", "0,512"], ["--context-sizes", "0"]),
            (["--context-sizes", "512,-1"], ["--context-sizes", "-1"]),
            (["--memory", "2X"], ["--memory", "2X"]),
            (["--memory", ""], ["--memory"]),
            (["--memory", 0], ["--memory", "0"]),
        ]
        for status, cases in ((1, of_the_model), (2, of_the_options)):
            for args, names in cases:
                with self.subTest(args):
                    self.refused(*base, *args, names=names, status=status, env=env)
        for args in (["--overflow-policy", "burn"], ["--sampling-mode", "wild"], ["--context-sizes", "many"], ["--chat"]):
            self.assertEqual(billow(*base, *args, env=env).returncode, 2)
        for size in ("2G", "50%"):
            self.assertEqual(self.generate("--prompt", "x", "--memory", size, "--max-tokens", 2)["eval_count"], 2)

    def test_a_draft_model_changes_no_answer(self):
        draft = self.dir / "qwen2.gguf"
        for temperature in (0, 0.8):
            args = ["--prompt", "hello there", "--max-tokens", 60, "--seed", 3, "--tokens", "--temperature", temperature]
            plain = self.generate(*args, "--draft-max", 0)
            found = self.generate(*args, "--draft", draft)
            self.assertEqual(found["tokens"], plain["tokens"])
            self.assertGreater(found["summary"]["drafted_tokens"], 0)
        alone, both = (json.loads(self.ok("runner", "--describe", self.model, *more))["memory"]
                       for more in ([], ["--draft", draft]))
        self.assertGreater(both["weight_bytes"], alone["weight_bytes"])
        self.assertGreater(len(both["kv_groups"]), len(alone["kv_groups"]))
        self.assertEqual(json.loads(self.ok("runner", "--describe", self.model, "--draft", draft, "--draft-max", 0))["memory"],
                         json.loads(self.ok("runner", "--describe", self.model, "--draft-max", 0))["memory"])
        other = self.dir / "gemma3.gguf"
        self.refused("generate", "--model", self.model, "--prompt", "x", "--draft", other,
                     names=[self.model, other, "the same vocabulary"])

    def test_refuses_a_prompt_that_compaction_cannot_keep(self):
        self.refused("generate", "--model", self.model, "--raw", "--prompt", "a b c d e " * 30, "--max-context-size", 256,
                     names=["tokens", "context of 256"])

    def test_signals_end_an_answer_with_its_summary(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start("--raw", "--prompt", "hi", *SMALL_CONTEXT)
            self.assertTrue(process.stdout.read(1))
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 128 + number, errors)
            self.assertEqual(split_summary(errors)[1]["reason"], "interrupted")
        process = self.start("--raw", "--prompt", "hi", "--json", "--live-events", "--context-sizes", 64)
        self.assertTrue(process.stderr.readline().startswith(b"[compact]"))  # so it is generating
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(json.loads(out)["summary"]["stop_reason"], "interrupted")

    def test_a_second_signal_ends_the_program_immediately(self):
        process = self.start("--raw", "--prompt", "hi")
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        def waiting():
            return struct.unpack("i", fcntl.ioctl(process.stdout, termios.FIONREAD, b"\0" * 4))[0]
        last = 0
        while last < 4000 or waiting() != last:  # until the pipe is full and the program waits
            last = waiting()
            time.sleep(2)
        def is_pending():
            with open(f"/proc/{process.pid}/status") as status:
                masks = [int(line.split()[1], 16) for line in status if line.startswith(("SigPnd", "ShdPnd"))]
            return any(mask >> (signal.SIGINT - 1) & 1 for mask in masks)
        process.send_signal(signal.SIGINT)
        while is_pending():  # two pending signals would be merged
            time.sleep(0.01)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), -signal.SIGINT)

    def test_events_begin_on_new_lines_between_text(self):
        command = [ARGS.billow, "generate", "--model", str(self.model), "--raw", "--ignore-eos", "--prompt", "hi",
                   "--max-tokens", "300", "--live-events", *map(str, SMALL_CONTEXT)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        text = done.stdout.decode(errors="replace")
        events, _ = course(int(re.search(r"prompt_tokens=(\d+)", text)[1]), 300, [64, 128], 4 * 8)
        self.assertEqual(text_events(text), events)

    def on_terminal(self, *args, env=None):
        """Returns what the program writes to standard error on a terminal; standard output goes to /dev/null."""
        ours, theirs = pty.openpty()
        command = [ARGS.billow, "generate", "--model", str(self.model), "--raw", "--ignore-eos", "--prompt", "hi",
                   "--max-tokens", "200", *map(str, args)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs,
                                   env=dict(os.environ, **({"TERM": "xterm"} | (env or {}))))
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end is closed
                piece = b""
            if not piece:
                break
            shown += piece
        os.close(ours)
        self.assertEqual(process.wait(timeout=60), 0)
        return shown.decode().replace("\r\n", "\n")

    def test_a_terminal_gets_events_and_a_progress_line(self):
        shown = self.on_terminal(*SMALL_CONTEXT, env={"NO_COLOR": ""})
        dim = re.findall(r"\033\[2m(.*)\033\[0m\n", shown)
        events = text_events("\n".join(dim))
        self.assertEqual(events[0], ("transition", 64, 128, 64))
        self.assertEqual(len(events), len(dim))
        progress = re.findall(r"\r\033\[J\033\[\?7l(position \d+, ctx(?:64|128), \d+\.\d tokens/s, KV memory [\d.]+ [KM]iB)", shown)
        self.assertGreaterEqual(len(progress), 1)
        # Each progress line is erased before the next output.
        left = re.sub(r"position [^\r\n]*\r\033\[\?7h\r\033\[J", "", shown)
        self.assertNotIn("position", left)
        plain = self.on_terminal(*SMALL_CONTEXT, env={"NO_COLOR": "1"})
        self.assertNotIn("\033[2m", plain)
        self.assertEqual(text_events(plain.replace("\r\033[J", "\n")), events)
        dumb = self.on_terminal(*SMALL_CONTEXT, env={"TERM": "dumb"})
        self.assertNotIn("\033", dumb)
        self.assertEqual(text_events(dumb), events)
        self.assertEqual(self.on_terminal(*SMALL_CONTEXT, "--quiet"), "")
        self.assertEqual(text_events(self.on_terminal(*SMALL_CONTEXT, "--no-live-events").replace("\r\033[J", "\n")), [])

    def test_tr_4_a_chat_continues_beyond_its_context_and_reports_removed_messages(self):
        lines = b"".join(b"This is message number %d.\n" % i for i in range(9))
        args = ["generate", "--model", self.model, "--chat", "--ignore-eos", "--max-tokens", 90, "--live-events", *SMALL_CONTEXT]
        done = billow(*args, stdin=lines)
        errors = done.stderr.decode()
        self.assertEqual(done.returncode, 0, errors)
        self.assertGreaterEqual(done.stdout.count(b"\n\n"), 9)
        cuts = [tuple(map(int, cut)) for cut in re.findall(
            r"has (\d+) tokens, but at most (\d+) .* left out \((\d+) of (\d+)\), which leaves (\d+) tokens", errors)]
        self.assertTrue(cuts, errors)
        for before, limit, n_dropped, n_messages, after in cuts:
            self.assertGreater(before, limit)
            self.assertLessEqual(after, limit)
            self.assertTrue(0 < n_dropped < n_messages)
        self.assertGreaterEqual(len(text_events(errors)), 9)
        self.assertNotIn("Summary", errors)

    def test_a_chat_on_a_terminal_has_the_line_editor(self):
        with tempfile.TemporaryDirectory() as home:
            job = Job({"HOME": home}, "generate", "--model", str(self.model), "--chat", "--ignore-eos", "--max-tokens", "-1", "--quiet")
            self.addCleanup(job.close)
            job.wait_for(">>> ")
            job.send("hexllo\x1b[D\x1b[D\x1b[D\x7f\r")  # the cursor goes 3 to the left, then backspace deletes the x
            job.wait_for("hello")
            n_shown = len(job.shown)
            job.until(lambda: len(job.shown) > n_shown + 40, "an answer")
            job.send("\x03")
            job.wait_for(">>> ")
            job.send("\x03")
            job.wait_for("Use Ctrl + d or /bye to exit.")
            job.wait_for(">>> ")
            job.send("\x1b[A")  # the last message again
            job.wait_for("hello")
            job.send("\x15/bye\r")
            self.assertEqual(job.wait(), 0)
            self.assertTrue(job.has_own_modes())
            self.assertEqual(pathlib.Path(home, ".ollama/history").read_text(), "hello\n")

    def test_a_message_that_is_too_long_does_not_end_a_chat(self):
        with tempfile.TemporaryDirectory() as home:
            job = Job({"HOME": home}, "generate", "--model", str(self.model), "--chat", "--ignore-eos", "--max-tokens", "20", "--quiet",
                      *map(str, SMALL_CONTEXT))
            self.addCleanup(job.close)
            job.wait_for(">>> ")
            job.send("long " * 600 + "\r")
            job.wait_for("shorten them or allow a larger context")
            job.wait_for(">>> ")
            job.send("hello\r")
            job.wait_for("hello")
            job.wait_for(">>> ")
            job.send("/bye\r")
            self.assertEqual(job.wait(), 0)

    def test_a_signal_ends_an_answer_of_a_chat_but_not_the_chat(self):
        process = self.start("--chat")
        for message in (b"hello\n", b"again\n"):
            process.stdin.write(message)
            process.stdin.flush()
            self.assertTrue(process.stdout.read(1))
            process.send_signal(signal.SIGINT)
            shown = b""
            while not shown.endswith(b"\n\n"):
                piece = process.stdout.read1()
                self.assertTrue(piece, process.stderr)
                shown += piece
        out, errors = process.communicate(b"/bye\n", timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        self.assertNotIn(b"error", errors)  # a warning about removed messages is possible after a long answer


if __name__ == "__main__":
    main()
