"""Which tokens are predicted, and which predictions count."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.errors import UsageError
from exactness.quality import windows
from exactness.quality.windows import Text, Tokens, Windows


def tokens(size):
    return Tokens(Text(Path("the.txt"), b""), np.arange(size), True)


@given(st.data())
@settings(deadline=None)
def test_every_token_in_reach_is_predicted_once(data):
    context = data.draw(st.integers(1, 20), "context")
    stride = data.draw(st.integers(1, context), "stride")
    size = data.draw(st.integers(context + 1, 300), "tokens")
    most = data.draw(st.integers(context, 400), "most")
    found = Windows.over(tokens(size), context, stride, most, 1 << 20, None)
    chunks = [found[number] for number in range(found.chunks)]
    successors = np.concatenate([chunk.tokens[:, 1:][chunk.counted] for chunk in chunks])
    assert successors.tolist() == list(range(1, found.predictions + 1))
    assert found.predictions <= most
    window = np.concatenate([chunk.window for chunk in chunks])
    assert window.size == successors.size
    assert np.all(np.diff(window) >= 0)
    room = min(most, size - 1)
    assert found.predictions + stride > room or found.predictions == room


def test_tokens_of_a_window_see_at_least_what_the_stride_leaves():
    found = Windows.over(tokens(100), 10, 4, 1000, 256, None)
    chunk = found[0]
    assert chunk.tokens[1].tolist() == list(range(4, 15))
    assert chunk.counted[1].tolist() == [False] * 6 + [True] * 4


def test_chunks_hold_few_logits(monkeypatch):
    monkeypatch.setattr(windows, "LOGITS", 1000)
    assert Windows.over(tokens(100), 10, 10, 1000, 50, None).chunk == 2
    assert Windows.over(tokens(100), 10, 10, 1000, 5000, None).chunk == 1


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((8, 9, 100), "--context 8 --stride 9: a context from 1 up and a stride from 1"),
        ((8, 0, 100), "--stride 0"),
        ((8, 8, 7), "--max-tokens 7: at least one window of 8"),
        ((50, 50, 100), "--text the.txt: a window of 50 needs 51 tokens, this text has 50"),
        ((40, 40, 100), "--context 40: the model takes at most 32 tokens"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes, message):
    with pytest.raises(UsageError, match=message):
        Windows.over(tokens(50), *sizes, 256, 32 if sizes[0] == 40 else None)


def test_a_text_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        Text.read(tmp_path / "none.txt")


@pytest.mark.parametrize("content", [b"", b" \n\n "])
def test_an_empty_text(tmp_path, content):
    path = tmp_path / "empty.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="the text is empty"):
        Text.read(path)


def test_a_text_that_is_not_utf_8():
    with pytest.raises(UsageError, match=r"--text the.txt: not UTF-8: .* at byte 1"):
        Text(Path("the.txt"), b"a\xff").decoded()
