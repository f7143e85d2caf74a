"""Reads code blocks, headings and links of Markdown documents."""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


@dataclasses.dataclass
class Block:
    document: str  # path from the root
    line: int  # of the opening fence
    language: str
    text: str
    reason: str  # why the block does not run; empty: it runs

    def __str__(self):
        return f"{self.document}:{self.line}"


def blocks_of(path):
    """Returns all fenced code blocks. A comment directly before a block says why the block does not run."""
    blocks, reason, inside = [], "", None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if inside is not None:
            if line.strip() == "```":
                blocks.append(inside)
                inside = None
            else:
                inside.text += line + "\n"
        elif line.lstrip().startswith("```"):
            inside = Block(str(path.relative_to(ROOT)), number, line.strip()[3:], "", reason)
            reason = ""
        elif found := NOT_RUN.fullmatch(line.strip()):
            reason = found[1]
        elif line.strip():
            reason = ""
    assert inside is None, f"{inside} does not end"
    return blocks


def without_code(text):
    """Returns the text without fenced blocks and code spans, which have no links."""
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", without_fences(text))


def without_fences(text):
    return re.sub(r"^[ \t]*```.*?^[ \t]*```[ \t]*$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors_of(text):
    """Returns the anchors that GitHub makes of the headings."""
    anchors, counts = set(), {}
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", without_fences(text), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        n = counts.get(anchor, 0)
        counts[anchor] = n + 1
        anchors.add(f"{anchor}-{n}" if n else anchor)
    return anchors
