-- Enqueue jobs from SQL, in any language, inside the caller's own transaction.
--
--     SELECT * FROM holdfast.enqueue_v1('[{"kind": "send_email", "args": {"to": "a@example.org"}}]');
--
-- Fields of a job: kind (required), args, queue, priority, run_at, delay_ms, unique, unique_for_ms, key,
-- max_attempts, max_crashes, timeout_ms, tags, actor, extra. Callers of the last release say payload for args. Answers a row per job, in order. A clash is answered and never
-- raised; it waits until the transaction that holds the key has ended. What cannot be a job is raised as an error.
-- What is left out is as the kind's program has published it. A job that a rate limit refuses is raised too, and nothing
-- of the call is stored.
--
-- Runs with the rights of its owner, so that a role which may only call it can do nothing else. It is replaced and never
-- dropped: whoever was granted it keeps it.
DROP FUNCTION IF EXISTS holdfast.enqueue_v1(jsonb, boolean);
CREATE OR REPLACE FUNCTION holdfast.enqueue_v1(jobs jsonb)
RETURNS TABLE (ordinal integer, id bigint, existing boolean, conflict boolean)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_job record;
BEGIN
    FOR v_job IN SELECT * FROM holdfast.enqueue_jobs(jobs) LOOP
        IF v_job.limited IS NOT NULL THEN
            RAISE EXCEPTION 'enqueue_v1: job %: the rate limit % refuses it',
                v_job.ordinal, v_job.limited::jsonb ->> 'limit'
                USING ERRCODE = 'configuration_limit_exceeded', DETAIL = v_job.limited,
                HINT = COALESCE(
                    'Try again in ' || (v_job.limited::jsonb ->> 'retry_ms') || ' ms.',
                    'So many never fit at once: enqueue fewer in one call.'
                );
        END IF;
        RETURN QUERY SELECT v_job.ordinal, v_job.id, v_job.existing, v_job.conflict;
    END LOOP;
END
$$;
REVOKE EXECUTE ON FUNCTION holdfast.enqueue_v1 FROM PUBLIC;
