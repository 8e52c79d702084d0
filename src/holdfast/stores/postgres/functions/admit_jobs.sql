-- Let jobs in as far as the rate limits of their queues and kinds allow, and charge for those that come in. Answers a row
-- per job that is refused: by which limit, for which key, and in how many milliseconds it may come again; without a time it
-- never fits, for more jobs came at once than the limit lets in. `p_whole` lets in all of them or none.
--
-- What was sent before, or is asked for again under its idempotency key, is let in and costs nothing.
DROP FUNCTION IF EXISTS holdfast.admit_jobs;
CREATE FUNCTION holdfast.admit_jobs(
    p_ids bigint[], p_kinds text[], p_queues text[], p_payloads jsonb[], p_tags jsonb[], p_actors text[],
    p_keys text[], p_again boolean, p_whole boolean, p_now timestamptz
) RETURNS TABLE (ordinal integer, detail jsonb)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_ordinals integer[];
    v_names text[];
    v_limit_keys text[];
BEGIN
    SELECT
        array_agg(t.ordinal), array_agg(l.name),
        array_agg(holdfast.limit_key_of(l.path, t.payload, t.tags, t.actor, t.kind, t.queue))
    INTO v_ordinals, v_names, v_limit_keys
    FROM unnest(p_ids, p_kinds, p_queues, p_payloads, p_tags, p_actors)
        WITH ORDINALITY AS t (id, kind, queue, payload, tags, actor, ordinal)
    INNER JOIN holdfast.limits AS l ON l.rate_us IS NOT NULL AND (l.queue = t.queue OR t.kind = ANY (l.kinds));
    IF v_names IS NULL THEN
        RETURN;
    END IF;

    -- In order, so that two calls never wait for each other; what is looked at later is fresh.
    INSERT INTO holdfast.limit_keys (limit_name, key, seen_at)
    SELECT DISTINCT a.name, a.key, p_now
    FROM unnest(v_names, v_limit_keys) AS a (name, key)
    ORDER BY a.name, a.key  -- guard: admission-order
    ON CONFLICT DO NOTHING;
    PERFORM FROM holdfast.limit_keys AS k
    WHERE (k.limit_name, k.key) IN (SELECT a.name, a.key FROM unnest(v_names, v_limit_keys) AS a (name, key))
    ORDER BY k.limit_name, k.key  -- guard: known-key-order
    FOR UPDATE;

    RETURN QUERY
    WITH asked AS (
        SELECT a.ordinal, a.name, a.key
        FROM unnest(v_ordinals, v_names, v_limit_keys) AS a (ordinal, name, key)
        WHERE NOT (p_again AND holdfast.job_exists(p_ids[a.ordinal])) AND NOT EXISTS (
            SELECT FROM holdfast.idempotency AS i
            WHERE i.scope = '' AND i.key = p_keys[a.ordinal] AND i.expires_at > p_now
        )
    ),

    ranked AS (
        SELECT
            a.ordinal, a.name, a.key, l.rate_us, l.rate_burst,
            row_number() OVER (PARTITION BY a.name, a.key ORDER BY a.ordinal) AS place,
            GREATEST(extract(epoch FROM k.rated_until - p_now) * 1000000, 0)::bigint AS ahead_us
        FROM asked AS a
        INNER JOIN holdfast.limits AS l ON l.name = a.name
        INNER JOIN holdfast.limit_keys AS k ON k.limit_name = a.name AND k.key = a.key
    ),

    judged AS MATERIALIZED (
        SELECT r.*, r.ahead_us + (r.place - r.rate_burst) * r.rate_us AS over_us FROM ranked AS r
    ),

    charged AS (
        UPDATE holdfast.limit_keys AS k
        SET
            rated_until = GREATEST(k.rated_until, p_now) + let_in.cost_us * interval '1 microsecond',
            seen_at = p_now
        FROM (
            SELECT j.name, j.key, sum(j.rate_us) AS cost_us
            FROM judged AS j
            WHERE NOT EXISTS (
                SELECT FROM judged AS other WHERE other.over_us > 0 AND (p_whole OR other.ordinal = j.ordinal)
            )
            GROUP BY j.name, j.key
        ) AS let_in
        WHERE k.limit_name = let_in.name AND k.key = let_in.key
    )

    SELECT DISTINCT ON (j.ordinal)
        j.ordinal,
        jsonb_build_object(
            'limit', j.name, 'key', j.key,
            'retry_ms', CASE WHEN j.place <= j.rate_burst THEN ceil(j.over_us / 1000.0)::bigint END
        )
    FROM judged AS j
    WHERE j.over_us > 0
    ORDER BY j.ordinal, j.over_us DESC, j.name;
END
$$;
