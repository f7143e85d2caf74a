"""Tests the commands. Valid input gives the documented output. Invalid input gives one clear line and status 1; wrong usage has status 2."""
import json
import os
import subprocess

from program import ARGS, ProgramTest, billow, main


class Commands(ProgramTest):
    def test_version_names_commit_compiler_and_kernels(self):
        text = self.ok("--version").decode()
        for word in ("billow", "commit", "kernels"):
            self.assertIn(word, text)
        self.assertRegex(text, "GCC|Clang")
        self.assertIn("kernels scalar", self.ok("--version", env={"BILLOW_ISA": "scalar"}).decode())

    def test_unknown_isa_is_an_error(self):
        self.refused("generate", "--model", self.model, "--prompt", "x", names=["BILLOW_ISA", "z80", "scalar"],
                     env={"BILLOW_ISA": "z80"})

    def test_forced_isa_is_the_one_in_use(self):
        """Every known ISA either runs and is reported, or is refused by name."""
        text = billow("--version", env={"BILLOW_ISA": "z80"}).stderr.decode()
        names = text.partition("one of ")[2].strip().split(", ")
        self.assertEqual(names[-1], "scalar")
        for name in names:
            env = {"BILLOW_ISA": name}
            command = ("bench", "--model", self.model, "-p", 9, "-n", 2, "-t", 1, "-r", 1, "--json")
            with self.subTest(name):
                if "not supported" in billow("--version", env=env).stderr.decode():
                    self.refused(*command, names=["BILLOW_ISA", name], env=env)
                    continue
                self.assertTrue(self.ok("--version", env=env).decode().strip().endswith(f"kernels {name}"))
                self.assertEqual(json.loads(self.ok(*command, env=env))["kernels"], name)

    def test_every_command_has_help(self):
        for command in ("generate", "inspect", "tokenize", "detokenize", "render", "perplexity", "logits", "bench"):
            self.assertIn(b"--", self.ok(command, "--help"))

    def test_usage_errors_have_status_2(self):
        self.assertEqual(billow("generate").returncode, 2)
        self.assertEqual(billow("generate", "--model", self.model, "--frobnicate").returncode, 2)

    def test_generate_reports_counts_and_durations(self):
        out = json.loads(self.ok("generate", "--model", self.model, "--prompt", "hello there", "--raw", "--json", "--tokens",
                                 "--num-predict", 8, "--ignore-eos", "--temperature", 0, "--logprobs", 3))
        self.assertEqual(out["eval_count"], 8)
        self.assertEqual(len(out["tokens"]), 8)
        self.assertEqual(out["done_reason"], "length")
        self.assertGreater(out["prompt_eval_count"], 0)
        for field in ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"):
            self.assertGreater(out[field], 0)
        self.assertEqual(out["memory"]["file_bytes"], os.path.getsize(self.model))
        self.assertGreaterEqual(out["memory"]["packed_bytes"], 0)
        for field in ("kv_reserved_bytes", "kv_max_bytes", "scratch_bytes"):
            self.assertGreater(out["memory"][field], 0, field)
        for token, entry in zip(out["tokens"], out["logprobs"]):
            self.assertEqual(entry["token"], token)
            self.assertEqual(entry["top"][0]["token"], token)
            self.assertEqual(len(entry["top"]), 3)

    def test_nc_28_prompt_count_includes_special_tokens_of_the_template(self):
        def counted(*args):
            return json.loads(self.ok("generate", "--model", self.model, "--json", "--max-tokens", 1, *args))["prompt_eval_count"]

        def tokens(text):
            return json.loads(self.ok("tokenize", "--model", self.model, "--json", stdin=text))

        chat = {"messages": [{"role": "user", "content": "hello there"}], "add_generation_prompt": True}
        rendered = self.ok("render", "--model", self.model, stdin=json.dumps(chat).encode())
        self.assertEqual(counted("--prompt", "hello there"), len(tokens(rendered)))
        self.assertEqual(counted("--prompt", "hello there", "--raw"), len(tokens(b"hello there")))
        self.assertIn(1, tokens(rendered))  # <|im_start|>
        self.assertGreater(len(tokens(rendered)), len(tokens(b"hello there")))

    def test_render_refuses_wrong_variables(self):
        for text, names in ((b"{", ["standard input: not JSON at byte 2"]), (b'{"a":1,}', ["not JSON at byte 8"]),
                            (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", ["nested too deep"])):
            self.refused("render", "--model", self.model, stdin=text, names=names)

    def test_generate_streams_the_text_of_its_json(self):
        args = ["generate", "--model", self.model, "--prompt", "hello there", "--raw", "--num-predict", 20, "--seed", 5]
        text = json.loads(self.ok(*args, "--json"))["response"]
        self.assertEqual(self.ok(*args).decode().rstrip("\n"), text.rstrip("\n"))
        self.assertEqual(self.ok(*args[:3], "--raw", "--num-predict", 20, "--seed", 5, stdin=b"hello there").decode().rstrip("\n"),
                         text.rstrip("\n"))

    def test_the_same_seed_gives_the_same_answer_with_one_thread_or_two(self):
        args = ["generate", "--model", self.model, "--prompt", "abc", "--raw", "--json", "--tokens", "--num-predict", 30,
                "--ignore-eos", "--temperature", 1, "--seed", 11]
        first = json.loads(self.ok(*args, "--threads", 1))["tokens"]
        self.assertEqual(json.loads(self.ok(*args, "--threads", 2))["tokens"], first)

    def test_tokens_survive_the_round_trip(self):
        text = "Grüße, 世界! \U0001f600\n  two  spaces"
        ids = self.ok("tokenize", "--model", self.model, "--no-special", stdin=text.encode())
        self.assertEqual(self.ok("detokenize", "--model", self.model, stdin=ids).decode().rstrip("\n"), text)

    def test_perplexity_and_bench_report_json(self):
        text = self.dir / "text"
        text.write_text("The quick brown fox jumps over the lazy dog. " * 30)
        out = json.loads(self.ok("perplexity", "--model", self.model, "--file", text, "--ctx", 64, "--json"))
        self.assertGreater(out["perplexity"], 1)
        out = json.loads(self.ok("bench", "--model", self.model, "-p", 64, "-n", 8, "-d", 32, "-t", 2, "-r", 2, "--json"))
        self.assertGreater(out["prompt"]["tokens_per_second"], 0)
        self.assertGreater(out["generation"]["tokens_per_second"], 0)
        out = json.loads(self.ok("bench", "--model", self.model, "-p", 40, "-n", 8, "--parallel", 10, "-t", 2, "-r", 1, "--json"))
        self.assertEqual((out["parallel"], out["generation"]["depth"]), (10, 40))
        self.assertGreater(out["generation"]["tokens_per_second"], 0)
        self.refused("bench", "--model", self.model, "-p", 1024, "-n", 1022, "--parallel", 2, names=["context", "2048"])

    def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(self):
        self.refused("generate", "--model", self.model, "--raw", "--prompt", "word " * 3000, names=["tokens", "context of 2048"])

    def test_errors_name_files_that_are_not_models(self):
        secret = self.dir / "secret.gguf"
        secret.write_bytes(b"GGUF")
        secret.chmod(0)
        empty = self.dir / "empty.gguf"
        empty.write_bytes(b"")
        text = self.dir / "text.gguf"
        text.write_bytes(b"this is not a model, only text that goes on a while")
        cut = self.dir / "cut.gguf"
        cut.write_bytes(self.model.read_bytes()[:-1000])
        for command in (["generate", "--prompt", "x"], ["tokenize"], ["bench"], ["perplexity", "--file", text], ["logits", "--tokens", "1"]):
            for path in (self.dir / "nothing.gguf", self.dir, empty, text, cut):
                self.refused(command[0], "--model", path, *command[1:], names=[path])
        for path in (self.dir / "nothing.gguf", self.dir, empty, text, cut):
            self.refused("inspect", path, names=[path])
        if os.geteuid() != 0:
            self.refused("inspect", secret, names=[secret, "Permission denied"])

    def test_error_names_a_file_without_read_permission(self):
        secret = self.dir / "unreadable.gguf"
        secret.write_bytes(self.model.read_bytes())
        secret.chmod(0)
        if os.geteuid() == 0:  # root may read everything, so the test runs as the user nobody
            self.dir.chmod(0o755)
            command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", ARGS.billow, "inspect", str(secret)]
            done = subprocess.run(command, capture_output=True)
            if b"setpriv" in done.stderr or done.returncode == 126:
                self.skipTest("cannot run as another user here: " + done.stderr.decode().strip())
        else:
            done = billow("inspect", secret)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Permission denied", done.stderr.decode())
        self.assertIn(str(secret), done.stderr.decode())

    def test_errors_name_options_out_of_range(self):
        base = ["generate", "--model", self.model, "--prompt", "x"]
        self.refused(*base, "--top-p", 3, names=["top_p", "3"], status=2)
        self.refused(*base, "--mirostat", 9, names=["mirostat", "9"], status=2)
        self.refused(*base, "--logit-bias", "rubbish", names=["--logit-bias", "rubbish"], status=2)
        self.refused(*base, "--logit-bias", "99999999=1", names=["99999999"])
        self.refused("detokenize", "--model", self.model, "99999999", names=["99999999"])

    def test_negative_counts_are_wrong_usage(self):
        text = self.dir / "text"
        text.write_text("some text")
        for command in (["bench", "-p"], ["bench", "-n"], ["perplexity", "--file", text, "--ctx"], ["logits", "--text", "a", "--max-context"],
                        ["imatrix", "--file", text, "--output", self.dir / "out", "--chunks"], ["generate", "--prompt", "x", "--logprobs"],
                        ["generate", "--in", text, "--jobs"]):
            with self.subTest(command):
                self.refused(command[0], "--model", self.model, *command[1:], -1, names=["'-1' is not a whole number"], status=2)
        self.refused("embed", "--model", "m", "--batch", -1, "a", names=["--batch: '-1' is not a whole number"], status=2)

    def test_wrong_usage_that_commands_find_has_status_2(self):
        generate = ["generate", "--model", self.model, "--prompt", "x"]
        for args, names in (([*generate, "--max-tokens", -3], ["--max-tokens", "-3"]),
                            ([*generate, "--max-time", 0], ["--max-time", "0"]),
                            ([*generate, "--max-context", 0], ["--max-context-size", "0"]),
                            ([*generate, "--memory", "xx"], ["--memory", "'xx'"]),
                            (["convert"], ["give the folder"]),
                            (["quantize", self.model, "foo"], ["unknown type 'foo'"])):
            with self.subTest(args):
                self.refused(*args, names=[*names, f"See 'billow {args[0]} --help'."], status=2)
        done = billow("quantize", "--progress-json", self.model, "foo")
        self.assertEqual((done.returncode, json.loads(done.stderr)["code"]), (2, "invalid_input"))

    def test_imatrix_checks_its_output_before_the_measurement(self):
        text = self.dir / "long text"
        text.write_text("word " * 3000)
        path = self.dir / "no" / "m"
        done = billow("imatrix", "--model", self.model, "--file", text, "--output", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot create {path}", done.stderr.decode())
        short = self.dir / "short text"
        short.write_text("a")  # the measurement would refuse it
        self.refused("imatrix", "--model", self.model, "--file", short, "--output", path, names=[path])

    def test_accepts_invalid_utf8(self):
        self.ok("generate", "--model", self.model, "--raw", "--num-predict", 2, stdin=b"\xff\xfe abc \xe2\x82")
        ids = self.ok("tokenize", "--model", self.model, stdin=b"\xff\xfe\x80")
        self.assertTrue(ids.strip())


if __name__ == "__main__":
    main()
