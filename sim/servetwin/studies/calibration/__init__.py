"""Fitting the constants of a calibration to measurements."""
