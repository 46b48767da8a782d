"""What the command line does, a module a command; `cli` only parses."""
