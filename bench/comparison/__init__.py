"""The parts of bench/compare: cases and models, the programs that are compared, the machine, the report."""
