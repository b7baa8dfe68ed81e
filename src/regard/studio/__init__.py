"""The studio: a web application for one reader, on this machine alone.

- `serve.py`: starting it, and its address; `guard.py`: who may ask: Host, Origin, token, and how
  much; `places.py`: its settings, and which files it may open
- `app.py`: the pages and the questions they may ask; `question.py`: what a question must be
- `shelf.py`: the runs that it has; `answers.py`: what a run is asked; `explain.py`: a trace
- `work.py`: questions that compute, a few at a time, each as long as somebody waits for it
- `jobs.py`: what takes long: one thing at a time, with progress, and a way to stop it
- `process.py`: a process of its own, for what native code does not let be stopped otherwise;
  `reading.py`: a text through a model; `sql.py`: SQL; `checker.py`: check
"""
