"""Runs the programs in turn on a case."""

from comparison import programs, report


def measure(case, contestants, model, args, progress):
    """Runs all contestants in turn, args.rounds times. Skips a contestant after a failure. Returns {measure: {name: runs}}, {name: reason}."""
    runs, skipped = {}, {}
    for number in range(1, args.rounds + 1):
        for contestant in contestants:
            if contestant.name in skipped:
                continue
            progress(f"{case.name}: round {number} of {args.rounds}, {contestant.name}")
            try:
                figures = contestant.run(case, model, args.threads, args.timeout)
            except programs.Skipped as reason:
                skipped[contestant.name] = str(reason)
                continue
            for what, value in figures.items():
                runs.setdefault(what, {}).setdefault(contestant.name, []).append(value)
    return runs, skipped


def rows_of(case, runs, groups):
    for what, by_name in runs.items():
        results = {name: report.summary(values) for name, values in by_name.items()}
        name = case.name + (f" {what}" if len(runs) > 1 else "")
        yield {"name": name, "case": case.name, "measure": what, "unit": case.unit, "results": results,
               "ratios": report.compare(case.unit, results, "billow", groups)}
