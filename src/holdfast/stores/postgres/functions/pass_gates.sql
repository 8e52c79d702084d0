-- Let jobs, queued and locked by the caller, through the limits on them: those that pass hold a slot of every limit that
-- has slots, for the claim that follows, and have a permit of every throttle. All or nothing: what a job got before it was
-- refused is given back. A job that is refused is parked, under the limit that refused it. `p_claims` are the claims that
-- are about to be made.
--
-- Locks are taken in one order: keys (the empty ones last), by name, then throttles, by name. `p_may_wait` says that this
-- transaction holds neither yet; else a job whose key is locked by somebody else stays queued, and a hint says to look
-- again.
DROP FUNCTION IF EXISTS holdfast.pass_gates;
CREATE FUNCTION holdfast.pass_gates(
    p_ids bigint[], p_claims integer[], p_queues text[], p_worker bigint, p_may_wait boolean,
    OUT passed bigint[], OUT permits jsonb, OUT parked boolean, OUT has_spaced boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_group record;
    v_refused bigint[] := '{}';
    v_ids bigint[];
    v_claims integer[];
    v_place integer;
    v_is_locked boolean;
    v_answer record;
    v_key record;
BEGIN
    parked := false;
    has_spaced := false;
    permits := '{}';
    FOR v_group IN
        SELECT
            g.name, g.key, g.name || '/' || g.key AS limit_key, min(g.slots) AS slots, bool_or(g.fifo) AS is_row,
            array_agg(g.id) AS ids, array_agg(g.claim) AS claims
        FROM (
            SELECT
                l.name, l.fifo, CASE WHEN l.fifo THEN 1 ELSE l.concurrency END AS slots, t.id, t.claim,
                CASE
                    WHEN l.path = '{}' THEN ''  -- a call costs more than all the rest of this line
                    ELSE holdfast.limit_key_of(l.path, j.payload, j.tags, j.actor, j.kind, t.queue)
                END AS key
            FROM unnest(p_ids, p_claims, p_queues) WITH ORDINALITY AS t (id, claim, queue, place)
            INNER JOIN holdfast.limits AS l ON l.queue = t.queue OR l.kinds <> '{}'
            LEFT JOIN LATERAL (
                SELECT *
                FROM holdfast.jobs
                WHERE id = t.id AND (l.kinds <> '{}' OR l.path <> '{}')
                OFFSET 0  -- or rows would be read of which nothing is asked
            ) AS j ON true
            WHERE (l.fifo OR (l.concurrency IS NOT NULL AND l.scope = 'cluster'))
                AND (
                    l.queue = t.queue
                    OR (
                        j.kind = ANY (l.kinds)
                        AND EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = t.queue AND q.gated)
                    )
                )
            ORDER BY l.name, key, t.place
        ) AS g
        GROUP BY g.name, g.key
        -- Those with keys first: what they let through is most of what the others may let through.
        ORDER BY g.key = '', g.name, g.key
    LOOP
        v_ids := v_group.ids;
        v_claims := v_group.claims;
        IF cardinality(v_refused) > 0 THEN
            SELECT array_agg(t.id ORDER BY t.place), array_agg(t.claim ORDER BY t.place)
            INTO v_ids, v_claims
            FROM unnest(v_group.ids, v_group.claims) WITH ORDINALITY AS t (id, claim, place)
            WHERE NOT t.id = ANY (v_refused);
            CONTINUE WHEN v_ids IS NULL;
        END IF;
        IF v_group.is_row THEN
            PERFORM holdfast.line_up(v_group.limit_key, v_ids);
        END IF;
        v_is_locked := false;
        LOOP
            IF v_group.is_row THEN
                v_place := holdfast.take_turn(v_group.name, v_group.key, v_ids, v_claims, p_worker);
                IF v_place > 0 THEN
                    v_ids := v_ids[:v_place - 1] || v_ids[v_place + 1:];
                    v_claims := v_claims[:v_place - 1] || v_claims[v_place + 1:];
                END IF;
            ELSE
                v_place := holdfast.take_slots(v_group.name, v_group.key, v_group.slots, v_ids, v_claims, p_worker);
                v_ids := v_ids[COALESCE(v_place, 0) + 1:];
                v_claims := v_claims[COALESCE(v_place, 0) + 1:];
            END IF;
            EXIT WHEN v_place IS NULL;
            EXIT WHEN v_is_locked OR cardinality(v_ids) = 0;
            IF p_may_wait THEN
                PERFORM pg_advisory_xact_lock(holdfast.key_lock(v_group.limit_key));
            ELSIF NOT pg_try_advisory_xact_lock(holdfast.key_lock(v_group.limit_key)) THEN
                EXIT;
            END IF;
            PERFORM set_config('holdfast_call.locked', 'on', true);
            v_is_locked := true;  -- and what was given back before is seen by the statements that follow
        END LOOP;
        CONTINUE WHEN cardinality(v_ids) = 0;
        v_refused := v_refused || v_ids;
        IF v_is_locked AND v_place IS NOT NULL THEN
            PERFORM holdfast.park_jobs(v_group.name, v_group.key, v_ids);
            parked := true;
        ELSE
            PERFORM holdfast.hint_at(ARRAY(SELECT DISTINCT j.queue FROM holdfast.jobs AS j WHERE j.id = ANY (v_ids)));
        END IF;
    END LOOP;

    passed := p_ids;
    IF cardinality(v_refused) > 0 THEN
        passed := ARRAY(SELECT t.id FROM unnest(p_ids) AS t (id) WHERE NOT t.id = ANY (v_refused));
    END IF;
    IF cardinality(passed) > 0 AND EXISTS (SELECT FROM holdfast.limits AS l WHERE l.throttle_us IS NOT NULL) THEN
        SELECT * INTO v_answer FROM holdfast.space_starts(passed);
        permits := v_answer.permits;
        has_spaced := v_answer.has_spaced;
        PERFORM set_config('holdfast_call.locked', 'on', true);
        IF cardinality(v_answer.refused) > 0 THEN
            parked := true;
            v_refused := v_refused || v_answer.refused;
            passed := ARRAY(SELECT t.id FROM unnest(passed) AS t (id) WHERE NOT t.id = ANY (v_refused));
        END IF;
    END IF;
    IF cardinality(v_refused) > 0 THEN
        FOR v_key IN
            WITH freed AS (
                UPDATE holdfast.slots AS s
                SET job_id = NULL, claim = NULL, worker = NULL
                WHERE s.worker = p_worker AND s.job_id = ANY (v_refused)
                    AND s.claim = (SELECT j.claim + 1 FROM holdfast.jobs AS j WHERE j.id = s.job_id)
                RETURNING s.limit_name, s.key
            )

            SELECT limit_name, key, count(*)::integer AS slots FROM freed GROUP BY limit_name, key
        LOOP
            -- Others may have been parked for want of these. The sweep mends it where the key is locked.
            IF pg_try_advisory_xact_lock_shared(holdfast.key_lock(v_key.limit_name || '/' || v_key.key)) THEN
                PERFORM holdfast.release_held(v_key.limit_name, v_key.key, v_key.slots);
            END IF;
        END LOOP;
    END IF;
END
$$;
