"""What keeps a store going besides the jobs: loops that any number of processes may run at once."""
