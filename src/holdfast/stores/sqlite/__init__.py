"""Jobs in one SQLite file, or in memory: no server, any number of processes on one machine."""
