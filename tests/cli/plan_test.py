"""billow plan, compared with the rules in plain Python and with real runs."""
import json
import math
import os
import random

from program import ProgramTest, billow, main


def course(top, prompt, predict, policy, reserve, batch):
    """Simulates a run token by token. Returns transitions, compactions, end and generated tokens."""
    ladder = [rung for rung in (512 << i for i in range(30)) if rung < top] + [top]
    rung = next((r for r in ladder if r > prompt), top)
    held, generated, transitions, compactions = prompt, 1, [], []
    while generated < predict:
        if held == rung and rung < top:
            transitions.append((rung, ladder[ladder.index(rung) + 1], held, generated))
            rung = transitions[-1][1]
        elif held == top:
            if policy == "stop" or prompt > top // 2:
                return transitions, compactions, "context full", generated
            freed = min(max(64, top // 16), top - top // 2)
            keep = max(1, min(top - freed, prompt + reserve * batch))
            compactions.append((generated, top - keep, keep))
            held = keep
        held += 1
        generated += 1
    return transitions, compactions, "done", generated


class Plan(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.models = sorted(cls.dir.glob("*.gguf"))
        cls.gemma = sorted(cls.dir.glob("gemma3*.gguf"))[0]

    def plan(self, *args, model=None):
        return json.loads(self.ok("plan", "--model", model or self.model, "--json", *args))

    def test_the_course_follows_the_rules(self):
        rules = random.Random(3)
        for i in range(60):
            top = rules.choice([100, 128, 600, 1024, 2048])
            policy = rules.choice(["refill", "shift", "stop"])
            prompt = rules.randint(1, top // 2 if policy != "stop" else top)
            predict = rules.choice([1, 10, 500, 5000, 20000])
            reserve, batch = rules.randint(0, 12), rules.randint(1, 64)
            with self.subTest(top=top, prompt=prompt, predict=predict, policy=policy, reserve=reserve, batch=batch):
                out = self.plan("--prompt-tokens", prompt, "--num-predict", predict, "--max-context-size", top,
                                "--overflow-policy", policy, "--overflow-reserve-batches", reserve, "--overflow-batch", batch)
                transitions, compactions, end, generated = course(top, prompt, predict, policy, reserve, batch)
                self.assertEqual([tuple(t.values()) for t in out["transitions"]], transitions)
                self.assertEqual(out["compactions"]["count"], len(compactions))
                self.assertEqual((out["end"], out["generated_tokens"]), (end, generated))
                if not compactions:
                    continue
                first, drop, keep = compactions[0]
                self.assertEqual([out["compactions"][k] for k in ("first_at_generated", "every_generated", "drop", "keep")],
                                 [first, drop, drop, keep])
                self.assertEqual([c[0] for c in compactions], [first + i * drop for i in range(len(compactions))])
                again = len(compactions) * keep if policy == "refill" else 0
                self.assertEqual(out["compactions"]["evaluated_again"], again)

    def test_the_context_is_sized_by_the_seed_formula(self):
        for prompt, predict in ((1, 1), (1000, 24), (1000, 25), (2040, 3), (42, -1), (42, -2), (2048, -1), (300, 0)):
            with self.subTest(prompt=prompt, predict=predict):
                answer = min(predict if predict >= 0 else max(2048 - prompt, 1024), 2048)
                for parallel in (1, 7):
                    args = ("--prompt-tokens", prompt, "--num-predict", predict, "--parallel", parallel)
                    out = self.plan(*args, "--overflow-policy", "stop")
                    self.assertEqual(out["answer_tokens_reserved"], answer)
                    self.assertEqual(out["context"], min(math.ceil((prompt + answer) / 1024) * 1024, 2048))

    def test_an_answer_without_limit_has_a_period(self):
        out = self.plan("--prompt-tokens", 42)
        self.assertEqual((out["end"], out["generated_tokens"], out["compactions"]["count"]), ("model", None, None))
        self.assertEqual(out["compactions"]["first_at_generated"], 2048 - 42 + 1)
        self.assertEqual(out["compactions"]["every_generated"], 2048 - 42 - 9 * 64)
        filled = self.plan("--prompt-tokens", 42, "--num-predict", -2)
        self.assertEqual((filled["end"], filled["generated_tokens"]), ("context full", 2048 - 42 + 1))
        half = self.plan("--prompt-tokens", 1025)  # too long for a compaction
        self.assertEqual((half["end"], half["compactions"]["count"]), ("context full", 0))
        nothing = self.plan("--prompt-tokens", 42, "--num-predict", 0)
        self.assertEqual((nothing["end"], nothing["generated_tokens"], nothing["transitions"]), ("done", 0, []))

    def test_num_ctx_is_ignored_unless_it_caps(self):
        plain = self.plan("--prompt-tokens", 42)
        ignored = self.plan("--prompt-tokens", 42, "--num-ctx", 512)
        self.assertTrue(ignored.pop("num_ctx_ignored"))
        self.assertFalse(plain.pop("num_ctx_ignored"))
        self.assertEqual(ignored, plain)
        capped = self.plan("--prompt-tokens", 42, "--num-ctx", 512, "--num-ctx-policy", "cap")
        self.assertEqual((capped["context"], capped["last_rung"], capped["max_context"]), (512, 512, 512))
        text = billow("plan", "--model", self.model, "--prompt-tokens", 42, "--num-ctx", 512).stdout.decode()
        self.assertIn("512 is ignored", text)

    def test_other_rungs(self):
        out = self.plan("--prompt-tokens", 90, "--num-predict", 500, "--context-sizes", "100,300,900,5000")
        self.assertEqual([t["to"] for t in out["transitions"]], [300, 900])

    def test_em_2_memory_is_the_sum_of_its_parts_and_n_is_not_multiplied(self):
        for model in self.models:
            for kv_type in ("f16", "q8_0", "q4_0"):
                one = self.plan("--prompt-tokens", 42, "--kv-type", kv_type, model=model)["memory"]
                many = self.plan("--prompt-tokens", 42, "--kv-type", kv_type, "--parallel", 5, model=model)["memory"]
                self.assertEqual(one["file_bytes"], os.path.getsize(model))
                self.assertEqual([r["kv_bytes"] for r in one["rungs"]], [r["kv_bytes"] for r in many["rungs"]])
                for memory, n in ((one, 1), (many, 5)):
                    for when, rung in (("start", memory["rungs"][0]), ("max", memory["rungs"][-1])):
                        self.assertEqual(rung["kv_bytes_parallel"], n * rung["kv_bytes"])
                        parts = memory["mapped_bytes"] + memory["packed_bytes"] + memory["scratch_bytes_" + when]
                        self.assertEqual(memory["total_bytes_" + when], parts + rung["kv_bytes_parallel"])
                if one["kv_bytes_per_token_in_windows"] == 0:
                    for rung in one["rungs"]:
                        self.assertEqual(rung["kv_bytes"], rung["context"] * one["kv_bytes_per_token"])
        self.assertGreater(self.plan("--prompt-tokens", 42, model=self.gemma)["memory"]["kv_bytes_per_token_in_windows"], 0)

    def test_the_budget(self):
        max_bytes = self.plan("--prompt-tokens", 42)["memory"]["total_bytes_max"]
        self.assertTrue(self.plan("--prompt-tokens", 42, "--memory", max_bytes)["memory"]["fits"])
        self.assertFalse(self.plan("--prompt-tokens", 42, "--memory", max_bytes - 1)["memory"]["fits"])
        memory = self.plan("--prompt-tokens", 42)["memory"]
        self.assertAlmostEqual(memory["budget_bytes"], 0.8 * memory["usable_bytes"], delta=4096)
        done = billow("plan", "--model", self.model, "--prompt-tokens", 42, "--memory", max_bytes - (1 << 20))
        self.assertIn("1.0 MiB too little", done.stdout.decode())

    def test_a_run_takes_the_planned_memory(self):
        for model in (self.model, self.gemma):
            done = billow("generate", "--model", model, "--raw", "--json", "--ignore-eos", "--prompt", "word " * 120,
                          "--num-predict", 700)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            run = json.loads(done.stdout)
            plan = self.plan("--prompt-tokens", run["prompt_eval_count"], "--num-predict", 700, model=model)
            self.assertEqual(plan["generated_tokens"], run["eval_count"])
            self.assertEqual(plan["memory"]["packed_bytes"], run["memory"]["packed_bytes"])
            self.assertEqual(plan["memory"]["packed_bytes"] + plan["memory"]["mapped_bytes"], run["memory"]["weights_bytes"])
            self.assertLessEqual(run["memory"]["kv_max_bytes"], plan["memory"]["rungs"][-1]["kv_bytes"])
            self.assertGreater(run["memory"]["kv_max_bytes"], plan["memory"]["rungs"][0]["kv_bytes"] // 2)
            self.assertLessEqual(run["memory"]["scratch_bytes"], plan["memory"]["scratch_bytes_max"])

    def test_errors_name_invalid_values(self):
        plan = ["plan", "--model", self.model]
        self.refused(*plan, "--prompt-tokens", 0, names=["--prompt-tokens", 0])
        self.refused(*plan, "--prompt-tokens", -5, names=["--prompt-tokens", -5])
        self.refused(*plan, "--prompt-tokens", 2049, names=["2049 tokens", "context of 2048"])
        self.refused(*plan, "--prompt-tokens", 1025, "--num-predict", 5000, names=["1025 tokens", "context of 2048"])
        self.refused(*plan, "--prompt-tokens", 42, "--num-predict", -3, names=["num_predict", -3])
        self.refused(*plan, "--prompt-tokens", 42, "--parallel", 0, names=["--parallel", 0])
        self.refused(*plan, "--prompt-tokens", 42, "--context-sizes", "512,0", names=["--context-sizes", 0])
        self.refused(*plan, "--prompt-tokens", 42, "--context-sizes", "4096", names=["2048", "4096"])
        self.refused(*plan, "--prompt-tokens", 42, "--max-context-size", -1, names=["--max-context-size", -1])
        self.refused(*plan, "--prompt-tokens", 42, "--overflow-batch", 0, names=["--overflow-batch", 0])
        for size in ("much", "2Q", "101%", ""):
            self.refused(*plan, "--prompt-tokens", 42, "--memory", size, names=[f"'{size}'"])
        self.assertEqual(billow("plan", "--model", self.model).returncode, 2)
        missing = billow("plan", "--model", self.dir / "nothing.gguf", "--prompt-tokens", 1)
        self.assertEqual(missing.returncode, 1)
        self.assertIn("nothing.gguf", missing.stderr.decode())
        self.assertIn(b"--prompt-tokens", billow("plan", "--help").stdout)


if __name__ == "__main__":
    main()
