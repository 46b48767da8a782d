"""What `wgmma` has under way: products that were issued and not waited for.

The shared memory that a product reads must not be overwritten before its group has been waited
for. Registers need no such care: PTX leaves an early access to an accumulator undefined, but ptxas
puts the missing wait before it (12.8 says so, C7517, and the recorded bits agree).

Source: PTX ISA 9.0, sections 9.7.15.1 and 9.7.15.7 (wgmma.fence, commit_group, wait_group).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exactness.virtual.state import WARP, Bits, State

_WARPS = 4


@dataclass(slots=True, eq=False)
class Product:
    """A product under way.

    Attributes:
        warps: whose it is, (blocks, warps).
        groups: each warp's group number, (blocks, warps).
        granules: shared memory that it reads, by warpgroup of the block.
    """

    warps: Bits
    groups: Bits
    granules: dict[int, Bits]


class ProductGroups:
    """The products that a chunk of blocks has under way.

    Attributes:
        filling: per warp, the number of the group that is being filled, (blocks, warps).
        products: those under way, oldest first.
    """

    def __init__(self, blocks: int, warps: int) -> None:
        """Nothing is under way."""
        self.filling = np.zeros((blocks, warps), np.int64)
        self.products: list[Product] = []


def _groups(state: State) -> ProductGroups:
    if state.products is None:
        state.products = ProductGroups(state.blocks, state.threads // WARP)
    return state.products


def issue(state: State, units: Bits, granules: dict[int, Bits]) -> None:
    """A product has been issued by warpgroups (blocks, units)."""
    groups = _groups(state)
    warps = np.repeat(units, _WARPS, axis=1)
    groups.products.append(Product(warps, groups.filling.copy(), granules))
    for unit, read in granules.items():
        state.shared.tiles.under_way(read, unit)


def commit(state: State, warps: Bits) -> None:
    """wgmma.commit_group by warps (blocks, warps): later products are in the next group."""
    _groups(state).filling += warps


def wait(state: State, warps: Bits, left: int) -> None:
    """wgmma.wait_group by warps: all but the latest `left` groups are done."""
    groups = _groups(state)
    kept: list[Product] = []
    for product in groups.products:
        done = product.warps & warps & (product.groups < groups.filling - left)
        if not done.any():
            kept.append(product)
            continue
        for unit, read in product.granules.items():
            state.shared.tiles.done(read, unit)
        rest = product.warps & ~done
        if rest.any():
            kept.append(Product(rest, product.groups, product.granules))
    # What a later product still reads has been marked as done along with an earlier one's.
    for product in kept:
        for unit, read in product.granules.items():
            state.shared.tiles.under_way(read, unit)
    groups.products = kept
