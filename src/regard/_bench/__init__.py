"""How fast it is here, beside its peers: what `regard bench` measures and shows.

plan.py ─▶ cells ─▶ measure.py (problems, check, machine) ─▶ results.py ─▶ report.py

Ratios are of calls that took turns in one process: the best of each round, the median of the
rounds, and beside them one call raced against itself. Every answer is checked before it is timed.
"""
