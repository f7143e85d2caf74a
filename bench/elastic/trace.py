"""Reads the output of `billow generate --trace`: one row per token of the answer."""

import csv
import statistics

COLUMNS = ("n", "seconds", "held", "rung", "kv_in_use_bytes", "resident_bytes")


class Trace:
    """Lists of the same length, one per column. Row i is token i + 1 of the answer, chosen at seconds[i]."""

    def __init__(self, lines):
        """Raises ValueError if the lines are not a trace."""
        rows = list(csv.DictReader(lines))
        missing = [name for name in COLUMNS if not rows or name not in rows[0]]
        if missing:
            raise ValueError(f"not a trace: no rows, or no column {missing[0]}")
        try:
            self.seconds = [float(row["seconds"]) for row in rows]
            self.held, self.rung, self.kv_in_use, self.resident = (
                [int(row[name]) for row in rows] for name in ("held", "rung", "kv_in_use_bytes", "resident_bytes"))
            # The memory that Billow accounts for; None if the trace has no such column.
            self.accounted = [int(row["accounted_bytes"]) for row in rows] if "accounted_bytes" in rows[0] else None
        except (TypeError, ValueError):
            raise ValueError("not a trace: a row with an invalid or missing number") from None
        # After the last token, all KV is freed.
        n = len(rows) if self.kv_in_use[-1] else len(rows) - 1
        # The rows before which the rung grew, and the rows before which tokens were dropped.
        self.transitions = [i for i in range(1, n) if self.rung[i] > self.rung[i - 1]]
        self.compactions = [i for i in range(1, n) if self.held[i] < self.held[i - 1]]

    def __len__(self):
        return len(self.seconds)

    def gap(self, i):
        """Returns the seconds between the token of row i and the token before it."""
        return self.seconds[i] - self.seconds[i - 1]

    def median_gap(self, begin, end):
        """Returns the median gap of rows begin to end - 1 without compactions, or None if there is no gap."""
        compactions = set(self.compactions)
        gaps = [self.gap(i) for i in range(max(1, begin), end) if i not in compactions]
        return statistics.median(gaps) if gaps else None

    def rates(self, window):
        """Yields (middle token, tokens/s) for windows of `window` tokens."""
        for begin in range(1, len(self), window):
            end = min(begin + window, len(self))
            gap = self.median_gap(begin, end)
            if gap:
                yield (begin + end) / 2, 1 / gap
