"""What a call should cost: logical bytes and operations, and the machine's two ceilings."""

from __future__ import annotations

from dataclasses import dataclass

GIVEN = "given"
MEASURED = "measured"


@dataclass(frozen=True)
class Peaks:
    """The two ceilings of a machine.

    Attributes:
        bandwidth_gbs: memory bandwidth in 10^9 bytes a second, read plus written.
        bf16_tflops: bf16 matrix rate in 10^12 operations a second.
        bandwidth_source: `GIVEN` or `MEASURED`.
        tflops_source: `GIVEN` or `MEASURED`.
    """

    bandwidth_gbs: float
    bf16_tflops: float
    bandwidth_source: str = MEASURED
    tflops_source: str = MEASURED

    def __post_init__(self) -> None:
        """Refuse a ceiling that nothing could reach a share of.

        Raises:
            ValueError: a rate is not above zero.
        """
        for name in ("bandwidth_gbs", "bf16_tflops"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: {getattr(self, name)} is not accepted; above 0 is")


@dataclass(frozen=True)
class Amount:
    """Logical work of a call: bytes, every tensor once in and once out, and operations."""

    bytes: int
    flops: int = 0

    def gbs(self, microseconds: float) -> float:
        """Achieved 10^9 bytes a second."""
        return self.bytes / microseconds / 1e3

    def tflops(self, microseconds: float) -> float:
        """Achieved 10^12 operations a second."""
        return self.flops / microseconds / 1e6

    def memory_us(self, peaks: Peaks) -> float:
        """The time that the bytes alone need, µs."""
        return self.bytes / peaks.bandwidth_gbs / 1e3

    def arithmetic_us(self, peaks: Peaks) -> float:
        """The time that the operations alone need on the matrix units, µs."""
        return self.flops / peaks.bf16_tflops / 1e6

    def is_arithmetic_bound(self, peaks: Peaks) -> bool:
        """Whether the roofline is the arithmetic's."""
        return self.arithmetic_us(peaks) > self.memory_us(peaks)

    def roofline_us(self, peaks: Peaks) -> float:
        """The shortest time that both ceilings allow, µs."""
        return max(self.memory_us(peaks), self.arithmetic_us(peaks))

    def share(self, microseconds: float, peaks: Peaks) -> float:
        """Share of the roofline, 1 being its own time."""
        return self.roofline_us(peaks) / microseconds

    def rate(self, microseconds: float, peaks: Peaks) -> tuple[float, str]:
        """The rate that counts under the roofline, and its unit."""
        if self.is_arithmetic_bound(peaks):
            return self.tflops(microseconds), "TFLOPS"
        return self.gbs(microseconds), "GB/s"
