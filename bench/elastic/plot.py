"""Draws a run as an SVG. The left axis shows KV memory and the capacity of the rungs, the right axis shows tokens/s, and vertical
lines show events. The background is light or dark, like the reader's system, so the SVG is readable on any page."""

import html
import math
import pathlib

MIB = 1 << 20
WIDTH, HEIGHT = 900, 480
LEFT, RIGHT, TOP, BOTTOM = 66, 834, 92, 424  # of the plot's frame
N_INTERVALS = 5  # of both vertical axes, so that they share one grid
RATE_WINDOW = 100  # tokens
MAX_POINTS = 1400  # per curve, which keeps the file below 60 KB
LABEL_HEIGHT = 13

LIGHT = {"ground": "#ffffff", "ink": "#24292f", "grid": "#d8dee4", "kv": "#0969da", "rung": "#57606a", "rate": "#bc4c00",
         "grow": "#8250df", "compact": "#cf222e"}
DARK = {"ground": "#161b22", "ink": "#d0d7de", "grid": "#30363d", "kv": "#58a6ff", "rung": "#8b949e", "rate": "#f0883e",
        "grow": "#bc8cff", "compact": "#ff7b72"}


def svg(trace, record):
    """Returns the text of the file. `record` is the record of bench/elastic_run."""
    plot = _Plot(trace, record)
    return "\n".join([_head(record), *plot.axes(), *plot.events(), *plot.curves(), *plot.labels(),
                      *_legend(trace, record), "</svg>", ""])


def nice_step(min_step):
    """Returns the smallest step that is at least min_step. Steps are 1, 2, 2.5, 4 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(min_step))
    return next(power * times for times in (1, 2, 2.5, 4, 5, 10) if power * times >= min_step * (1 - 1e-9))


def thin(points, max_points):
    """Returns about max_points points. Keeps the lowest and the highest point of each group of neighbours, in order."""
    if len(points) <= max_points:
        return points
    size = math.ceil(2 * len(points) / max_points)
    kept = []
    for begin in range(0, len(points), size):
        part = points[begin:begin + size]
        ends = {part.index(min(part, key=lambda point: point[1])), part.index(max(part, key=lambda point: point[1]))}
        kept += [part[i] for i in sorted(ends)]
    return kept


def staircase(values):
    """Returns points (i, value), i from 1: the old and the new value at each change, and both ends."""
    points = [(1, values[0])]
    for i in range(1, len(values)):
        if values[i] != values[i - 1]:
            points += [(i + 1, values[i - 1]), (i + 1, values[i])]
    return points + [(len(values), values[-1])]


class _Plot:
    def __init__(self, trace, record):
        self.trace = trace
        capacity = {rung["context"]: rung["kv_bytes"] / MIB for rung in record["plan"]["memory"]["rungs"]}
        self.capacity = staircase([capacity[rung] for rung in trace.rung])
        kv = [n / MIB for n in trace.kv_in_use]
        # After the last token, no KV is in use. A line down to zero would only hide the frame.
        self.kv = staircase(kv[:-1] if len(kv) > 1 and kv[-1] == 0 else kv)
        self.rates = list(trace.rates(RATE_WINDOW))
        max_memory = max(value for _, value in self.capacity + self.kv)
        max_rate = max((rate for _, rate in self.rates), default=1)
        self.memory_step = nice_step(max(max_memory, 1e-3) / N_INTERVALS)
        self.rate_step = nice_step(max_rate / N_INTERVALS)
        self.token_step = nice_step(max(10, len(trace)) / 8)

    def x(self, token):
        return LEFT + (RIGHT - LEFT) * token / len(self.trace)

    def y(self, value, step):
        return BOTTOM - (BOTTOM - TOP) * value / (step * N_INTERVALS)

    def axes(self):
        for i in range(N_INTERVALS + 1):
            y = self.y(i, 1)
            yield f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{i * self.memory_step:g}</text>'
            yield f'<text x="{RIGHT + 8}" y="{y + 4:.1f}">{i * self.rate_step:g}</text>'
        for i in range(int(len(self.trace) / self.token_step + 1e-9) + 1):
            x = self.x(i * self.token_step)
            yield f'<path class="tick" d="M{x:.1f} {BOTTOM}v5"/>'
            yield f'<text x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{i * self.token_step:,.0f}</text>'
        middle = (TOP + BOTTOM) / 2
        yield f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 38}" text-anchor="middle">tokens of the answer</text>'
        yield f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">KV memory, MiB</text>'
        yield f'<text transform="translate({WIDTH - 14} {middle}) rotate(-90)" text-anchor="middle">tokens/s</text>'

    def events(self):
        columns = sorted({round(self.x(i)) for i in self.trace.compactions})
        if columns:
            yield f'<path class="compact" d="{"".join(f"M{x} {BOTTOM}V{TOP}" for x in columns)}"/>'
        for i in self.trace.transitions:
            yield f'<path class="grow" d="M{self.x(i):.1f} {BOTTOM}V{TOP}"/>'

    def labels(self):
        """Yields labels of transitions next to their lines, if there is room."""
        end = 0.0
        for i in self.trace.transitions:
            x = max(self.x(i) + LABEL_HEIGHT - 2, end + LABEL_HEIGHT)
            if x > self.x(i) + 3 * LABEL_HEIGHT:
                continue  # too far from its line
            end = x
            yield (f'<text class="label" transform="translate({x:.1f} {TOP + 6}) rotate(-90)" text-anchor="end">'
                   f"{self.trace.rung[i - 1]} → {self.trace.rung[i]}</text>")

    def curves(self):
        for name, points, step in (("rung", self.capacity, self.memory_step), ("kv", self.kv, self.memory_step),
                                   ("rate", self.rates, self.rate_step)):
            path = " ".join(f"{self.x(x):.1f},{self.y(value, step):.1f}" for x, value in thin(points, MAX_POINTS))
            yield f'<polyline class="{name}" points="{path}"/>'


def _style(colours):
    lines = {"grid": 1, "tick": 1, "kv": 1.8, "rung": 1.4, "rate": 1.4, "grow": 1.4, "compact": 0.7}
    rules = [f".ground{{fill:{colours['ground']}}}text{{fill:{colours['ink']}}}.label{{stroke:{colours['ground']}}}"]
    rules += [f".{name}{{stroke:{colours.get(name, colours['ink'])};stroke-width:{width}}}" for name, width in lines.items()]
    return "".join(rules)


def _head(record):
    wanted = record["wanted"]
    model = pathlib.Path(record["result"]["model"]).stem
    title = (f"{model}: {wanted['max_tokens']:,} tokens in a context of at most {wanted['max_context']}, "
             f"policy {wanted['policy']}")
    threads = record["threads"]
    where = f"{record['machine']['processor']}, {threads} thread{'s' * (threads > 1)}; {record['version'].split(' (')[0]}"
    others = sum(record["disturbed"].values())
    if others >= 3:
        where += f"; disturbed: others used {others:.0f} % of the processor time"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="system-ui,sans-serif" font-size="12">',
        f"<title>{html.escape(title)}</title>",
        "<style>polyline,path{fill:none}.rung{stroke-dasharray:6 4}.grow{stroke-dasharray:2 3}"
        ".label{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}"
        f"{_style(LIGHT)}@media(prefers-color-scheme:dark){{{_style(DARK)}}}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        f'<text x="{LEFT}" y="26" font-size="15" font-weight="600">{html.escape(title)}</text>',
        f'<text x="{LEFT}" y="46">{html.escape(where)}</text>',
    ])


def _legend(trace, record):
    entries = [("kv", "KV memory in use"), ("rung", "its rung's capacity"), ("rate", "tokens/s"),
               ("grow", "transition")]
    each = record["plan"]["compactions"]
    if trace.compactions:
        what = f": drop {each['drop']}, keep {each['keep']}" if each["count"] else ""
        entries.append(("compact", "compaction" + what))
    x = LEFT
    for name, text in entries:
        yield f'<path class="{name}" d="M{x} 70h24"/><text x="{x + 30}" y="74">{text}</text>'
        x += 30 + 6.6 * len(text) + 14
