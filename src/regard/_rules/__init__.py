"""How each cell of a step came about: rules that are plain data, and need NumPy alone."""
