"""Questions that take more than one run, or none: what a step is made of, sweeps, comparisons, checks."""
