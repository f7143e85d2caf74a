"""Checks the figures of README.md: each is in docs/performance.md, and plot and table are made of them."""

import json
import re
import subprocess
import unittest

from blocks import ROOT


def numbers_of(row):
    """Returns the whole numbers of the cells of a table's row, without ratios such as 5.6x."""
    cells = [cell.strip() for cell in row.split("|")]
    return [int(cell.replace(",", "")) for cell in cells if re.fullmatch(r"[\d,]+", cell)]


class FiguresTest(unittest.TestCase):
    def test_each_figure_is_in_its_source(self):
        figures = json.loads((ROOT / "bench" / "readme_speed.json").read_text())
        rows = [numbers_of(line) for line in (ROOT / "docs" / "performance.md").read_text().splitlines() if line.startswith("|")]
        for panel in figures["panels"]:
            for row in panel["rows"]:
                with self.subTest(panel=panel["title"], model=row["model"]):
                    self.assertIn(row["row"], rows)
                    for speed in row["tokens_per_second"]:
                        self.assertTrue(speed is None or speed in row["row"])

    def test_plot_and_table_have_these_figures(self):
        done = subprocess.run([ROOT / "bench" / "plot_readme", "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
