"""The process that runs jobs.

Reading order: `kernel`, `identity` and `marks` (who is alive, and what it had begun), `run` (one job on its way),
`slots`, `pump` (what to claim), `executor` with `classify`, `threads`, `processes` and `transaction`, `finisher`,
`reporter` and `exchange` (what is written), `lease` and `worker` (one process), `child` and `supervisor` (many).
"""
