"""The text behind the shipped model."""

import pytest

from exactness.errors import UsageError
from exactness.quality import corpus

PRINTED = """\
Ge1:1 In the beginning.
Ge1:2 And the earth.
Ge2:1 Thus the heavens.
Eze1:1 Now it came to pass.
Hos1:1 The word.
1Sm1:1 Now there was.
"""


def test_books_go_where_they_belong_a_chapter_apart():
    found = corpus.split(PRINTED)
    expected = b"In the beginning.\nAnd the earth.\n\nThus the heavens.\n\nNow there was.\n"
    assert found.train == expected
    assert found.held_out == b"Now it came to pass.\n"
    assert found.validation == b"The word.\n"


def test_a_line_that_is_no_verse():
    with pytest.raises(UsageError, match="'Chapter one' is not a verse"):
        corpus.split("Chapter one\n")


def test_another_text(tmp_path):
    path = tmp_path / "kjv.txt"
    with pytest.raises(UsageError, match=r"No such file.*bible -f"):
        corpus.read(path)
    path.write_text(PRINTED)
    with pytest.raises(UsageError, match="SHA-256 is"):
        corpus.read(path)
