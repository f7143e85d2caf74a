#!/usr/bin/env python3
"""Compares Billow's token ids with those of llama.cpp's llama-tokenize, text by text.

  compare_tokenizer.py --root ROOT --billow BINARY --models DIR [--texts FOLDER] [--rounds N] [--seed N]

llama-tokenize runs in the chroot ROOT. DIR holds *.gguf. Each is hard-linked or copied to ROOT/m unless a file of that name
exists. The files of FOLDER are additional texts. Prints a table: for each model and family of texts, the number of compared
texts and tokens, the number of texts that differ, and the first difference. Exits with 1 if any text differs.
"""
import argparse
import ast
import os
import pathlib
import random
import shutil
import subprocess
import sys
import unicodedata

CODE = '''def fib(n: int) -> int:
\t"""n-th number;  don't cache."""
    return n if n < 2 else fib(n - 1) + fib(n-2)  # O(phi**n)

int main(void) {\r\n\tprintf("%d\\n", 0xFF & ~1u);\r\n\treturn 0;\r\n}\n\n\n
SELECT a.*, COUNT(1) FROM "t" AS a WHERE a.x >= 1.5e-3 GROUP BY 1;   -- it's
<div class="a-b" data-x='1'>&nbsp;&lt;</div>\n\n    if (x != nullptr && *x++ == '\\0') { x->y = z::w<int>(3); }
'''
CJK = ('今天天气很好，我们去公园散步吧。123456年７月８日「東京タワー」は高さ333メートルです。'
       '한국어 문장도 있습니다. 안녕하세요! ﾊﾝｶｸ ｶﾀｶﾅ 〇〡々〻 㐀𠀀𪜀豈 繁體字與简体字，混排English和数字3.14。'
       'ประเทศไทย ភាសាខ្មែរ မြန်မာ हिन्दी में, தமிழ் العربية، עברית')
EDGES = ["", " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", "\r\n", "\t\n", " \n ", "Hello world", " Hello world", "Hello World!",
         "'S 'T 'LL 're 'VE 'm 'd 'x '", "I'll've'dn't", "1", "12", "123", "1234", "12345678901234567890", "3.14e-10", "١٢٣٤٥",
         "½²Ⅷ", "a" * 300, " " * 100 + "x", "=" * 90, "🚀 (normal) 😶‍🌫️ (multiple emojis concatenated) ✅ 🦙🦙",
         "a\u0301e\u0302 é ê ﬁ ﬂ", "ıİßſ K Å", "\u00a0\u2003\u3000x\u180e\u200b\u200d\ufeff", "\x85\x1c\x1d\x1e\x1f\x0b\x0c",
         "<s>a</s><unk><|im_end|>b <|endoftext|>\n<start_of_turn>user\nx<end_of_turn>\n<eos><bos>", "<|im_start|>", "<unused5><mask>",
         "▁a▁▁b", "\ue000\U0010ffff\U000e0001", "ĀāԱա ԵՎև Ⴀⴀ აᲐ", "नि नि", "x\u0300\u0300\u0300y"]


def random_text(rng, kind):
    if kind == "plane0":
        pick = lambda: rng.randrange(0x20, 0x10000)
    elif kind == "all":
        pick = lambda: rng.randrange(0x20, 0x110000)
    elif kind == "latin":
        pick = lambda: rng.choice([rng.randrange(9, 0x80), rng.randrange(0x80, 0x250), 0x20, 0x27, 0x0A])
    else:  # one block of code points after another, as scripts are assigned
        start = rng.randrange(0x80, 0x3100)
        pick = lambda: rng.choice([start + rng.randrange(64), start + rng.randrange(64), 0x20, 0x31 + rng.randrange(9)])
    out = []
    for _ in range(rng.randrange(1, 400)):
        c = pick()
        if 0xD800 <= c < 0xE000:
            continue
        # Unassigned code points are skipped: a newer version of Unicode's tables may assign them.
        if unicodedata.category(chr(c)) == "Cn":
            continue
        out.append(chr(c))
    return "".join(out)


def texts_of(args):
    rng = random.Random(args.seed)
    yield from (("edges", t) for t in EDGES)
    yield "code", CODE
    yield "cjk", CJK
    for text in (CODE, CJK):
        for _ in range(args.rounds):
            a, b = sorted(rng.randrange(len(text)) for _ in range(2))
            yield ("code" if text is CODE else "cjk"), text[a:b]
    for kind in ("latin", "plane0", "block", "all"):
        for _ in range(args.rounds):
            yield "random " + kind, random_text(rng, kind)
    if args.texts:
        for path in sorted(pathlib.Path(args.texts).iterdir()):
            if path.is_file():
                yield "files", path.read_bytes().decode("utf-8", "replace").replace("\0", "")


def oracle_ids(args, model, text, flags):
    command = ["chroot", args.root, "llama-tokenize", "-m", "/m/" + model, "--ids", "--stdin", "--no-escape", "--log-disable", *flags]
    out = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    return ast.literal_eval(out.decode().strip().splitlines()[-1])


def billow_ids(args, path, text, flags):
    out = subprocess.run([args.billow, "tokenize", "--model", str(path), *flags], input=text.encode(), stdout=subprocess.PIPE,
                         check=True).stdout
    return [int(word) for word in out.split()]


MODES = [("plain", ["--no-bos", "--no-parse-special"], ["--no-special", "--no-parse-special"]),
         ("special", [], [])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True)
    parser.add_argument("--billow", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--texts")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    failed = False
    print(f"{'model':36} {'texts':14} {'compared':>8} {'tokens':>8} {'differ':>7}")
    for path in sorted(pathlib.Path(args.models).glob("*.gguf")):
        place = pathlib.Path(args.root) / "m" / path.name
        place.parent.mkdir(exist_ok=True)
        if not place.exists():
            try:
                os.link(path, place)
            except OSError:
                shutil.copyfile(path, place)
        rows, first = {}, {}
        for family, text in texts_of(args):
            row = rows.setdefault(family, [0, 0, 0])
            for mode, theirs, ours in MODES:
                if mode == "special" and family not in ("edges", "code", "cjk"):
                    continue
                want = oracle_ids(args, path.name, text, theirs)
                have = billow_ids(args, path, text, ours)
                row[0] += 1
                row[1] += len(want)
                if want != have:
                    row[2] += 1
                    at = next((i for i, (a, b) in enumerate(zip(want, have)) if a != b), min(len(want), len(have)))
                    first.setdefault(family, (mode, text, at, want[at:at + 6], have[at:at + 6]))
        for family, row in rows.items():
            print(f"{path.name:36} {family:14} {row[0]:8} {row[1]:8} {row[2]:7}")
        for family, (mode, text, at, want, have) in first.items():
            failed = True
            print(f"  {family} ({mode}): from token {at} theirs {want}, ours {have}, in {text[:200]!r}")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
