"""How Holdfast behaves with millions of rows, pinned snapshots, many connections and a distant database."""
