"""What a person who looks for trouble is told, on the command line and on the system page."""
