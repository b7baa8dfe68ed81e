"""Tests of `regard.models`; `helpers.model_folders` makes the folders that they load."""
