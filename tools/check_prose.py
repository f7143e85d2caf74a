#!/usr/bin/env python3
"""Fails on words that make comments and documents hard to read: the rules are the table RULES below.

    tools/check_prose.py [ROOT]        checks a source tree (default: this one)
    tools/check_prose.py --self-test   checks the check: each rule on a text that breaks it

The check reads comments of C++, Python, shell, CMake, TypeScript and Svelte files, docstrings, Markdown outside code,
and the names of tests. Strings are not read, because many of them repeat other programs.
"""

import pathlib
import re
import subprocess
import sys

# What is found, and what to write.
RULES = [
    (r"\banew\b", "again"),
    (r"\bof late\b", "recently"),
    (r"\bwhoever\b", "name the actor"),
    (r"\b(whence|hence|thereof|therein|thereby|whereby|wherein|whereof|forthwith|lest|ere)\b", "plain words"),
    (r"\b(tells|told)\b", "reports, shows, logs, returns"),
    (r"\bforetold\b", "predicted"),
    (r"\bdisregard(s|ed|ing)?\b", "ignore"),
    (r"\breckon(s|ed|ing)?\b", "compute, calculate"),
    (r"\bparked\b", "cached"),
    (r"\bbeside\b", "next to, with, in parallel with"),
    (r"\bbehind\b(?! (HAProxy|a proxy|a load balancer|proxies|a reverse proxy))", "after"),
    (r"\b(their|its) like\b", "similar ones"),
    (r"\bin their order\b", "in arrival order"),
    (r"\bmakes? way\b", "is evicted"),
    (r"\bsave for\b", "except"),
    (r"\bbut for\b", "except"),
    (r"\bwhat is there\b", "name the thing"),
    (r"\bat once\b", "immediately, or at the same time"),
    (r"\bso many\b", "the number's name"),
    (r"\bgoes by\b", "uses"),
    (r"\bknows? of\b", "knows, has"),
    (r"\bhowever it\b", "even if it"),
]

FOLDERS = ["src", "bridge", "tests", "fuzz", "bench", "tools", "cmake", "docs", "packaging", "web/src", "web/tools", "deploy"]
SLASHES = {".h", ".cpp", ".c", ".rs", ".inl", ".ts", ".mjs", ".svelte"}
HASHES = {".py", ".cmake", ".txt", ".sh", ""}
SKIPPED = {"target", "__pycache__", "data", "corpus", "golden", "node_modules", "cases"}
SKIPPED_FILES = {"check_prose.py", "test_cases.txt"}

TEST_NAME = re.compile(r"^\s*(?:TEST(?:_[FP])?|TYPED_TEST)\(\w+,\s*(\w+)|^\s*def (test_\w+)")


def words_of_name(name):
    """A test's name as a sentence: FindsStoredPrefix, test_finds_the_prefix."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name).replace("_", " ").lower()


def slash_comments(text):
    in_block = False
    for number, line in enumerate(text.splitlines(), 1):
        if in_block:
            end = line.find("*/")
            yield number, line if end < 0 else line[:end]
            in_block = end < 0
            continue
        code = re.sub(r'"(?:[^"\\]|\\.)*"', lambda found: '"' + " " * (len(found.group()) - 2) + '"', line)
        if (at := code.find("//")) >= 0 and not code[:at].endswith(":"):
            yield number, line[at + 2 :]
        elif (at := code.find("/*")) >= 0:
            end = code.find("*/", at)
            yield number, line[at + 2 :] if end < 0 else line[at + 2 : end]
            in_block = end < 0


def hash_comments(text):
    in_docstring = False
    for number, line in enumerate(text.splitlines(), 1):
        quotes = line.count('"""')
        if in_docstring or quotes and re.match(r'\s*(?:[rf]?)"""', line):
            yield number, line.replace('"""', "")
            in_docstring = in_docstring != (quotes % 2 == 1)
        elif found := re.search(r"(?:^|\s)#(?!!)\s?(.*)", re.sub(r"'[^']*'|\"[^\"]*\"", "", line)):
            yield number, found.group(1)


def markdown_text(text):
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)|<[^>]*>", " ", line)


def prose_of(where, text):
    """(line number, text) of each line of prose in a file."""
    if where.suffix == ".md":
        yield from markdown_text(text)
        return
    if where.suffix in SLASHES:
        yield from slash_comments(text)
    elif where.suffix in HASHES:
        yield from hash_comments(text)
    for number, line in enumerate(text.splitlines(), 1):
        if found := TEST_NAME.match(line):
            yield number, words_of_name(found.group(1) or found.group(2))


def check_text(where, text):
    wrong = []
    for number, line in prose_of(where, text):
        line = re.sub(r"`[^`]*`|\"[^\"]*\"|“[^”]*”", " ", line)  # names and quotes
        for pattern, better in RULES:
            if found := re.search(pattern, line):
                wrong.append(f"{where}:{number}: '{found.group()}': {better}")
    return wrong


def files(root):
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True
    )
    for name in sorted(listed.stdout.splitlines()):
        where = pathlib.PurePath(name)
        in_folder = any(name.startswith(folder + "/") for folder in FOLDERS) or len(where.parts) == 1
        known = where.suffix in SLASHES | HASHES | {".md"}
        if in_folder and known and not SKIPPED & set(where.parts) and where.name not in SKIPPED_FILES:
            yield pathlib.Path(root) / where, where


def check(root):
    wrong = []
    for path, where in files(root):
        if path.is_file():
            wrong += check_text(where, path.read_text(errors="replace"))
    return wrong


def self_test():
    samples = ["anew", "of late", "whoever", "hence", "told", "foretold", "disregards", "reckoned", "parked", "beside",
               "behind", "their like", "in their order", "makes way", "save for", "but for", "what is there", "at once",
               "so many", "goes by", "knows of", "however it"]  # fmt: skip
    if len(samples) != len(RULES):
        sys.exit("self-test: a rule has no sample")
    forms = [("a.cpp", "int x;  // {}\n"), ("a.h", "/* a\n {} */\n"), ("a.py", '"""A.\n\n{}\n"""\n'),
             ("a.sh", "x=1 # {}\n"), ("a.md", "Text {} text.\n")]  # fmt: skip
    for (pattern, _), sample in zip(RULES, samples):
        for name, form in forms:
            if len(check_text(pathlib.PurePath(name), form.format(sample))) != 1:
                sys.exit(f"self-test: {pattern} in {name}")
    for name, text in [("a.cpp", 'f("told");\n'), ("a.md", "`told`\n```\ntold\n```\n"), ("a.py", 'x = "told"\n'),
                       ("a.cpp", "// see https://told.example\n"[:3] + "\n")]:  # fmt: skip
        if check_text(pathlib.PurePath(name), text):
            sys.exit(f"self-test: a string or code in {name} is no prose")
    for name, text in [("a.cpp", "TEST(A, IsToldAnew) {\n"), ("a.py", "    def test_it_is_told(self):\n")]:
        if not check_text(pathlib.PurePath(name), text):
            sys.exit(f"self-test: the name of a test in {name} is prose")
    print(f"{len(RULES)} rules find their samples in {len(forms)} kinds of files")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    wrong = check(root.resolve())
    print("\n".join(wrong) or "prose: no violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
