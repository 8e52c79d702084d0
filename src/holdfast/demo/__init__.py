"""What `holdfast demo` runs: `app`, the tasks of a little shop, and `plan`, what is stored and how it has to end."""
