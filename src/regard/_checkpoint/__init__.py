"""Weights on disk that came from elsewhere: what is read of a folder, and what is refused.

Start reading at `folder.read_checkpoint`. Nothing here is public; `regard.models` and `regard.nn`
stand on it.
"""
