"""The native part of regard."""

def version() -> str:
    """The version of the package that the native part was built for."""

def instruction_set() -> str:
    """The instruction set in use here: "avx512", "avx2", "neon" or "portable"."""
