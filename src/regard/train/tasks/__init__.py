"""What can be learned: one kind of task a file. Start reading at `task`."""
