import lzma
import subprocess
import sys
from importlib import resources

import numpy as np
import pytest

from exactness.hopper import tables
from exactness.hopper.tables import CorruptTableError


def compressed(table):
    return (resources.files("exactness.hopper") / "mufu" / f"{table.name}.i8.xz").read_bytes()


@pytest.mark.parametrize("table", tables.TABLES, ids=lambda table: f"table={table.name}")
def test_patterns_are_within_2_ulp_of_the_exact_function(table):
    patterns = tables.patterns(table)
    assert patterns.dtype == np.int32
    assert patterns.shape == (table.size,)
    inputs = np.arange(table.first, table.first + table.size, 997, dtype=np.int32)
    exact = table.function(inputs.view(np.float32).astype(np.float64)).astype(np.float32)
    assert np.max(np.abs(patterns[::997] - exact.view(np.int32))) <= 2


def test_patterns_are_cached_and_read_only():
    first = tables.patterns(tables.RCP)
    assert tables.patterns(tables.RCP) is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0


def test_one_changed_distance_is_refused():
    distance = bytearray(lzma.decompress(compressed(tables.RCP)))
    distance[12345] = (distance[12345] + 1) % 256
    with pytest.raises(CorruptTableError, match=r"'rcp' has SHA-256 \w+, c4083814\w+ is accepted"):
        tables.rebuild(tables.RCP, lzma.compress(bytes(distance), preset=0))


def test_a_short_table_is_refused():
    with pytest.raises(CorruptTableError, match="holds 3 results, 8388608 are accepted"):
        tables.rebuild(tables.RCP, lzma.compress(b"\0\0\0"))


@pytest.mark.parametrize("cut", [0, 100, 100_000], ids=lambda cut: f"cut={cut}")
def test_a_truncated_file_is_refused(cut):
    with pytest.raises(CorruptTableError, match=r"'rcp'.*reinstall exactness"):
        tables.rebuild(tables.RCP, compressed(tables.RCP)[:cut])


def test_bytes_that_are_not_lzma_are_refused():
    with pytest.raises(CorruptTableError, match="cannot be decompressed"):
        tables.rebuild(tables.RCP, b"version https://git-lfs")


def test_a_missing_file_is_named():
    table = tables.MufuTable("absent", 0, 1, np.sqrt, "")
    with pytest.raises(CorruptTableError, match=r"'absent' is missing .*absent\.i8\.xz"):
        tables.patterns(table)


def test_import_reads_no_table_and_no_torch():
    program = (
        "import sys; from exactness.hopper import cuda_math, division, special, tables;"
        "print(tables.patterns.cache_info().currsize, 'torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stdout.split(), run.returncode) == (["0", "False"], 0), run.stderr
