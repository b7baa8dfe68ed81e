"""The studio: a web application for one reader, on this machine alone.

- `serve.py`: starting it, and its address
- `app.py`: the pages and the questions they may ask
- `guard.py`: who may ask: Host, Origin, token, and how much
- `places.py`: which files it may open
- `shelf.py`: the runs that it has; `answers.py`: what a run is asked
- `jobs.py`: what takes long: one thing at a time, with progress, and a way to stop it
- `reading.py`: a text through a model; `workshop.py`: explain and check
- `checker.py`: check, in a process of its own that ends at a limit of time
"""
