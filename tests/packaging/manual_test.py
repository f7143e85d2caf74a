"""The pages of the manual: each option of --help is there, and they are in order for groff and mandoc."""
import gzip
import pathlib
import re
import unittest

import package_case
from package_case import ARGS, need, run


def commands():
    text = run(ARGS.billow, "--help").stdout
    return re.findall(r"^  ([a-z]+)(?:, [a-z]+)* {2,}", text[text.index("\nStart here:"):text.index("\nExamples:")], re.M)


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(ARGS.build) / "packaging/man"
        cls.pages = {path.name.removesuffix(".1.gz"): path for path in cls.folder.glob("*.1.gz")}

    def rendered(self, name):
        need("groff")
        done = run("sh", "-c", f"zcat '{self.pages[name]}' | LC_ALL=C.UTF-8 groff -man -ww -Tutf8 -P-cbou")
        return done.stdout

    def test_each_command_has_a_page(self):
        names = commands()
        self.assertGreater(len(names), 20)
        self.assertEqual(set(self.pages), {"billow", *(f"billow-{name}" for name in names)})

    def test_each_option_of_the_help_is_in_the_page(self):
        for command in commands():
            help_text = run(ARGS.billow, command, "--help").stdout
            options = set(re.findall(r"^ +(?:-\w,)?(--[a-z0-9-]+)", help_text, re.M))
            self.assertIn("--help", options)
            page = self.rendered(f"billow-{command}")
            shown = set(re.findall(r"^ +(?:-\w, ?)?(--[a-z0-9-]+)", page.replace("‐", "-"), re.M))
            self.assertEqual(options - shown, set(), command)

    def test_groff_has_no_warning(self):
        for name in self.pages:
            self.assertNotRegex(self.rendered(name), r"(?m)^(groff|troff|grotty|<standard input>)", name)

    def test_mandoc_has_no_error(self):
        need("mandoc")
        for name, path in self.pages.items():
            with gzip.open(path, "rt") as page:
                done = run("sh", "-c", "mandoc -T lint -W error", check=False, stdin=None, input=page.read())
            self.assertEqual(done.stdout, "", name)

    def test_compressed_pages_have_no_time(self):
        for path in self.pages.values():
            self.assertEqual(path.read_bytes()[4:8], bytes(4), path)


if __name__ == "__main__":
    package_case.main()
