"""`python -m exactness`."""

from exactness.cli import main

if __name__ == "__main__":
    main(prog_name="exactness")
