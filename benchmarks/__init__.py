"""Holdfast beside the raw database and its peers, interleaved in one run."""
