"""Tests of `regard.models`; `models.folders` makes the folders that they load."""
