"""`exactness ppl` with the shipped model, the real claim and the virtual Hopper."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from exactness.cli import main
from exactness.commands import ppl
from exactness.quality import windows

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--context", "16", "--max-tokens", "160", "--device", "cpu", "--project", str(ROOT))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in, and chunks of two windows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(windows, "TOKENS", 32)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(main, ["ppl", *arguments])


def test_report(here):
    done = run(*SMALL)
    assert done.exit_code == 0, done.output
    same = "exactly zero in every figure, the same bits in every logit"
    assert f"A/A: {same}" in done.output
    assert f"kernel = reference: {same}" in done.output
    assert "160 of 205,311 tokens, context 16, stride 16" in done.output
    assert "replaced 3 norms by qnorm, 90 calls" in done.output
    assert "kernels on virtual Hopper (sm_90)" in done.output
    assert "verdict: f32_acc is" in done.output
    folder = here / "ppl"
    pictures = ["kl-divergence.svg", "norm-errors.svg", "token-differences.svg"]
    assert sorted(file.name for file in folder.iterdir()) == [
        *pictures[:2],
        "report.json",
        "report.txt",
        pictures[2],
    ]
    for name in pictures:
        ET.parse(folder / name)
    report = json.loads((folder / "report.json").read_text())
    assert report["schema_version"] == 1
    assert report["verdict"]["text"] in (folder / "report.txt").read_text()
    norms = {each["name"]: each for each in report["norms"]}
    assert list(norms) == ["layers.0.q_norm", "layers.1.q_norm", "layers.2.q_norm"]
    assert all(n["variant"]["gain_size"] < n["default"]["gain_size"] for n in norms.values())


def stop_in_the_third_chunk(monkeypatch):
    honest, scored = ppl.Run.chunks, []

    def stopping(self, store, step):
        def stop(leg):
            scored.append(leg)
            if len(scored) == 17:  # in the third chunk
                raise KeyboardInterrupt
            step(leg)

        return honest(self, store, stop)

    monkeypatch.setattr(ppl.Run, "chunks", stopping)


def test_stopped_and_resumed(here, monkeypatch):
    stop_in_the_third_chunk(monkeypatch)
    done = run(*SMALL, "--report", "out")
    assert done.exit_code == ppl.INTERRUPTED
    assert "stopped: chunks kept: 2, left: 3; --resume goes on" in done.output
    assert len(list((here / "out").glob("chunk-*.npz"))) == 2
    monkeypatch.undo()
    monkeypatch.chdir(here)
    monkeypatch.setattr(windows, "TOKENS", 32)
    refused = run(*SMALL, "--stride", "8", "--report", "out", "--resume")
    assert refused.exit_code == 2
    assert "--resume: stride was 16, now it is 8" in refused.output
    assert run(*SMALL, "--report", "out", "--resume").exit_code == 0
    assert run(*SMALL, "--report", "whole").exit_code == 0
    resumed, whole = (
        json.loads((here / name / "report.json").read_text()) for name in ("out", "whole")
    )
    del resumed["seconds"], whole["seconds"]
    assert resumed == whole


def test_a_new_run_leaves_no_report_that_looks_like_its_own(here, monkeypatch):
    assert run(*SMALL).exit_code == 0
    folder = here / "ppl"
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert before.keys() == set(ppl.FILES)
    stop_in_the_third_chunk(monkeypatch)
    assert run(*SMALL).exit_code == ppl.INTERRUPTED
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert not kept.keys() & before.keys()
    assert all(kept[f"previous-{name}"] == content for name, content in before.items())
    monkeypatch.undo()
    monkeypatch.chdir(here)
    monkeypatch.setattr(windows, "TOKENS", 32)
    done = run(*SMALL)
    assert done.exit_code == 0
    assert "2 finished chunks discarded; --resume would have gone on" in done.output
    assert set(ppl.FILES) <= {file.name for file in folder.iterdir()}


@pytest.mark.parametrize("where", ["opened", "Run"])
def test_ctrl_c_before_anything_is_scored(here, monkeypatch, where):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(ppl, where, interrupted)
    done = run(*SMALL)
    assert done.exit_code == ppl.INTERRUPTED
    assert done.output.strip() == "stopped: nothing was scored"
    assert not list(here.glob("ppl/*"))


def test_ctrl_c_while_the_report_is_written_keeps_the_chunks(here, monkeypatch):
    def interrupted(result):
        raise KeyboardInterrupt

    monkeypatch.setattr(ppl, "_files", interrupted)
    done = run(*SMALL)
    assert done.exit_code == ppl.INTERRUPTED
    assert "stopped: chunks kept: 5, left: 0; --resume goes on" in done.output
    monkeypatch.undo()
    monkeypatch.chdir(here)
    monkeypatch.setattr(windows, "TOKENS", 32)
    assert run(*SMALL, "--resume").exit_code == 0
    norms = json.loads((here / "ppl" / "report.json").read_text())["replaced"]
    assert {norm["width"] for norm in norms} == {512}


def test_ctrl_c_on_the_real_thing(here):
    """A process that is interrupted keeps what it has and says how to go on."""
    command = [sys.executable, "-m", "exactness", "ppl", "--project", str(ROOT), "--report", "out"]
    started = subprocess.Popen(
        [*command, "--device", "cpu"],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):
        if list((here / "out").glob("chunk-*.npz")) or started.poll() is not None:
            break
        time.sleep(0.1)
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=60)
    assert started.returncode == ppl.INTERRUPTED, errors
    assert "--resume goes on" in errors
    assert "Traceback" not in errors


def test_a_leg_that_does_not_repeat_itself_exits_with_1(here, monkeypatch):
    from exactness.quality import patched

    honest = patched.Patched.function

    def function(self, leg):
        computed = honest(self, leg)
        return (lambda x: -computed(x)) if leg.key == "again" else computed

    monkeypatch.setattr(patched.Patched, "function", function)
    done = run(*SMALL)
    assert done.exit_code == 1
    assert "A/A: DIFFERS" in done.output
    assert "No verdict: the default leg does not repeat its own logits" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--text", "none.txt"), "--text none.txt: No such file"),
        (("--text", "empty.txt"), "--text empty.txt: the text is empty"),
        (
            ("--text", "short.txt"),
            "--text short.txt: a window of 16 needs 17 tokens, this text has 9",
        ),
        (("--patch", "*.k_norm=qnorm"), "no norm matches; the model's norms are layers.*.q_norm"),
        (("--patch", "q_norm"), "pattern=claim or pattern=claim:variant is accepted"),
        (("--patch", "*=nothing"), "claim 'nothing' is unknown"),
        (("--patch", "*=qnorm:f16"), "has no variant 'f16'; known are f32_acc"),
        (("--patch", "*=silu_and_mul"), "a norm takes x, eps, perhaps weight"),
        (("--patch", "*=sinkhorn"), "claim sinkhorn takes x, iterations, eps; a norm takes x, eps"),
        (("--patch", "*=k_rms_norm"), "claim k_rms_norm multiplies by a weight; layers.0.q_norm"),
        (("--stride", "17"), "a stride from 1 to the context"),
        (("--max-tokens", "5"), "--max-tokens 5: at least one window of 16"),
        pytest.param(
            ("--model", "./none"),
            "--model ./none: no such directory",
            marks=pytest.mark.skipif(
                importlib.util.find_spec("transformers") is None,
                reason="transformers is not installed (the extra `quality` brings it)",
            ),
        ),
        (("--model", "short.safetensors"), "short.safetensors: not a model of this package"),
        (
            ("--model", "./short.safetensors"),
            "for one of transformers a folder or a name on the hub",
        ),
        (("--report", "./short.txt"), ": cannot be written: Not a directory"),
        (("--resume",), "--resume: ppl has no run to go on with"),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line(here, arguments, message):
    (here / "empty.txt").write_bytes(b"")
    for name in ("short.txt", "short.safetensors"):
        (here / name).write_bytes(b"too short")
    done = run(*SMALL, *arguments)
    assert done.exit_code == 2, done.output
    assert message in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert not list(here.glob("ppl/*"))


def test_outside_of_a_project_a_checkout_is_asked_for(here):
    done = run("--context", "16", "--project", str(here))
    assert done.exit_code == 2
    assert done.output.strip().endswith("or name a checkout of exactness by --project")


def test_without_torch(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ppl.UsageError, match=r"pip install 'exactness\[torch\]'"):
        ppl.opened(None, "cpu")
