-- name: raise_alarm
-- Put an alarm into the inbox, if somebody is to be told of it.
INSERT INTO holdfast.alarms (at, source, policy, queue, kind, fingerprint, job_id, life, title, details)
SELECT holdfast.clock(), $1, COALESCE($2, q.escalation), $3, $4, $5, $6, $7, $8, $9::jsonb
FROM (SELECT) AS one
LEFT JOIN holdfast.queues AS q ON q.name = $3
WHERE COALESCE($2, q.escalation) IS NOT NULL;

-- name: raise_missed
-- Put an alarm into the inbox that a time of a schedule was missed, if its queue has a policy.
INSERT INTO holdfast.alarms (at, source, policy, queue, kind, fingerprint, title, details)
SELECT
    holdfast.clock(), 'schedule', q.escalation, q.name, s.definition ->> 'kind', s.name,
    'schedule ' || s.name || ' was missed',
    jsonb_strip_nulls(jsonb_build_object('schedule', s.name, 'nominal', $2::timestamptz, 'note', $3::text))
FROM holdfast.schedules AS s
INNER JOIN holdfast.queues AS q ON q.name = s.definition -> 'job' ->> 'queue'
WHERE s.name = $1 AND q.escalation IS NOT NULL;

-- name: define_escalations
-- Make policies known.
INSERT INTO holdfast.escalation_policies (name, digested_at)
SELECT name, holdfast.clock() FROM unnest($1::text[]) AS t (name) ORDER BY name
ON CONFLICT (name) DO NOTHING;

-- name: has_alarms
-- Look whether there is anything to take from the inbox.
SELECT EXISTS (
    SELECT
    FROM holdfast.alarms AS a
    LEFT JOIN holdfast.queues AS q ON q.name = a.queue
    WHERE COALESCE(a.policy, q.escalation) = ANY ($1::text[])
);

-- name: fold_alarms
-- Take alarms from the inbox into escalations, the open one of each if there is one.
WITH taken AS (
    DELETE FROM holdfast.alarms
    WHERE id = ANY (ARRAY(
        SELECT a.id
        FROM holdfast.alarms AS a
        LEFT JOIN holdfast.queues AS q ON q.name = a.queue
        WHERE COALESCE(a.policy, q.escalation) = ANY ($1::text[])
        ORDER BY a.id
        LIMIT $3
        FOR UPDATE OF a SKIP LOCKED
    ))
    RETURNING *
),

resolved AS (
    SELECT
        a.id, a.at, a.source, a.job_id, a.details, COALESCE(a.policy, q.escalation) AS by_policy,
        COALESCE(a.queue, '') AS queue, COALESCE(a.kind, '') AS kind, COALESCE(a.fingerprint, '') AS fingerprint,
        COALESCE(a.title, a.kind || ' ' || a.source, a.source) AS title
    FROM taken AS a
    LEFT JOIN holdfast.queues AS q ON q.name = a.queue
),

folded AS (
    INSERT INTO holdfast.escalations AS e (
        policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at
    )
    SELECT
        r.by_policy, r.by_policy, r.source, (array_agg(r.queue ORDER BY r.id DESC))[1], r.kind, r.fingerprint,
        (array_agg(r.title ORDER BY r.id DESC))[1], (array_agg(r.details ORDER BY r.id DESC))[1],
        COALESCE((array_agg(r.job_id ORDER BY r.id DESC) FILTER (WHERE r.job_id IS NOT NULL))[1:$4], '{}'),
        count(*), min(r.at), max(r.at)
    FROM resolved AS r
    WHERE EXISTS (
        SELECT FROM unnest($1::text[], $2::text[]) AS t (policy, sources)
        WHERE t.policy = r.by_policy AND r.source = ANY (string_to_array(t.sources, ','))
    )
    GROUP BY r.by_policy, r.source, r.kind, r.fingerprint
    ORDER BY r.by_policy, r.source, r.kind, r.fingerprint
    ON CONFLICT (policy, source, kind, fingerprint) WHERE closed_at IS NULL DO UPDATE
    SET
        count = e.count + excluded.count,
        last_at = GREATEST(e.last_at, excluded.last_at),
        queue = excluded.queue,
        title = excluded.title,
        details = excluded.details,
        jobs = (excluded.jobs || e.jobs)[1:$4]
)

SELECT count(*) FROM taken;

-- name: escalation_states
-- Read the store's time and how far policies have come.
SELECT holdfast.clock() AS now, p.name, p.rated_until, p.digested_at
FROM (SELECT) AS one
LEFT JOIN holdfast.escalation_policies AS p ON p.name = ANY ($1::text[])
ORDER BY p.name;

-- name: waiting_escalations
-- Read the escalations about which something has to be said or done now.
SELECT
    id, policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at, told_at, said,
    digested, due_at, snoozed_until, snoozed_by, acked_at, acked_by, note, ack_told_at, closed_at, resolved_at, version
FROM holdfast.escalations
WHERE resolved_at IS NULL AND policy = ANY ($1::text[])
    AND (snoozed_until IS NULL OR snoozed_until <= holdfast.clock())
    AND CASE
        WHEN acked_at IS NOT NULL THEN ack_told_at IS NULL OR last_at <= holdfast.clock() - $4 * interval '1 millisecond'
        WHEN told_at IS NULL THEN stage <> ALL ($2::text[])
        WHEN snoozed_until IS NOT NULL THEN true
        WHEN due_at IS NOT NULL THEN due_at <= holdfast.clock()
        ELSE last_at <= holdfast.clock() - $4 * interval '1 millisecond'
    END
ORDER BY id
LIMIT $3;

-- name: undigested
-- Read the escalations with alarms of which no digest has told; what was told at once, one by one, is none of it.
SELECT
    id, policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at, told_at, said,
    digested, due_at, snoozed_until, snoozed_by, acked_at, acked_by, note, ack_told_at, closed_at, resolved_at, version
FROM holdfast.escalations
WHERE stage = $1 AND digested < count AND (told_at IS NULL OR digested > 0)
    AND (snoozed_until IS NULL OR snoozed_until <= holdfast.clock())
ORDER BY id
LIMIT $2;

-- name: take_pace
-- Use one message of a policy's rate; no row when none may go out.
UPDATE holdfast.escalation_policies
SET rated_until = GREATEST(rated_until, holdfast.clock()) + $2::bigint * interval '1 microsecond'
WHERE name = $1
    AND (rated_until IS NULL OR rated_until <= holdfast.clock() + ($3::bigint - 1) * $2::bigint * interval '1 microsecond')
RETURNING name;

-- name: move_escalation
-- Let an escalation go on, unless it has changed; one that is closed must not have grown.
UPDATE holdfast.escalations
SET
    stage = $4, told_at = $5, said = $6, due_at = $7, snoozed_until = $8, ack_told_at = $9, closed_at = $10,
    resolved_at = $11, version = version + 1
WHERE id = $1 AND version = $2 AND ($10::timestamptz IS NULL OR closed_at IS NOT NULL OR count = $3)
RETURNING id;

-- name: take_digest
-- Be the one who writes the digest of a day.
UPDATE holdfast.escalation_policies SET digested_at = $2 WHERE name = $1 AND digested_at < $2 RETURNING name;

-- name: tell_together
-- Note that escalations were told of together, up to the alarms that were counted. What was told before keeps its clock.
WITH locked AS (
    SELECT e.id, t.counted
    FROM unnest($1::bigint[], $2::bigint[]) AS t (id, counted)
    INNER JOIN holdfast.escalations AS e ON e.id = t.id
    WHERE CASE WHEN $4 THEN e.digested < t.counted ELSE e.told_at IS NULL END
    ORDER BY e.id
    FOR UPDATE OF e
)

UPDATE holdfast.escalations AS e
SET
    digested = CASE WHEN $4 THEN locked.counted ELSE e.digested END,
    said = e.said + 1,
    due_at = CASE WHEN e.told_at IS NULL AND e.closed_at IS NULL THEN $3 ELSE e.due_at END,
    told_at = COALESCE(e.told_at, holdfast.clock()),
    version = e.version + 1
FROM locked
WHERE e.id = locked.id
RETURNING e.id;

-- name: ack_escalation
-- Close an escalation that somebody has taken over; the first one counts.
UPDATE holdfast.escalations
SET
    acked_at = COALESCE(acked_at, holdfast.clock()),
    acked_by = CASE WHEN acked_at IS NULL THEN $2 ELSE acked_by END,
    note = CASE WHEN acked_at IS NULL THEN $3 ELSE note END,
    closed_at = COALESCE(closed_at, holdfast.clock()),
    due_at = NULL,
    snoozed_until = NULL,
    version = version + 1
WHERE id = $1
RETURNING
    id, policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at, told_at, said,
    digested, due_at, snoozed_until, snoozed_by, acked_at, acked_by, note, ack_told_at, closed_at, resolved_at, version;

-- name: snooze_escalation
-- Say nothing of an open escalation until a time.
UPDATE holdfast.escalations
SET
    snoozed_until = COALESCE($2, holdfast.clock() + $3 * interval '1 millisecond'),
    snoozed_by = $4,
    version = version + 1
WHERE id = $1 AND closed_at IS NULL
RETURNING
    id, policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at, told_at, said,
    digested, due_at, snoozed_until, snoozed_by, acked_at, acked_by, note, ack_told_at, closed_at, resolved_at, version;

-- name: get_escalation
-- Read one escalation.
SELECT
    id, policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at, told_at, said,
    digested, due_at, snoozed_until, snoozed_by, acked_at, acked_by, note, ack_told_at, closed_at, resolved_at, version
FROM holdfast.escalations
WHERE id = $1;

-- name: list_escalations
-- Read one page of escalations, newest first.
SELECT
    id, policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at, told_at, said,
    digested, due_at, snoozed_until, snoozed_by, acked_at, acked_by, note, ack_told_at, closed_at, resolved_at, version
FROM holdfast.escalations
WHERE ($1::boolean IS NULL OR (closed_at IS NULL) = $1)
    AND ($2::text IS NULL OR policy = $2 OR stage = $2)
    AND ($4::bigint IS NULL OR id < $4)
ORDER BY id DESC
LIMIT $3;

-- name: prune_alarms
-- Forget alarms that nobody took for three days: no program that is running knows their policy.
DELETE FROM holdfast.alarms
WHERE id = ANY (ARRAY(
    SELECT id FROM holdfast.alarms WHERE at <= holdfast.clock() - interval '3 days' ORDER BY at LIMIT $1
))
RETURNING id;

-- name: prune_escalations
-- Forget escalations of long ago.
DELETE FROM holdfast.escalations
WHERE id = ANY (ARRAY(
    SELECT id FROM holdfast.escalations WHERE last_at <= holdfast.clock() - interval '400 days' ORDER BY last_at LIMIT $1
))
RETURNING id;

-- name: prune_notices
-- Forget messages of long ago.
DELETE FROM holdfast.notices
WHERE id = ANY (ARRAY(
    SELECT id FROM holdfast.notices WHERE created_at <= holdfast.clock() - interval '30 days' ORDER BY created_at LIMIT $1
))
RETURNING id;
