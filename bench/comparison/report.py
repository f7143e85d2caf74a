"""Calculates medians and ratios, and formats the table. Pure functions."""

import statistics


def summary(runs):
    return {"median": statistics.median(runs), "min": min(runs), "max": max(runs), "runs": list(runs)}


def speed_up(unit, ours, theirs):
    """Returns our speed divided by theirs, from rates or from times."""
    return theirs / ours if unit == "ms" else ours / theirs


def fastest(unit, results, names):
    """Returns the name in `names` with the best median, or None if no name has a result."""
    names = [name for name in names if name in results]
    if not names:
        return None
    return (min if unit == "ms" else max)(names, key=lambda name: results[name]["median"])


def compare(unit, results, ours, groups):
    """Returns our speed-up over the fastest peer of each group {name: peers}."""
    ratios = {}
    for group, names in groups.items():
        best = fastest(unit, results, names)
        if best and ours in results:
            ratios[group] = {"ratio": speed_up(unit, results[ours]["median"], results[best]["median"]), "peer": best}
    return ratios


def figure(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def cell(unit, result):
    if result is None:
        return "-"
    spread = "" if len(result["runs"]) == 1 else f" ({figure(result['min'])}-{figure(result['max'])})"
    return figure(result["median"]) + (" ms" if unit == "ms" else "") + spread


def ratio_cell(ratio, peers):
    """Formats a ratio as 2.31x. Adds the peer if the group has several peers."""
    if ratio is None:
        return "-"
    return f"{ratio['ratio']:.2f}x" + (f" {ratio['peer']}" if len(peers) > 1 else "")


class Table:
    """Formats the lines of a table. The widths are fixed, because the rows come one by one."""

    def __init__(self, first, contestants, groups):
        self.contestants, self.groups = contestants, groups
        titles = [first] + contestants + [f"vs {group}" for group in groups]
        widths = [44] + [25] * len(contestants) + [16] * len(groups)
        self.widths = [max(width, len(title)) for width, title in zip(widths, titles)]
        self.head = [self._line(titles), self._line(["-" * width for width in self.widths])]

    def _line(self, cells):
        first, *others = [text.ljust(width) if i == 0 else text.rjust(width)
                          for i, (text, width) in enumerate(zip(cells, self.widths))]
        return "  ".join([first] + others).rstrip()

    def row(self, row):
        cells = [cell(row["unit"], row["results"].get(name)) for name in self.contestants]
        cells += [ratio_cell(row["ratios"].get(group), peers) for group, peers in self.groups.items()]
        return self._line([row["name"]] + cells)
