"""Folders with tensors that came from elsewhere: what is read of them, and what is refused.

Start reading at `folder.read_checkpoint`. Nothing here is public; `regard.models`, `regard.nn` and
`regard.run` stand on it. torch is imported when it is needed, not before.
"""
