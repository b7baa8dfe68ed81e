"""Packages to build Transformers with, each by name, blind and watched: `make packages`."""
