"""The references of the compiled modules, in Python: what each function does, with the same results, more slowly.

They are the specification of `offsetfs.storage.native`, and take its place where nothing was compiled.
"""
