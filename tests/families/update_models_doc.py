#!/usr/bin/env python3
"""Writes the figures that test_families measures into the table of docs/models.md.

    update_models_doc.py TEST_FAMILIES      the path of the program, such as build/release/bin/test_families

Finds a row by the name of its tiny model, in the column "tiny model". Writes only the columns of figures; people write
the others. If a family runs and has no row, or has figures and no longer runs, fails and writes nothing.
"""
import pathlib
import re
import subprocess
import sys

DOC = pathlib.Path(__file__).resolve().parents[2] / "docs" / "models.md"
# The figure in each column.
COLUMNS = {"mean KL": "mean_kl", "of llama.cpp": "llama_cpp_mean_kl", "largest difference": "max_difference",
           "Q8_0": "Q8_0_mean_kl", "Q4_0": "Q4_0_mean_kl"}
NAME = "tiny model"
NONE = "–"


def measured(program):
    """Returns {family: {figure: text}} of the families that run."""
    command = [program, "--gtest_filter=*LogitsAreThoseOfTransformers*:*QuantisedWeightsAreClose*"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout)
        sys.exit(f"{program} failed; no figures are taken from it")
    figures = {}
    for line in done.stdout.splitlines():
        if line.startswith("figure "):
            fields = dict(field.split("=", 1) for field in line.split()[1:])
            figures.setdefault(fields.pop("family"), {}).update(fields)
    if not figures:
        sys.exit(f"{program} measured nothing: are the families there?")
    return figures


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def main():
    figures = measured(sys.argv[1])
    lines = DOC.read_text().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("|") and NAME in cells(line))
    columns = cells(lines[head])
    seen = set()
    for i in range(head + 2, len(lines)):
        if not lines[i].startswith("|"):
            break
        row = dict(zip(columns, cells(lines[i]), strict=True))
        name = row[NAME].strip("`")
        if name == NONE:
            continue
        seen.add(name)
        if name not in figures and any(row[column] != NONE for column in COLUMNS):
            sys.exit(f"{name} has figures in {DOC.name} and no longer runs")
        for column, figure in COLUMNS.items():
            row[column] = figures.get(name, {}).get(figure, NONE)
        lines[i] = "| " + " | ".join(row[column] for column in columns) + " |"
    lacking = sorted(set(figures) - seen)
    if lacking:
        sys.exit(f"{DOC.name} has no row for: {', '.join(lacking)}")
    kernels = {fields["kernels"] for fields in figures.values() if "kernels" in fields}
    text = re.sub(r"(?<=kernel table `)\w+(?=`)", "/".join(sorted(kernels)), "\n".join(lines) + "\n")
    DOC.write_text(text)
    print(f"{len(figures)} families in {DOC}")


if __name__ == "__main__":
    main()
