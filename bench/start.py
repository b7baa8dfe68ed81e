"""How long the commands take to start, beside a bare Python in the same run.

The commands take turns, so that a busy moment of the machine hits them alike, and the best time of
each counts: the least disturbed one. Every command is checked before it is timed.

Usage: python bench/start.py [ROUNDS]
"""

import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 10

# A worked example without a mistake.
EXAMPLE = """\
"I love apple phones"

Token	Embedding Vector (X)
I	1.0	0.5	0.2	0.1
love	0.9	1.1	0.1	0.0
apple	0.1	0.2	1.0	0.5
phones	0.0	0.1	0.4	1.2

Query Projection (W_q)

1	0
0	1
1	0
0	1

Key Projection (W_k)

1	0
0	1
0	1
1	0

Value Projection (W_v)

1	0
0	1
1	1
0	1

Attention Weights Matrix

	I	love	apple	phones
I	0.2596	0.2708	0.2100	0.2596
love	0.2361	0.3024	0.2446	0.2169
apple	0.2536	0.2780	0.2201	0.2483
phones	0.2116	0.3166	0.2908	0.1811
"""


def check(command: list[str], says_something: bool) -> None:
    """Stop unless the command succeeds, and says something where it should."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0 or bool(done.stdout.strip()) != says_something:
        sys.exit(
            f"{' '.join(command)}: exit status {done.returncode}, {len(done.stdout)} characters of "
            f"output; not timed.\n{done.stdout}{done.stderr}"
        )


def seconds(command: list[str]) -> float:
    """The time from start to end of one run."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Check, time, and print the table."""
    regard = str(Path(sys.executable).with_name("regard"))
    with tempfile.TemporaryDirectory() as folder:
        example = Path(folder, "example.txt")
        example.write_text(EXAMPLE, encoding="utf-8")
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "regard --help": [regard, "--help"],
            "regard explain": [regard, "explain"],
            "regard check FILE": [regard, "check", str(example)],
        }
        for name, command in commands.items():
            check(command, says_something=name != "python -c pass")
        best = dict.fromkeys(commands, float("inf"))
        for _ in range(ROUNDS):
            for name, command in commands.items():
                best[name] = min(best[name], seconds(command))

    print(
        f"regard {version('regard')}, Python {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} cores, {datetime.date.today()}; "
        f"best of {ROUNDS}, taking turns\n"
    )
    bare = best["python -c pass"]
    print(f"{'command':<18}  {'time':>7}  {'× bare':>7}")
    for name, time_taken in best.items():
        print(f"{name:<18}  {1000 * time_taken:4.0f} ms  {time_taken / bare:7.1f}")


if __name__ == "__main__":
    main()
