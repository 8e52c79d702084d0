"""Manifests for those who run an app on other people's machinery; values go in, text comes out."""
