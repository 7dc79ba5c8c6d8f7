"""What may be concluded from the accesses of a trace: actions, arrows, coalescing, bank conflicts, races."""
