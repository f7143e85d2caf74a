"""The parts of bench/elastic_run: the trace of a run, the checks of the run, and the plot."""
