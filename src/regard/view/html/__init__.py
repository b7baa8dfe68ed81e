"""Pages: a trace or a run as one HTML file that needs no network.

- `bundle.py`: the modules of `view/web/` as one script
- `page.py`: the file itself: its policy, its data, its script; the same in a notebook
- `trace.py`, `run.py`: what goes into it
"""
