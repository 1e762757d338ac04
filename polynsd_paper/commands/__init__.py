"""The commands `polynsd reproduce` and `polynsd claims`."""
