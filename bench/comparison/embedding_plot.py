"""Draws figures of bench/embeddings as an SVG: texts per second at the top, p99 at the bottom, over the number of clients. The
background is light or dark, like the reader's system."""

import html
import math
import statistics

WIDTH, HEIGHT = 900, 620
LEFT, RIGHT = 80, 640
PANELS = (("texts_per_second", "texts a second", 80, 300), ("p99_ms", "99 of 100 requests within, ms", 360, 580))
COLOURS = ("#0969da", "#bc4c00", "#8250df", "#1a7f37", "#cf222e", "#57606a", "#9a6700", "#bf3989")


def curves(record, clients):
    """Returns {(program, weights, texts per request): {clients: {measure: median}}}."""
    out = {}
    for row in record["rows"]:
        words = row["case"].split()
        if len(words) != 5 or "client" not in words[1] or int(words[0]) not in clients:
            continue
        for who, runs in row["runs"].items():
            key = (who, row["weights"], int(words[2]))
            out.setdefault(key, {})[int(words[0])] = {
                what: statistics.median(run[what] for run in runs) for what in ("texts_per_second", "p99_ms")}
    return out


def svg(record, clients):
    lines = curves(record, clients)
    title = f"all-MiniLM-L6-v2, {record['n_tokens'] / record['n_texts']:.0f} tokens a text"
    where = f"{record['machine']['processor']}, {record['threads']} threads"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="system-ui,sans-serif" '
             'font-size="12">',
             f"<title>{html.escape(title)}</title>",
             "<style>.ground{fill:#fff}text{fill:#24292f}.grid{stroke:#d8dee4}polyline{fill:none;stroke-width:2}"
             "@media(prefers-color-scheme:dark){.ground{fill:#161b22}text{fill:#d0d7de}.grid{stroke:#30363d}}</style>",
             f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
             f'<text x="{LEFT}" y="28" font-size="15" font-weight="600">{html.escape(title)}</text>',
             f'<text x="{LEFT}" y="48">{html.escape(where)}</text>']
    xs = {n: LEFT + (RIGHT - LEFT) * i / max(1, len(clients) - 1) for i, n in enumerate(clients)}
    for measure, label, top, bottom in PANELS:
        parts += panel(lines, measure, label, top, bottom, xs)
    for i, (who, weights, n_a_request) in enumerate(lines):
        y = 90 + 20 * i
        parts.append(f'<polyline points="{RIGHT + 30},{y - 4} {RIGHT + 54},{y - 4}" {stroke(lines, who, weights, n_a_request)}/>')
        parts.append(f'<text x="{RIGHT + 60}" y="{y}">{html.escape(who)} {weights}, {n_a_request} a request</text>')
    return "\n".join([*parts, "</svg>", ""])


def stroke(lines, who, weights, n_a_request):
    """Returns a colour for each program and format. Lines of one text per request are dashed."""
    kinds = list(dict.fromkeys((who, weights) for who, weights, _ in lines))
    broken = ' stroke-dasharray="5 4"' if n_a_request == 1 else ""
    return f'stroke="{COLOURS[kinds.index((who, weights)) % len(COLOURS)]}"{broken}'


def decades(values):
    """Returns the powers of ten around the values, for a logarithmic axis."""
    low = 1.0
    while low > min(values):
        low /= 10
    while low * 10 <= min(values):
        low *= 10
    out = [low]
    while out[-1] < max(values):
        out.append(out[-1] * 10)
    return out


def panel(lines, measure, label, top, bottom, xs):
    values = [max(1e-3, point[measure]) for line in lines.values() for point in line.values()]
    if not values:
        return
    marks = decades(values)
    place = Scale(marks[0], marks[-1] if len(marks) > 1 else marks[0] * 10, top, bottom)
    yield f'<text x="{LEFT}" y="{top - 10}" font-weight="600">{label}</text>'
    for mark in marks:
        y = place.of(mark)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}"/><text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>'
    for n, x in xs.items():
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{n} client{"s" * (n > 1)}</text>'
    for kind, line in lines.items():
        points = " ".join(f"{xs[n]:.1f},{place.of(point[measure]):.1f}" for n, point in sorted(line.items()))
        yield f'<polyline points="{points}" {stroke(lines, *kind)}/>'


class Scale:
    """A logarithmic axis from `bottom` to `top`."""

    def __init__(self, low, high, top, bottom):
        self.low, self.high, self.top, self.bottom = low, high, top, bottom

    def of(self, value):
        share = math.log10(max(value, self.low) / self.low) / math.log10(self.high / self.low)
        return self.bottom - (self.bottom - self.top) * share
