"""The parts of bench/compare: cases and models, the compared programs, the machine, and the report."""
