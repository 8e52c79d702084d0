"""The columns of a job, as every view has them; the field order of `Job` is their order."""

from holdfast.job import JobRow

COLUMNS = tuple(field.removesuffix("_json") for field in JobRow.__struct_fields__)
LEFT_OUT = frozenset({"logs"})
"""What lists of jobs leave out."""
