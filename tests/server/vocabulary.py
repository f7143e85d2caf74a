"""The vocabulary of a GGUF file and the text of its tokens. Shares no code with the program, so that both can be compared."""

import codecs
import mmap
import pathlib
import struct

CONTROL, USER_DEFINED, UNUSED, BYTE = 3, 4, 5, 6  # of tokenizer.ggml.token_type
UNKNOWN = 2
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


def one_each(error):
    """Returns U+FFFD for each invalid byte."""
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("one_each", one_each)


class Metadata(dict):
    """The metadata of a GGUF file of version 2 or 3."""

    def __init__(self, path):
        with pathlib.Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            self.data, self.at = data, 4
            assert data[:4] == b"GGUF", path
            _, _, n_entries = self.take("IQQ")
            for _ in range(n_entries):
                key = self.string().decode()
                self[key] = self.value(*self.take("I"))
            del self.data

    def take(self, letters):
        values = struct.unpack_from("<" + letters, self.data, self.at)
        self.at += struct.calcsize("<" + letters)
        return values

    def string(self):
        length, = self.take("Q")
        self.at += length
        return self.data[self.at - length:self.at]

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.take(SCALARS[kind])[0]
        element, n = self.take("IQ")
        if element in SCALARS:
            return list(self.take(f"{n}{SCALARS[element]}"))
        return [self.value(element) for _ in range(n)]


def byte_letters():
    """Returns the byte of each letter of byte-level BPE. Printable bytes are their own letters, others have letters from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{chr(byte): byte for byte in printable}, **{chr(0x100 + i): byte for i, byte in enumerate(others)}}


class Vocabulary:
    def __init__(self, path):
        metadata = Metadata(path)
        self.kind = metadata["tokenizer.ggml.model"].decode()
        self.tokens = [token.decode() for token in metadata["tokenizer.ggml.tokens"]]
        self.types = metadata["tokenizer.ggml.token_type"]
        self.letters = byte_letters()

    def bytes_of(self, token):
        """Returns the bytes that a token adds to a text. Control tokens add none."""
        text, kind = self.tokens[token], self.types[token]
        if kind in (CONTROL, UNUSED, UNKNOWN):
            return b""
        if kind == BYTE:
            return bytes([int(text[3:5], 16)])
        if kind == USER_DEFINED:
            return text.encode()
        if self.kind == "gpt2":
            return bytes(self.letters[letter] for letter in text)
        return text.replace("\u2581", " ").encode()

    def text_of(self, tokens):
        return b"".join(map(self.bytes_of, tokens)).decode("utf-8", "one_each")
