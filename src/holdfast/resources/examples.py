"""Values that stand as examples in the descriptions of many resources."""

MOMENT = "2026-11-16T09:30:00Z"
JOB_ID = "htcx-2s16-z48b-09"
