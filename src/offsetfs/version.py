"""The version of the package: apart, because `import offsetfs` names the broker, and the broker shows its version."""

__version__ = "0.1.0"
