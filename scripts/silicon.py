"""What the scripts that measure a GPU share."""

from __future__ import annotations

import torch
import triton


def machine() -> dict[str, str]:
    """The GPU and the versions that a measurement names."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "capability": ".".join(map(str, torch.cuda.get_device_capability())),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "triton": triton.__version__,
    }
