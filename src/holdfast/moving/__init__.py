"""Moving all jobs from one store to another: close the source, copy, compare, mark it as moved, let the copies run."""
