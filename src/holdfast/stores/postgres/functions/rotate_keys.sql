-- Let the keys of a limit take turns: no more than ten jobs of a key stand in a lane, the others are held, and for each that
-- was taken the next of its key joins at the end of the lane.
DROP FUNCTION IF EXISTS holdfast.rotate_keys;
CREATE FUNCTION holdfast.rotate_keys(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_group record;
BEGIN
    FOR v_group IN
        SELECT l.name, k.key, j.queue, j.priority, count(*)::integer AS taken
        FROM holdfast.limits AS l
        INNER JOIN holdfast.jobs AS j ON j.id = ANY (p_ids) AND (l.queue = j.queue OR j.kind = ANY (l.kinds))
        CROSS JOIN LATERAL (
            SELECT holdfast.limit_key_of(l.path, j.payload, j.tags, j.actor, j.kind, j.queue) AS key
        ) AS k
        WHERE l.rotate
        GROUP BY l.name, k.key, j.queue, j.priority
        ORDER BY l.name, k.key
    LOOP
        FOR round IN 1..10 LOOP
            EXIT WHEN holdfast.park_lane(v_group.name, v_group.key, v_group.queue, v_group.priority, 10) < 900;
        END LOOP;
        PERFORM holdfast.release_held(v_group.name, v_group.key, v_group.taken, true);
    END LOOP;
END
$$;
