-- Take a lock if it is free and nobody who lives has waited for it longer; otherwise enter a ticket, or keep it.
--
-- All who ask for one name come one after the other, so that every statement here sees what the asker before has done.
-- Whoever asks again as the same owner gets the same answer. A lock is free without a row, when its time has passed, or
-- when its worker is dead and its claim has ended. Each context waits for one lock at a time, so that what it waits for
-- is one chain; a chain that leads back to the asker is a cycle, and only its youngest ticket is told so.
DROP FUNCTION IF EXISTS holdfast.take_lock;
CREATE FUNCTION holdfast.take_lock(
    p_name text, p_owner text, p_context text, p_place text, p_worker bigint, p_job_id bigint, p_claim integer,
    p_lasts_ms bigint, p_waits_ms bigint,
    OUT token bigint, OUT since timestamptz, OUT ticket bigint, OUT is_cycle boolean
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_held holdfast.locks;
    v_ticket bigint;
BEGIN
    -- guard: lock-turn
    PERFORM pg_advisory_xact_lock(hashtextextended(p_name, 'holdfast.locks'::regclass::oid::bigint));
    v_now := holdfast.clock();
    is_cycle := false;

    SELECT * INTO v_held FROM holdfast.locks AS l WHERE l.name = p_name FOR UPDATE;
    IF v_held.owner = p_owner THEN
        UPDATE holdfast.locks SET until = v_now + p_lasts_ms * interval '1 millisecond' WHERE name = p_name;
        token := v_held.token;
        since := v_held.since;
        RETURN;
    END IF;

    UPDATE holdfast.lock_waiters AS w
    SET until = v_now + p_waits_ms * interval '1 millisecond'
    WHERE w.owner = p_owner
    RETURNING w.ticket INTO v_ticket;
    IF NOT FOUND THEN
        INSERT INTO holdfast.lock_waiters (name, owner, context, place, worker, job_id, claim, since, until)
        VALUES (
            p_name, p_owner, p_context, p_place, p_worker, p_job_id, p_claim, v_now,
            v_now + p_waits_ms * interval '1 millisecond'
        )
        RETURNING ticket INTO v_ticket;
    END IF;

    IF (
        v_held.name IS NULL
        OR v_held.until <= v_now
        OR (
            v_held.worker IS NOT NULL
            -- guard: lock-living-worker
            AND NOT EXISTS (SELECT FROM holdfast.workers AS w WHERE w.id = v_held.worker AND w.dead_at IS NULL)
            AND NOT EXISTS (
                SELECT FROM holdfast.jobs AS j
                -- guard: lock-running-claim, without: WHERE false
                WHERE j.id = v_held.job_id AND j.claim = v_held.claim AND j.state = 'running'
            )
        )
    ) AND NOT EXISTS (
        -- guard: lock-order, without: SELECT WHERE false
        SELECT FROM holdfast.lock_waiters AS w WHERE w.name = p_name AND w.ticket < v_ticket AND w.until > v_now
    ) THEN
        DELETE FROM holdfast.lock_waiters AS w WHERE w.ticket = v_ticket;
        INSERT INTO holdfast.locks AS l (name, token, owner, context, place, worker, job_id, claim, since, until)
        VALUES (
            p_name, nextval('holdfast.lock_token_seq'::regclass), p_owner, p_context, p_place, p_worker, p_job_id,
            p_claim, v_now, v_now + p_lasts_ms * interval '1 millisecond'
        )
        ON CONFLICT (name) DO UPDATE
        SET
            token = excluded.token,
            owner = excluded.owner,
            context = excluded.context,
            place = excluded.place,
            worker = excluded.worker,
            job_id = excluded.job_id,
            claim = excluded.claim,
            since = excluded.since,
            until = excluded.until
        RETURNING l.token, l.since INTO token, since;
        RETURN;
    END IF;

    ticket := v_ticket;
    WITH RECURSIVE chain (context) AS (
        SELECT l.context FROM holdfast.locks AS l WHERE l.name = p_name AND l.until > v_now
        UNION
        SELECT l.context
        FROM chain
        INNER JOIN holdfast.lock_waiters AS w ON w.context = chain.context AND w.until > v_now
        INNER JOIN holdfast.locks AS l ON l.name = w.name AND l.until > v_now
    )

    SELECT
        EXISTS (SELECT FROM chain WHERE chain.context = p_context)
        AND NOT EXISTS (
            SELECT
            FROM chain
            INNER JOIN holdfast.lock_waiters AS w ON w.context = chain.context AND w.until > v_now
            WHERE w.ticket > v_ticket
        )
    INTO is_cycle;
END
$$;
