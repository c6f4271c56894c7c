"""The command line: one module per group of commands, imported when its command runs."""
