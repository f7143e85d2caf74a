"""Parses answers of /metrics in Prometheus' text format 0.0.4. Rejects any text that breaks a rule of the format."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL},?)*)\}})? ([^ ]+)")
KINDS = ("counter", "gauge", "histogram", "summary", "untyped")


def check(is_so, line):
    if not is_so:
        raise ValueError(f"not in the text format: {line[:200]!r}")


def family_of(name, kinds):
    """Returns the name of the metric family that a sample belongs to."""
    for end in ("_bucket", "_sum", "_count"):
        if name.endswith(end) and kinds.get(name.removesuffix(end)) == "histogram":
            return name.removesuffix(end)
    return name


def check_histograms(samples, kinds):
    """Checks that bounds rise to +Inf, counts do not fall, and the last bucket equals the total count."""
    buckets = {}
    for (name, labels), value in samples.items():
        if name.endswith("_bucket") and kinds.get(name.removesuffix("_bucket")) == "histogram":
            others = tuple(label for label in labels if label[0] != "le")
            buckets.setdefault((name.removesuffix("_bucket"), others), []).append((float(dict(labels)["le"]), value))
    for (name, labels), found in buckets.items():
        check(found == sorted(found) and [value for _, value in found] == sorted(value for _, value in found), name)
        check(found[-1][0] == float("inf") and found[-1][1] == samples[name + "_count", labels] and (name + "_sum", labels) in samples, name)


def parse(text):
    """Returns {(name, labels): value} and {family name: kind}. Raises ValueError if the text breaks a rule."""
    check(text.endswith("\n"), text[-80:])
    samples, kinds, done, last = {}, {}, set(), None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            check(re.fullmatch(rf"# HELP {NAME} (?:[^\\]|\\[\\n])*", line), line)
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            check(kind in KINDS and name not in kinds, line)
            kinds[name] = kind
            continue
        if not line or line.startswith("#"):
            continue
        found = SAMPLE.fullmatch(line)
        check(found, line)
        labels = tuple(sorted(re.findall(LABEL, found[2] or "")))
        check(len({name for name, _ in labels}) == len(labels) and (found[1], labels) not in samples, line)
        family = family_of(found[1], kinds)
        check(family in kinds and (family == last or family not in done), line)
        done.add(family)
        last = family
        samples[found[1], labels] = float(found[5])
    check_histograms(samples, kinds)
    return samples, kinds


def cumulative(samples, kinds):
    """Returns the samples that never fall."""
    return {at: value for at, value in samples.items() if kinds[family_of(at[0], kinds)] in ("counter", "histogram")}


def total(samples, name, **labels):
    """Returns the sum of all samples with this name and these labels."""
    return sum(value for (found, its), value in samples.items() if found == name and labels.items() <= dict(its).items())
