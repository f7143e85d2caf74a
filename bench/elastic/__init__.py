"""The parts of bench/elastic_run: the trace of a run, what it is checked for, the plot."""
