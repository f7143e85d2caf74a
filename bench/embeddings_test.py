"""The parts of bench/embeddings that measure nothing."""

import pathlib
import re
import sys
import unittest
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from comparison import embedding, embedding_plot  # noqa: E402


class Corpus(unittest.TestCase):
    def test_is_the_same_each_time_and_of_the_wanted_lengths(self):
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

    def test_percentiles_are_of_the_slowest(self):
        self.assertEqual(embedding.percentile([5.0, 1.0, 9.0], 0.99), 9.0)
        self.assertEqual(embedding.percentile(list(range(1000)), 0.99), 990)


class Plot(unittest.TestCase):
    def test_draws_a_line_for_each_contestant_and_panel(self):
        runs = {"billow": [{"texts_per_second": 400.0, "p50_ms": 2.0, "p99_ms": 3.0}], "llama.cpp": [{"texts_per_second": 40.0, "p50_ms": 20.0, "p99_ms": 0.0}]}
        record = {"n_tokens": 4300, "n_texts": 100, "threads": 2, "machine": {"processor": "A & B"}, "rows": [
            {"weights": "f16", "case": f"{n} client{'s' * (n > 1)}, 32 a request", "runs": runs} for n in (1, 4)] + [
            {"weights": "f16", "case": "1 a request beside bulk", "runs": runs}]}
        tree = xml.fromstring(embedding_plot.svg(record, (1, 4)))
        lines = [line for line in tree.iter() if line.tag.endswith("polyline")]
        self.assertEqual(len(lines), 2 * 2 + 2)
        self.assertEqual(embedding_plot.decades([0.2, 30]), [0.1, 1.0, 10.0, 100.0])


if __name__ == "__main__":
    unittest.main()
