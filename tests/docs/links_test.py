"""Checks that every relative link and every anchor in README.md, CHANGELOG.md and docs exists, and that quoted messages do."""

import re
import unittest
import urllib.parse

from blocks import ROOT, anchors_of, without_code

LINK = re.compile(r"\]\(([^)\s]+)\)|\b(?:src|srcset|href)=\"([^\"]+)\"")


def problem_of(path, target):
    """Returns what is wrong with a link of the document at `path`; empty: nothing."""
    parts = urllib.parse.urlsplit(target)
    if parts.scheme or parts.netloc:
        return ""
    place = path if not parts.path else path.parent / urllib.parse.unquote(parts.path)
    if not place.exists():
        return f"no file {parts.path}"
    if not place.resolve().is_relative_to(ROOT):
        return f"{parts.path} is outside the project"
    if parts.fragment and parts.fragment not in anchors_of(place.read_text()):
        return f"no heading for #{parts.fragment}"
    return ""


def sources_text():
    """Returns the C++ sources with the pieces of their string literals joined."""
    files = sorted((ROOT / "src").rglob("*.cpp")) + sorted((ROOT / "src").rglob("*.h"))
    text = "\n".join(path.read_text() for path in files if not path.name.endswith("_test.cpp"))
    return re.sub(r'"\s*\n\s*"', "", text)


class LinksTest(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        documents = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
        n_links = 0
        for path in documents:
            for found in LINK.finditer(without_code(path.read_text())):
                target = found[1] or found[2]
                n_links += 1
                with self.subTest(document=str(path.relative_to(ROOT)), link=target):
                    self.assertEqual(problem_of(path, target), "")
        self.assertGreater(n_links, 50, "too few links were found: does the pattern still match?")

    def test_every_document_is_in_the_index(self):
        index = (ROOT / "docs" / "README.md").read_text()
        for path in sorted((ROOT / "docs").glob("*.md")):
            if path.name != "README.md":
                with self.subTest(document=path.name):
                    self.assertIn(f"({path.name})", index)

    def test_messages_of_troubleshooting_are_in_the_sources(self):
        headings = re.findall(r"^### .*`(.+?)`", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)
        self.assertGreater(len(headings), 20)
        literals = sources_text()
        for message in headings:
            for part in message.split("..."):
                with self.subTest(message=message, part=part):
                    self.assertIn(part.strip(" ()"), literals)

    def test_a_bad_link_is_found(self):
        readme = ROOT / "README.md"
        self.assertIn("no file", problem_of(readme, "docs/nowhere.md"))
        self.assertIn("no heading", problem_of(readme, "docs/README.md#nowhere"))
        self.assertEqual(problem_of(readme, "https://example.com/nowhere"), "")

    def test_anchors_are_those_of_github(self):
        text = "# A `b`, c\n```\n# no heading\n```\n## What's [here](x.md)?\n## A b, c\n"
        self.assertEqual(anchors_of(text), {"a-b-c", "whats-here", "a-b-c-1"})


if __name__ == "__main__":
    unittest.main()
