"""Run kernels other than as they are written: an edited PTX, other compile options.

For mutants of compiled kernels. `Editing` changes the program after everything was decided that
PTX leaves to ptxas (`fusion.resolve`), and what it returns is executed as it is written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from exactness.virtual import ptx
from exactness.virtual.errors import LaunchError
from exactness.virtual.program import Program, decode_entry

if TYPE_CHECKING:
    from exactness.virtual.fusion import Resolved

Edit: TypeAlias = Callable[[str, str], str]
"""PTX text and name of the kernel to the PTX text that is executed."""

Watch: TypeAlias = Callable[[ptx.Entry, ptx.Entry], Program]
"""The kernel as it was and as it is, to the program to execute: a place to observe both."""


class Editing:
    """Edits the programs of one `hopper()` block, each of them once."""

    def __init__(self, edit: Edit, watch: Watch | None = None) -> None:
        """Keep both; `watch` decodes kernels in place of `decode_entry`, edited or not."""
        self._edit, self._watch = edit, watch
        self._programs: dict[tuple[str, str], Program] = {}

    def program(self, resolved: Resolved, kernel: str) -> Program:
        """What to execute in place of `resolved`.

        Raises:
            LaunchError: the edited text has another kernel or other parameters.
        """
        key = resolved.text, kernel
        if key not in self._programs:
            self._programs[key] = self._edited(resolved, kernel)
        return self._programs[key]

    def _edited(self, resolved: Resolved, kernel: str) -> Program:
        original = resolved.module.entries[kernel]
        text = self._edit(resolved.text, kernel)
        module = resolved.module if text == resolved.text else ptx.parse(text)
        entry = module.entries.get(kernel)
        if entry is None or entry.params != original.params:
            raise LaunchError("the edited PTX lacks the kernel or its parameters", kernel=kernel)
        return decode_entry(entry) if self._watch is None else self._watch(original, entry)


@contextlib.contextmanager
def launch_options(options: Mapping[str, Any]) -> Iterator[None]:
    """Launch every Triton kernel of this block with these options, whatever its launcher says.

    Args:
        options: what a launch takes besides arguments: `num_warps`, `num_stages`,
            `enable_fp_fusion` …. Those of an autotuned configuration are overridden, too.
    """
    if not options:
        yield
        return
    from triton.runtime.jit import JITFunction

    original = JITFunction.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **{**kwargs, **options})

    JITFunction.run = run
    try:
        yield
    finally:
        JITFunction.run = original
