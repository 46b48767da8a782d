"""Which contract explains the outputs of a foreign kernel? The data behind `verify --which`.

`given` reads the user's file, `contracts` finds the contracts that take it and runs their
references, `changes` looks for a single change of one of them that explains what none does, and
`apart` for inputs that tell apart those that do. No kernel is launched: it is only asked whether it
accepts the parameters (`accepted`).
"""

from __future__ import annotations

from exactness.which.apart import Apart, apart
from exactness.which.changes import Changes, single_changes
from exactness.which.contracts import Contract, Finding, LeftOut, Match, match
from exactness.which.given import Given

__all__ = [
    "Apart",
    "Changes",
    "Contract",
    "Finding",
    "Given",
    "LeftOut",
    "Match",
    "apart",
    "match",
    "single_changes",
]
