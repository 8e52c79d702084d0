"""The process that runs jobs.

Reading order: `kernel`, `identity` and `marks` (who is alive, and what it had begun), `run` (one job on its way),
`slots`, `pump` (what to claim), `starting`, `executor` with `classify`, `threads`, `processes` and `transaction`,
`granting` (what handlers ask for), `finisher`, `reporter` and `exchange` (what is written), `counting`, `leaving`,
`lease` and `worker` (one process), `child`, `enrolment`, `watch`, `instance` and `supervisor` (many).
"""
