"""The version of the package, apart from what `import offsetfs` publishes: the broker, which is part of it, needs it."""

__version__ = "0.1.0"
