#!/usr/bin/env python3
"""Writes word_piece.json next to this file: texts with long words, and their ids by the tokenizers library.

    pip install tokenizers && python3 tests/golden/make_word_piece_golden.py

Each case has a small vocabulary (one piece per line of vocab.txt; "##" before pieces that continue a word), the options of
its normalizer and the max length of a word. wordpiece_golden_test.cpp of src/tokenizer reads the file.
"""
import base64
import hashlib
import json
import pathlib
import random

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["the", "of", "base", "http", "https", "www", "##64", "##ing", "##ab", "##the", "##aa", "##aaaa", "aaa"]
UNKNOWN = "ø"  # has no piece


def long_texts(limit):
    """Returns texts with words of about `limit` characters, for all plausible ways to count characters."""
    rng = random.Random(limit)
    texts = []
    for unit in ["a", "é", "e\u0301", "E\u0301\u0323", "ß", "İ", "ñ", "я", "Й", "й", "か", "が", "カ", "한", "각", "가",
                 "中", "々", "ก", "กำ", "नि", "ع", "عَ", "😀", "👩‍💻", "²", "Ω", "ﬁ", "x\u200b", "\u00ad", "1", "A", "Ǆ"]:
        texts += [unit * n for n in (limit // 3, limit // 2, limit, limit + 1)]
    for n in (limit, limit + 1):
        word = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(n))
        texts += [word, word.upper(), f"the {word} of", f"the,{word},of", f"({word})", word + "!", word + "\u0301",
                  word + "\u200b\u200d\ufeff", "\u200b" + word, word[:-1] + "é", word[:-1] + UNKNOWN, word + "中",
                  f"{word}\t{word}\n{word}", word + "\u00a0" + word, word + "-" + word, word + "=" * 3, word + "$", word + "€"]
    for n in (16, 75, 76, 200):
        data = rng.randbytes(n)
        texts += [base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode(), data.hex()]
    for n in (4, limit, limit + 1):
        path = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(n))
        texts += [f"https://www.example.org/{path}?the={path}&of=1#{path}", f"the {path}_{path}.{path} of"]
    texts += [hashlib.sha512(b"the").hexdigest(), "the of " * limit, UNKNOWN, "a" + UNKNOWN, ""]
    return texts


def vocabulary(texts, normalizer):
    """Returns a piece for every character of the texts, at the beginning of a word and within a word."""
    characters = sorted({c for text in texts for c in normalizer.normalize_str(text)} - set(" \t\n" + UNKNOWN))
    return SPECIAL + PIECES + characters + ["##" + c for c in characters]


def case(lowercase, strip_accents, limit):
    normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    texts = long_texts(limit)
    pieces = vocabulary(texts, normalizer)
    judge = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]",
                                       max_input_chars_per_word=limit))
    judge.normalizer = normalizer
    judge.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return {"lowercase": lowercase, "strip_accents": strip_accents, "max_word_characters": limit, "pieces": pieces,
            "texts": [{"text": text, "ids": judge.encode(text).ids} for text in texts]}


def main():
    cases = [case(True, True, 100), case(False, False, 20), case(True, False, 20), case(True, True, 20)]
    path = pathlib.Path(__file__).with_name("word_piece.json")
    lines = []
    for each in cases:
        head = json.dumps({key: value for key, value in each.items() if key != "texts"}, ensure_ascii=False)
        texts = ",\n".join("  " + json.dumps(text, ensure_ascii=False, separators=(",", ":")) for text in each["texts"])
        lines.append(head[:-1] + ', "texts": [\n' + texts + "]}")
    path.write_text("[" + ",\n".join(lines) + "]\n")


if __name__ == "__main__":
    main()
