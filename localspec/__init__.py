"""Speculative decoding of GGUF models at batch size 1, exact and measured."""

__version__ = "0.1.0"
