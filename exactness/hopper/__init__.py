"""Facts of the Hopper architecture: what an H200 computes, bit by bit."""
