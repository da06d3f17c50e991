"""The version, where it is there too for those whose installer leaves `__init__.py` out."""

__version__ = "0.1.0"
