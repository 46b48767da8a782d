"""The benchmark: a kernel's times on this GPU, its bits checked in the same run."""
