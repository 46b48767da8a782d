"""The text behind the shipped model: the King James Version, one book of it held out.

Source: Debian package bible-kjv-text 4.38; its copyright file says that the copyright of the text
has expired. The package `bible-kjv` prints it, a verse a line with the reference in front:
`bible -f 'Gen1:1-Rev22:21' > kjv.txt`.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from exactness.errors import UsageError

COMMAND = "bible -f 'Gen1:1-Rev22:21'"
PRINTED_SHA256 = "cd45f0c9cedab8e4439bd6486c8952c77cc8b0ecc5d1f6ae3513f2039f47229d"

HELD_OUT = "Eze"
VALIDATION = "Hos"

_VERSE = re.compile(r"(?P<book>\d?[A-Za-z]+)(?P<chapter>\d+):\d+ (?P<text>.+)")


@dataclass(frozen=True)
class Corpus:
    """The text by what it is for, a verse a line and an empty line after each chapter.

    Attributes:
        train: what the model learns.
        validation: a book to choose settings by.
        held_out: a book that nothing was chosen by.
    """

    train: bytes
    validation: bytes
    held_out: bytes


def read(path: Path) -> Corpus:
    """Split what the `bible` program printed.

    Raises:
        UsageError: the file is missing or another text.
    """
    try:
        printed = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; {COMMAND} > {path} makes it") from None
    found = hashlib.sha256(printed).hexdigest()
    if found != PRINTED_SHA256:
        raise UsageError(
            f"{path}: SHA-256 is {found[:12]}…, expected {PRINTED_SHA256[:12]}…: "
            f"the output of {COMMAND} of Debian's bible-kjv 4.38"
        )
    return split(printed.decode("ascii"))


def split(printed: str) -> Corpus:
    """Verses in the order of the text, without references, divided by book.

    Raises:
        UsageError: a line is not a verse.
    """
    parts: dict[str, list[str]] = {HELD_OUT: [], VALIDATION: [], "": []}
    verses = [_verse(line) for line in printed.splitlines()]
    for (book, _), chapter in itertools.groupby(verses, key=lambda verse: verse[:2]):
        lines = "".join(f"{text}\n" for _, _, text in chapter)
        parts[book if book in parts else ""].append(lines)
    texts = {name: "\n".join(chapters).encode("ascii") for name, chapters in parts.items()}
    return Corpus(texts[""], texts[VALIDATION], texts[HELD_OUT])


def _verse(line: str) -> tuple[str, str, str]:
    found = _VERSE.fullmatch(line.rstrip())
    if found is None:
        raise UsageError(f"{line!r:.60} is not a verse behind its reference, as 'Ge1:1 In the …'")
    return found["book"], found["chapter"], found["text"]
