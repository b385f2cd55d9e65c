"""Timings, as ratios of one run; `make bench`."""
