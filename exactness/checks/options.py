"""The kernel compiled with other options: contraction switched on, other numbers of warps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from exactness.checks.compiled import OtherHopper, Seen, Trial
from exactness.checks.outcome import Evidence
from exactness.checks.sensitivity import Fate, Judgement
from exactness.claim import Claim

if TYPE_CHECKING:
    from exactness.virtual.launcher import Launch

FUSION = "contraction switched on"
WARPS = (1, 2, 4, 8)
WARP_TRIALS = 2
"""Trials that each number of warps runs on: every one compiles anew."""
FUSION_TRIALS = 6

WARPS_EDGE = "other warps"


def judge_fusion(trials: list[Trial], claim: Claim) -> Judgement | None:
    """Compile with `enable_fp_fusion=True`: other bits, or the same program in effect.

    Args:
        trials: prepared trials.
        claim: whose kernel it is.

    Returns:
        The judgement; None where the kernel is compiled with contraction anyway.
    """
    seen_in_all: list[Seen] = []
    reasons: set[str] = set()
    for trial in _one_of_each(trials)[:FUSION_TRIALS]:
        machine = OtherHopper(options={"enable_fp_fusion": True})
        seen = trial.run(machine)
        if seen.is_different:
            by = f"{trial.label}: {seen.error}" if seen.error else trial.label
            return _judgement(FUSION, Fate.KILLED, [*seen_in_all, seen], by=by, runs=1)
        seen_in_all.append(seen)
        reasons |= {_sameness(a, b) for a, b in _pairs(machine.launches, trial.launches)}
    if reasons == {"not switched on"}:
        return None
    if "" in reasons:
        return _judgement(FUSION, Fate.SURVIVED, seen_in_all)
    reason = " or ".join(sorted(reasons))
    return _judgement(FUSION, Fate.PROVED_EQUAL, seen_in_all, reason=reason)


def judge_warps(trials: list[Trial], evidence: Evidence) -> Iterator[Judgement]:
    """Compile with other numbers of warps, which must give the same bits.

    Args:
        trials: prepared trials of a claim whose order of summation is explicit.
        evidence: gets a problem where bits differ, and what does not compile.
    """
    distinct = _one_of_each(trials)
    chosen = dict.fromkeys((distinct[0], distinct[-1]))
    usual = {launch.num_warps for trial in chosen for launch in trial.launches}
    for warps in WARPS:
        if usual == {warps}:
            continue
        judged = _judge_warps(warps, list(chosen), evidence)
        if judged is not None:
            yield judged


def _judge_warps(warps: int, trials: list[Trial], evidence: Evidence) -> Judgement | None:
    """One number of warps."""
    name = f"{warps} warps"
    all_seen: list[Seen] = []
    for trial in trials:
        try:
            seen = trial.run(OtherHopper(options={"num_warps": warps}))
        except Exception as error:  # Triton refuses in many ways; none of them is a result
            what = " ".join(str(error).split())[:200]
            evidence.skip(WARPS_EDGE, f"{name} on {trial.label}: {type(error).__name__}: {what}")
            return None
        all_seen.append(seen)
        if seen.is_different:
            what = seen.error or f"{seen.differing} elements differ"
            evidence.problem(
                f"the order of summation is not explicit: with {name}, {trial.label} is not the "
                f"reference ({what})"
            )
            return _judgement(name, Fate.KILLED, all_seen, by=trial.label, runs=1)
    reason = "the order of summation is explicit, and the bits are the same"
    return _judgement(name, Fate.EQUIVALENT, all_seen, reason=reason)


def _one_of_each(trials: list[Trial]) -> list[Trial]:
    """The first trial of each set of programs, in order."""
    found: dict[frozenset[tuple[str, str]], Trial] = {}
    for trial in trials:
        found.setdefault(frozenset(trial.programs), trial)
    return list(found.values())


def _pairs(
    actual: list[Launch], expected: list[Launch]
) -> Iterator[tuple[Launch | None, Launch | None]]:
    """Launches in order; a pair of None where their numbers differ."""
    if len(actual) != len(expected):
        yield None, None
    else:
        yield from zip(actual, expected, strict=True)


def _sameness(fused: Launch | None, plain: Launch | None) -> str:
    """Why a launch with contraction has the same bits on all inputs; empty if it need not."""
    from exactness.virtual import sass

    if fused is None or plain is None:
        return ""
    if (fused.ptx, fused.options) == (plain.ptx, plain.options):
        return "not switched on"
    code = [sass.code(sass.assemble(launch.ptx, launch.options)) for launch in (fused, plain)]
    if code[0] == code[1]:
        return "the same machine code"
    if not fused.verdict.contractions and _instructions(fused) == _instructions(plain):
        return "the same instructions, none of them contracted"
    return ""


def _instructions(launch: Launch) -> list[str]:
    """The instructions of a launch as text, without nearest rounding, which fusion leaves out."""
    from exactness.virtual import ptx

    entry = ptx.parse(launch.ptx).entries[launch.kernel]
    return [re.sub(r"\.rn\b", "", instruction.text) for instruction in entry.body]


def _judgement(
    name: str,
    fate: Fate,
    seen: list[Seen],
    *,
    by: str = "",
    reason: str = "",
    runs: int | None = None,
) -> Judgement:
    return Judgement(
        mutant=name,
        fate=fate,
        by=by,
        before_last_rounding=bool(seen) and seen[-1].unrounded_only,
        differing=sum(each.differing for each in seen),
        compared=sum(each.compared for each in seen),
        examples=len(seen),
        telling=sum(each.is_different for each in seen),
        runs=runs,
        reason=reason,
    )
