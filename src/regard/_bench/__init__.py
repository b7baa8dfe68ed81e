"""How fast it is here, beside its peers: what `regard bench` and `make bench` measure and show.

plan.py ─▶ cells ─ measure.py (forward, observed, tiles, memory: race.py, check.py) ─▶ results.py
results.py ─▶ report.py (terminal), figure.py (SVG), table.py (Markdown), stored.py (JSON)

Ratios are of calls that took turns in one process: the best of each round, the median of the
rounds, and beside them PyTorch raced against itself. Every answer is checked before it is timed.
"""
