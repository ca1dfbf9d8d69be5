"""What `offsetfs install-helper` puts into a system: a script for mount(8), manual pages, completion, units.

Everything is made when it is installed, from the same click commands that print --help, so that none of it can say
something else.
"""
