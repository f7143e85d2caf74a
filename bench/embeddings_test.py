"""Tests the parts of bench/embeddings that measure nothing."""

import contextlib
import io
import pathlib
import random
import re
import runpy
import sys
import unittest
import unittest.mock
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from comparison import embedding, embedding_plot, embedding_soak  # noqa: E402

BENCH = runpy.run_path(str(pathlib.Path(__file__).resolve().parent / "embeddings"), run_name="bench")


class Corpus(unittest.TestCase):
    def test_is_repeatable_with_expected_lengths(self):
        words = [f"{'abcdefgh'[i % 8]}{'mnopqrst'[i // 8 % 8]}{'uvwxyz'[i // 64 % 6]}e" for i in range(384)] + ["[CLS]", "##ing", "a"]
        texts = embedding.corpus(words)
        self.assertEqual(texts, embedding.corpus(words))
        lengths = sorted(len(text.split()) for text in texts)
        self.assertEqual(len(texts), embedding.N_TEXTS)
        self.assertTrue(4 <= lengths[0] and lengths[-1] <= 220 and 24 <= lengths[len(lengths) // 2] <= 36, lengths[::128])
        self.assertTrue(all(re.fullmatch(r"[A-Z][a-z ]+\.", text) for text in texts))


class Slices(unittest.TestCase):
    def test_gives_each_text_once(self):
        take = embedding.slices(list(range(70)), 32)
        self.assertEqual([len(part) for part in iter(take, None)], [32, 32, 6])
        self.assertIsNone(take())

    def test_percentiles(self):
        self.assertEqual(embedding.percentile([5.0, 1.0, 9.0], 0.99), 9.0)
        self.assertEqual(embedding.percentile(list(range(1000)), 0.99), 990)


class Fairness(unittest.TestCase):
    METRICS = """# TYPE billow_embed_inference_seconds histogram
billow_embed_inference_seconds_bucket{model="a",le="+Inf"} 7
billow_embed_inference_seconds_sum{model="a"} 1.5
billow_embed_inference_seconds_count{model="a"} 7
billow_embed_inference_seconds_sum{model="b"} 0.5
billow_embed_batch_tokens_sum{model="a"} 700
billow_embed_batch_tokens_sum{model="b"} 100
"""

    def test_passes_sum_over_all_models(self):
        self.assertEqual(embedding.passes_of(self.METRICS), (800.0, 2.0))
        self.assertEqual(embedding.passes_of("# nothing\n"), (0.0, 0.0))

    def test_PG_4_bound_is_two_passes_and_own_time(self):
        class Server:
            """Responds immediately. Each pass takes 10 ms."""

            def __init__(self):
                self.asked, self.n = [], 0

            def connect(self):
                return None

            def ask(self, texts, _connection=None, client=None):
                self.asked.append((client, len(texts)))
                return 200, b""

            def passes(self):
                self.n += 4096
                return self.n, self.n / 204800

            def resident(self):
                return 1 << 20

        server = Server()
        found = embedding.fairness(server, [str(i) for i in range(100)], n_single=20)
        self.assertAlmostEqual(found["pass_ms"], 10.0)
        self.assertAlmostEqual(found["bound_ms"], 20.0 + found["alone"]["p50_ms"])
        self.assertEqual(server.asked.count(("single", 1)), 40)
        self.assertGreater(server.asked.count(("bulk", 64)), 0)

    def test_time_above_the_bound_is_reported(self):
        times = {"p50_ms": 2.0, "p99_ms": 3.0}
        run = {"alone": times, "beside": {"p50_ms": 12.0, "p99_ms": 21.0}, "pass_ms": 10.0, "bound_ms": 22.0}
        self.assertTrue(BENCH["fairness_line"]("f16", [run]).endswith("p99 within"))
        self.assertTrue(BENCH["fairness_line"]("f16", [run | {"bound_ms": 20.0}]).endswith("p99 ABOVE"))


class Packing(unittest.TestCase):
    def test_PG_2_short_texts_gain_and_long_texts_do_not_lose(self):
        self.assertEqual([(n_tokens, min_gain) for n_tokens, _, min_gain in BENCH["PACKING"]], [(16, 1.2), (512, 0.98)])
        line = BENCH["packing_line"]
        self.assertTrue(line("f16", 16, 1.2, [{"packed": 120.0, "single": 100.0}]).endswith("1.20x, at least 1.2: reached"))
        self.assertTrue(line("f16", 16, 1.2, [{"packed": 119.0, "single": 100.0}]).endswith("BELOW"))

    def test_texts_have_two_words_less_than_tokens(self):
        texts = embedding.texts_of_tokens(["word", "other", "[CLS]", "##ing"], 16, 5)
        self.assertEqual([len(text.split()) for text in texts], [14] * 5)


class Soak(unittest.TestCase):
    def samples(self, server_bytes):
        return [{"seconds": 60.0 * i, "texts": i, "server_bytes": n, "runner_bytes": 100 << 20} for i, n in enumerate(server_bytes, 1)]

    def test_growth_counts_from_the_settled_state(self):
        rising = self.samples([10.0] * 10 + [20.0] * 10 + [21.0] * 80)
        self.assertAlmostEqual(embedding_soak.growth(rising, "server_bytes"), 0.05)
        self.assertTrue(embedding_soak.summary(rising).endswith("server +5.0 %, runner +0.0 %: NOT flat within 2 %"))
        self.assertTrue(embedding_soak.summary(self.samples([10.0, 20.0, 20.0, 20.0])).endswith("flat within 2 %"))
        self.assertEqual(embedding_soak.summary(rising[:1]), "too short to tell")

    def test_requests_of_every_kind(self):
        chance, texts = random.Random(1), [f"text {i}" for i in range(200)]
        bodies = {kind: embedding_soak.body_of(kind, chance, texts, ["long"], "m") for kind in embedding_soak.KINDS}
        self.assertIn(bodies["one"]["input"], texts)
        self.assertEqual(bodies["long"]["input"], ["long"])
        self.assertTrue(1 < len(bodies["few"]["input"]) < 9 and 32 <= len(bodies["many"]["input"]) <= 128)
        self.assertEqual(bodies["base64"]["encoding_format"], "base64")
        self.assertTrue(all(isinstance(token, int) for token in bodies["ids"]["input"][0]))


class Arguments(unittest.TestCase):
    def parsed(self, *arguments):
        with unittest.mock.patch.object(sys, "argv", ["embeddings", *arguments]):
            return BENCH["parse_args"]()

    def test_PG_5_clients_option(self):
        names = [name for name, *_ in BENCH["cases"](self.parsed("--clients", "256,1,8"))]
        self.assertEqual(names[:3], ["1 client, 32 a request", "8 clients, 32 a request", "256 clients, 32 a request"])
        self.assertEqual(len(list(BENCH["cases"](self.parsed("--quick")))), 2)
        for wrong in ("0", "a", ""):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                self.parsed("--clients", wrong)


class Plot(unittest.TestCase):
    def test_draws_a_line_per_program_and_panel(self):
        runs = {"billow": [{"texts_per_second": 400.0, "p50_ms": 2.0, "p99_ms": 3.0}], "llama.cpp": [{"texts_per_second": 40.0, "p50_ms": 20.0, "p99_ms": 0.0}]}
        record = {"n_tokens": 4300, "n_texts": 100, "threads": 2, "machine": {"processor": "A & B"}, "rows": [
            {"weights": "f16", "case": f"{n} client{'s' * (n > 1)}, 32 a request", "runs": runs} for n in (1, 4)] + [
            {"weights": "f16", "case": "1 a request with bulk", "runs": runs}]}
        tree = xml.fromstring(embedding_plot.svg(record, (1, 4)))
        lines = [line for line in tree.iter() if line.tag.endswith("polyline")]
        self.assertEqual(len(lines), 2 * 2 + 2)
        self.assertEqual(embedding_plot.decades([0.2, 30]), [0.1, 1.0, 10.0, 100.0])


if __name__ == "__main__":
    unittest.main()
