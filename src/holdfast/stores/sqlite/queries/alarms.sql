-- name: raise_alarm
-- Put an alarm into the inbox, if somebody is to be told of it.
INSERT INTO holdfast_alarms (at, source, policy, queue, kind, fingerprint, job_id, life, title, details)
SELECT :now, :source, COALESCE(:policy, q.escalation), :queue, :kind, :fingerprint, :job_id, :life, :title, :details
FROM (SELECT 1) AS one
LEFT JOIN holdfast_queues AS q ON q.name = :queue
WHERE COALESCE(:policy, q.escalation) IS NOT NULL;

-- name: raise_missed
-- Put an alarm into the inbox that a time of a schedule was missed, if its queue has a policy.
INSERT INTO holdfast_alarms (at, source, policy, queue, kind, fingerprint, title, details)
SELECT
    :now, 'schedule', q.escalation, q.name, s.definition ->> '$.kind', s.name, 'schedule ' || s.name || ' was missed',
    json_object('schedule', s.name, 'nominal', :at, 'note', :note)
FROM holdfast_schedules AS s
INNER JOIN holdfast_queues AS q ON q.name = s.definition ->> '$.job.queue'
WHERE s.name = :name AND q.escalation IS NOT NULL;

-- name: define_escalations
-- Make one policy known.
INSERT INTO holdfast_escalation_policies (name, digested_at) VALUES (:name, :now)
ON CONFLICT (name) DO NOTHING;

-- name: has_alarms
-- Look whether there is anything to take from the inbox.
SELECT EXISTS (
    SELECT 1
    FROM holdfast_alarms AS a
    LEFT JOIN holdfast_queues AS q ON q.name = a.queue
    WHERE COALESCE(a.policy, q.escalation) IN (SELECT value FROM json_each(:policies))
);

-- name: fold_alarms
-- Take alarms that belong together into their escalation, the open one if there is one.
INSERT INTO holdfast_escalations AS e (
    policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at
)
VALUES (
    :policy, :policy, :source, :queue, :kind, :fingerprint, :title, :details, :jobs, :count, :first_at, :last_at
)
ON CONFLICT (policy, source, kind, fingerprint) WHERE closed_at IS NULL DO UPDATE
SET
    count = e.count + excluded.count,
    last_at = max(e.last_at, excluded.last_at),
    queue = excluded.queue,
    title = excluded.title,
    details = excluded.details,
    jobs = (
        SELECT json_group_array(job.value)
        FROM (
            SELECT value FROM json_each(excluded.jobs)
            UNION ALL
            SELECT value FROM json_each(e.jobs)
            LIMIT :most_jobs
        ) AS job
    );

-- name: escalation_states
-- Read how far policies have come.
SELECT name, rated_until, digested_at
FROM holdfast_escalation_policies
WHERE name IN (SELECT value FROM json_each(:policies))
ORDER BY name;

-- name: waiting_escalations
-- Read the escalations about which something has to be said or done now.
SELECT
    id, policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at, told_at, said,
    digested, due_at, snoozed_until, snoozed_by, acked_at, acked_by, note, ack_told_at, closed_at, resolved_at, version
FROM holdfast_escalations
WHERE resolved_at IS NULL AND policy IN (SELECT value FROM json_each(:policies))
    AND (snoozed_until IS NULL OR snoozed_until <= :now)
    AND CASE
        WHEN acked_at IS NOT NULL THEN ack_told_at IS NULL OR last_at <= :now - :quiet_ms
        WHEN told_at IS NULL THEN stage NOT IN (SELECT value FROM json_each(:digests))
        WHEN snoozed_until IS NOT NULL THEN 1
        WHEN due_at IS NOT NULL THEN due_at <= :now
        ELSE last_at <= :now - :quiet_ms
    END
ORDER BY id
LIMIT :limit;

-- name: undigested
-- Read the escalations with alarms of which no digest has told; what was told at once, one by one, is none of it.
SELECT
    id, policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at, told_at, said,
    digested, due_at, snoozed_until, snoozed_by, acked_at, acked_by, note, ack_told_at, closed_at, resolved_at, version
FROM holdfast_escalations
WHERE stage = :policy AND digested < count AND (told_at IS NULL OR digested > 0)
    AND (snoozed_until IS NULL OR snoozed_until <= :now)
ORDER BY id
LIMIT :limit;

-- name: take_pace
-- Use one message of a policy's rate; no row when none may go out. In milliseconds, rounded up.
UPDATE holdfast_escalation_policies
SET rated_until = max(COALESCE(rated_until, 0), :now) + (:spacing_us + 999) / 1000
WHERE name = :policy AND (rated_until IS NULL OR rated_until <= :now + (:times - 1) * ((:spacing_us + 999) / 1000))
RETURNING name;

-- name: move_escalation
-- Let an escalation go on, unless it has changed; one that is closed must not have grown.
UPDATE holdfast_escalations
SET
    stage = :stage, told_at = :told_at, said = :said, due_at = :due_at, snoozed_until = :snoozed_until,
    ack_told_at = :ack_told_at, closed_at = :closed_at, resolved_at = :resolved_at, version = version + 1
WHERE id = :id AND version = :version AND (:closed_at IS NULL OR closed_at IS NOT NULL OR count = :count)
RETURNING id;

-- name: take_digest
-- Be the one who writes the digest of a day.
UPDATE holdfast_escalation_policies SET digested_at = :at WHERE name = :policy AND digested_at < :at RETURNING name;

-- name: tell_together
-- Note that one escalation was told of with others, up to the alarms that were counted. What was told before keeps its
-- clock.
UPDATE holdfast_escalations
SET
    digested = CASE WHEN :is_digest THEN :count ELSE digested END,
    said = said + 1,
    due_at = CASE WHEN told_at IS NULL AND closed_at IS NULL THEN :due_at ELSE due_at END,
    told_at = COALESCE(told_at, :now),
    version = version + 1
WHERE id = :id AND CASE WHEN :is_digest THEN digested < :count ELSE told_at IS NULL END
RETURNING id;

-- name: ack_escalation
-- Close an escalation that somebody has taken over; the first one counts.
UPDATE holdfast_escalations
SET
    acked_at = COALESCE(acked_at, :now),
    acked_by = CASE WHEN acked_at IS NULL THEN :actor ELSE acked_by END,
    note = CASE WHEN acked_at IS NULL THEN :note ELSE note END,
    closed_at = COALESCE(closed_at, :now),
    due_at = NULL,
    snoozed_until = NULL,
    version = version + 1
WHERE id = :id
RETURNING
    id, policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at, told_at, said,
    digested, due_at, snoozed_until, snoozed_by, acked_at, acked_by, note, ack_told_at, closed_at, resolved_at, version;

-- name: snooze_escalation
-- Say nothing of an open escalation until a time.
UPDATE holdfast_escalations
SET snoozed_until = COALESCE(:until, :now + :delay_ms), snoozed_by = :actor, version = version + 1
WHERE id = :id AND closed_at IS NULL
RETURNING
    id, policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at, told_at, said,
    digested, due_at, snoozed_until, snoozed_by, acked_at, acked_by, note, ack_told_at, closed_at, resolved_at, version;

-- name: get_escalation
-- Read one escalation.
SELECT
    id, policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at, told_at, said,
    digested, due_at, snoozed_until, snoozed_by, acked_at, acked_by, note, ack_told_at, closed_at, resolved_at, version
FROM holdfast_escalations
WHERE id = :id;

-- name: list_escalations
-- Read one page of escalations, newest first.
SELECT
    id, policy, stage, source, queue, kind, fingerprint, title, details, jobs, count, first_at, last_at, told_at, said,
    digested, due_at, snoozed_until, snoozed_by, acked_at, acked_by, note, ack_told_at, closed_at, resolved_at, version
FROM holdfast_escalations
WHERE (:is_open IS NULL OR (closed_at IS NULL) = :is_open)
    AND (:policy IS NULL OR policy = :policy OR stage = :policy)
    AND (:before IS NULL OR id < :before)
ORDER BY id DESC
LIMIT :limit;

-- name: prune_alarms
-- Forget alarms that nobody took for three days: no program that is running knows their policy.
DELETE FROM holdfast_alarms
WHERE id IN (SELECT id FROM holdfast_alarms WHERE at <= :now - 259200000 ORDER BY at LIMIT :limit);

-- name: prune_escalations
-- Forget escalations of long ago.
DELETE FROM holdfast_escalations
WHERE id IN (SELECT id FROM holdfast_escalations WHERE last_at <= :now - 34560000000 ORDER BY last_at LIMIT :limit);

-- name: prune_notices
-- Forget messages of long ago.
DELETE FROM holdfast_notices
WHERE id IN (SELECT id FROM holdfast_notices WHERE created_at <= :now - 2592000000 ORDER BY created_at LIMIT :limit);
