"""Every family of transformers, built small, run blind and watched, and judged: `make families`."""
