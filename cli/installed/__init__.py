"""The files that `offsetfs install-helper` installs: a script for mount(8), manual pages, completion, units.

All texts are generated at installation from the click commands that print --help, so that they agree with it.
"""
