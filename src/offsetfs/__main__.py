"""`python -m offsetfs …` is the `offsetfs` command."""

from offsetfs.cli import main

main()
