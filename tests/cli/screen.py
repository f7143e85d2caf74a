"""What a terminal shows after the output of a program and resizes. Some terminals wrap their rows again when they are resized
(`reflows`), others cut them. Knows only the sequences that progress lines use, and characters of one column."""
import re

PIECE = re.compile(r"\x1b\[(\??\d*(?:;\d+)*)([A-Za-z])|([\r\n])|([^\x1b\r\n])")


class Screen:
    """`lines` are lines without wraps. The cursor is at a character of one of them."""

    def __init__(self, columns, reflows):
        self.columns, self.reflows = columns, reflows
        self.lines, self.line, self.at, self.wraps = [""], 0, 0, True

    def write(self, text):
        for piece in PIECE.finditer(text):
            number, letter, control, character = piece.groups()
            if letter in ("h", "l") and number == "?7":
                self.wraps = letter == "h"
            elif letter in ("J", "K"):
                self.erase(letter)
            elif letter is not None:
                continue  # colours and other modes
            elif control == "\r":
                self.at -= self.at % self.columns
            elif control == "\n":
                self.next_row()
            else:
                self.put(character)

    def erase(self, letter):
        line = self.lines[self.line]
        end = len(line) if letter == "J" else self.at - self.at % self.columns + self.columns
        self.lines[self.line] = line[:self.at] + line[end:]
        if letter == "J":
            del self.lines[self.line + 1:]

    def next_row(self):
        row_end = self.at - self.at % self.columns + self.columns
        if row_end < len(self.lines[self.line]):
            self.at += self.columns
            return
        self.at %= self.columns
        self.line += 1
        if self.line == len(self.lines):
            self.lines.append("")
        self.at = 0

    def put(self, character):
        line = self.lines[self.line].ljust(self.at)
        self.lines[self.line] = line[:self.at] + character + line[self.at + 1:]
        is_at_margin = self.at % self.columns == self.columns - 1
        if self.wraps or not is_at_margin:
            self.at += 1

    def resize(self, columns):
        if not self.reflows:
            row = self.at // self.columns
            before = sum(len(self.rows_of(line)) for line in self.lines[:self.line])
            self.lines = [text[:columns] for line in self.lines for text in self.rows_of(line)]
            self.line, self.at = before + row, min(self.at % self.columns, columns - 1)
        self.columns = columns

    def rows_of(self, line):
        return [line[at:at + self.columns] for at in range(0, len(line), self.columns)] or [""]

    def rows(self):
        """The rows with text."""
        return [row.rstrip() for line in self.lines for row in self.rows_of(line) if row.strip()]
