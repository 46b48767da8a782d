"""The kernel compiled with other options: contraction switched on, other numbers of warps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from exactness.checks.compiled import OtherHopper, Trial
from exactness.checks.outcome import Evidence
from exactness.checks.sensitivity import Fate, Judgement
from exactness.checks.workbench import PROVED, Tally, Workbench, search
from exactness.virtual import ptx, sass
from exactness.virtual.census import census
from exactness.virtual.edited import Before, uncontracted
from exactness.virtual.editing import Edit, Editing
from exactness.virtual.exhaustion import proved_without_effect
from exactness.virtual.faults import place_names
from exactness.virtual.instructions import Entry, Instruction
from exactness.virtual.watching import Observation, watching

if TYPE_CHECKING:
    from exactness.virtual.launcher import Launch

Program: TypeAlias = tuple[str, str]
"""Name of a kernel and its PTX."""

FUSION = "contraction switched on"
FUSED = {"enable_fp_fusion": True}
FUSION_TRIALS = 6
NOT_SWITCHED_ON = "contraction is on as it is"

WARPS = (1, 2, 4, 8)
WARPS_EDGE = "other warps"


def judge_fusion(bench: Workbench) -> Iterator[Judgement]:
    """Compile with `enable_fp_fusion=True`: other bits, or the same arithmetic in effect.

    Yields:
        The judgement; none where the kernel is compiled with contraction anyway.
    """
    tally, contractions = Tally(FUSION, bench), Contractions()
    trials = _one_of_each(bench.first)[:FUSION_TRIALS]
    for trial in trials:
        programs: dict[tuple[str, str], None] = {}
        machine = OtherHopper(_noting(programs), FUSED)
        if tally.add(trial, machine).is_different:
            yield tally.judgement(Fate.KILLED, runs=1)
            return
        for fused, plain in _pairs(machine.launches, trial.launches):
            contractions.add(_sameness(fused, plain), list(programs), list(trial.programs), trial)
    if contractions.reasons != {NOT_SWITCHED_ON}:
        yield contractions.judgement(tally, bench)


def _noting(programs: dict[tuple[str, str], None]) -> Edit:
    """An edit that changes nothing and keeps what it sees."""

    def edit(text: str, kernel: str) -> str:
        programs[kernel, text] = None
        return text

    return edit


class Contractions:
    """What contraction changed in programs whose bits did not change.

    Attributes:
        reasons: why launches are the same; empty strings for those that need not be.
    """

    def __init__(self) -> None:
        self.reasons: set[str] = set()
        self._trials: list[Trial] = []
        self._merged: dict[tuple[str, str], list[Instruction]] = {}
        self._unclear = False

    def add(self, reason: str, fused: list[Program], plain: list[Program], trial: Trial) -> None:
        """Count a launch; where it is not the same, find the contracted instructions."""
        self.reasons.add(reason)
        if reason:
            return
        self._trials.append(trial)
        self._unclear |= len(fused) != len(plain)
        for program, other in zip(fused, plain, strict=False):
            merged = _merged(program, other)
            self._unclear |= merged is None
            self._merged[program] = merged or []

    def judgement(self, tally: Tally, bench: Workbench) -> Judgement:
        """Equal by its instructions, by exhaustion, or by a search."""
        if not self._trials:
            return tally.judgement(Fate.PROVED_EQUAL, reason=" or ".join(sorted(self.reasons)))
        if self._unclear or not any(self._merged.values()):
            return tally.judgement(Fate.SURVIVED, reason="what was contracted is not clear")
        if all(self._proved(*program) for program in self._merged):
            return tally.judgement(Fate.PROVED_EQUAL, reason=PROVED)
        return search(tally, bench, self._trials, self._watched)

    def _proved(self, kernel: str, text: str) -> bool:
        entry = ptx.parse(text).entries[kernel]
        return proved_without_effect(entry, uncontracted(self._merged[kernel, text]))

    def _watched(self, observed: Observation) -> OtherHopper:
        """The contracted kernel, each contraction compared with two roundings."""
        lines = {
            (program[0], instruction.text)
            for program, merged in self._merged.items()
            for instruction in merged
        }

        def before(_: Entry, entry: Entry) -> Before:
            chosen = [i for i in entry.body if (entry.name, i.text) in lines]
            return uncontracted(chosen)

        return OtherHopper(Editing(_unchanged, watching(observed, before)), FUSED)


def _unchanged(text: str, kernel: str) -> str:
    return text


def _merged(fused: Program, plain: Program) -> list[Instruction] | None:
    """The fused multiply-adds that only one of the programs has; None if that is not certain."""
    entries = [ptx.parse(text).entries[kernel] for kernel, text in (fused, plain)]
    places = [place_names(entry) for entry in entries]
    written = {places[1][i] for i in entries[1].body if i.opcode == "fma"}
    found = [i for i in entries[0].body if i.opcode == "fma"]
    more = len(found) - sum(i.opcode == "fma" for i in entries[1].body)
    merged = [i for i in found if places[0][i] not in written]
    return merged if len(merged) == more else None


def judge_warps(bench: Workbench, warps: int, evidence: Evidence) -> Judgement | None:
    """Compile with another number of warps, which must give the same bits.

    Args:
        bench: trials of a claim whose order of summation is explicit.
        warps: the number.
        evidence: gets a problem where bits differ, and what does not compile.

    Returns:
        None if it does not compile.
    """
    tally = Tally(f"{warps} warps", bench)
    for trial in _first_and_largest(bench):
        try:
            seen = tally.add(trial, OtherHopper(options={"num_warps": warps}))
        except Exception as error:  # Triton refuses in many ways; none of them is a result
            what = " ".join(str(error).split())[:200]
            named = f"{tally.name} on {trial.label}: {type(error).__name__}"
            evidence.skip(WARPS_EDGE, f"{named}: {what}")
            return None
        if seen.is_different:
            evidence.problem(
                f"the order of summation is not explicit: with {tally.name}, {trial.label} is not "
                f"the reference ({seen.what})"
            )
            return tally.judgement(Fate.KILLED, runs=1)
    reason = "the order of summation is explicit, and the bits are the same"
    return tally.judgement(Fate.EQUIVALENT, reason=reason)


def other_warps(bench: Workbench) -> list[int]:
    """The numbers of warps that the kernel is not compiled with anyway."""
    usual = {each.num_warps for trial in _first_and_largest(bench) for each in trial.launches}
    return [warps for warps in WARPS if usual != {warps}]


def _first_and_largest(bench: Workbench) -> list[Trial]:
    largest = max(bench.first, key=lambda trial: trial.instructions)
    return list(dict.fromkeys((bench.first[0], largest)))


def _one_of_each(trials: list[Trial]) -> list[Trial]:
    """The first trial of each set of programs, in order."""
    found: dict[frozenset[Program], Trial] = {}
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
    if fused is None or plain is None:
        return ""
    if (fused.ptx, fused.options) == (plain.ptx, plain.options):
        return NOT_SWITCHED_ON
    code = [sass.code(sass.assemble(launch.ptx, launch.options)) for launch in (fused, plain)]
    if code[0] == code[1]:
        return "the same machine code"
    if not fused.verdict.contractions and _arithmetic(fused) == _arithmetic(plain):
        return "the same arithmetic, nothing contracted"
    return ""


def _arithmetic(launch: Launch) -> Counter[str]:
    """Numeric instructions by name, without nearest rounding, which fusion leaves unsaid."""
    counts: Counter[str] = Counter()
    for name, count in census(ptx.parse(launch.ptx).entries[launch.kernel]).items():
        counts[name.replace(".rn", "")] += count
    return counts
