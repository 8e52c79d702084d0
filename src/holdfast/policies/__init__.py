"""What an operations team sets: limits, budgets, escalation, and when people work. Plain values, no I/O."""
