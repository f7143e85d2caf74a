"""The command `billow-ray`. Its exit statuses are those of `billow embed`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from .client import DEFAULT_PATIENCE_S, Billow
from .driver import Options, run_on_ray
from .errors import EXIT_INTERRUPTED, EXIT_TRY_AGAIN, BillowUnavailable, JobError
from .job import SUMMARY_FILE, Job, read_job
from .prepare import Wish, prepare
from .progress import Progress
from .storage import Place, place_of, publish_bytes, remove_temporary_files
from .verify import Report, verify
from .work import count_errors, run_shard

_EXIT_STATUSES = """exit status: 0 done; 65 invalid input; 75 try again, the job continues where it stopped;
130 interrupted; 1 and 2 any other error"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="billow-ray", description="Bulk work with Billow on many hosts.", epilog=_EXIT_STATUSES)
    commands = parser.add_subparsers(dest="command", required=True)

    embed = commands.add_parser("embed", help="make vectors of texts", epilog=_EXIT_STATUSES)
    _add_job_options(embed)
    embed.add_argument("--column", default="text", help="the column or field of the texts (text)")
    embed.add_argument("--prefix", default="", help="text to put before every text")
    embed.add_argument("--dimensions", type=int, default=0, help="keep only this many of the first values")
    embed.add_argument("--pooling", default="", help="mean, cls, last or max; default: the model's pooling")
    embed.add_argument("--no-normalize", action="store_true", help="do not normalize the vectors")
    embed.add_argument("--truncate", default="right", choices=("right", "left", "none"), help="where to cut a text that is too long; none: it gets an error")
    embed.add_argument("--dtype", default="float32", choices=("float32", "float16"), help="type of the vectors in the parts (float32)")

    rerank = commands.add_parser("rerank", help="score documents against a query", epilog=_EXIT_STATUSES)
    _add_job_options(rerank)
    rerank.add_argument("--query-column", default="query", help="the column of the query (query)")
    rerank.add_argument("--documents-column", default="documents", help="the column with a list of documents (documents)")
    rerank.add_argument("--raw-scores", action="store_true", help="return the model's scores instead of values from 0 to 1")

    generate = commands.add_parser("generate", help="write an answer to each prompt", epilog=_EXIT_STATUSES)
    _add_job_options(generate)
    source = generate.add_mutually_exclusive_group()
    source.add_argument("--column", default="prompt", help="the column of the prompts (prompt)")
    source.add_argument("--messages-column", help="the column with a list of messages, which are sent as a chat")
    generate.add_argument("--system", default="", help="the system message")
    generate.add_argument("--format", help="'json', or a file with a JSON schema for the answers")
    generate.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the request, such as num_predict=100; repeatable")

    run = commands.add_parser("run", help="run the missing shards of the job in a folder", epilog=_EXIT_STATUSES)
    run.add_argument("job", help="the folder of the job")
    _add_max_errors(run)
    _add_ray_options(run)

    shard = commands.add_parser("shard", help="do shards of a job without Ray: for Slurm arrays and indexed Kubernetes jobs", epilog=_EXIT_STATUSES)
    shard.add_argument("--job", required=True, help="the folder of the job")
    shard.add_argument("--index", type=int, help="the shard to do, from 0; default: SLURM_ARRAY_TASK_ID, then JOB_COMPLETION_INDEX")
    shard.add_argument("--of", type=int, default=0, metavar="N", help="do the shards INDEX, INDEX+N, INDEX+2N, ...")
    _add_max_errors(shard)
    _add_host_options(shard)

    check = commands.add_parser("verify", help="check the parts of a job against its plan", epilog=_EXIT_STATUSES)
    check.add_argument("job", help="the folder of the job")
    check.add_argument("--deep", action="store_true", help="read the rows, too, not only names and footers")
    check.add_argument("--json", action="store_true", help="print a JSON object")
    return parser


def _add_job_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", "--model", required=True, help="the model")
    parser.add_argument("--in", dest="inputs", nargs="+", required=True, metavar="PATH", help="files or folders: .parquet, .jsonl, .ndjson; paths or URIs")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the folder for the job, its parts and its summary")
    parser.add_argument("--keep", nargs="+", default=[], metavar="COLUMN", help="columns to copy to the parts")
    parser.add_argument("--shard-rows", type=int, default=0, metavar="N", help="rows per shard (embed 50000, rerank 5000, generate 1000)")
    parser.add_argument("--batch", type=int, default=0, metavar="N", help="texts per request (embed 128, otherwise 1)")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="requests in flight per shard (4, generate 8)")
    parser.add_argument("--max-errors", type=int, default=1000, metavar="N", help="stop if more than N rows have errors (1000); -1: never")
    parser.add_argument("--plan-only", action="store_true", help="only write the plan of the job and print the number of its shards")
    _add_ray_options(parser)


def _add_max_errors(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-errors", type=int, metavar="N", help="stop if more than N rows have errors; -1: never; default: the limit in the plan of the job")


def _add_host_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address of Billow; default: BILLOW_HOST, then 127.0.0.1:11434")
    parser.add_argument("--patience", type=float, default=DEFAULT_PATIENCE_S, metavar="SECONDS", help="give up if Billow does not answer for this time (60)")


def _add_ray_options(parser: argparse.ArgumentParser) -> None:
    _add_host_options(parser)
    parser.add_argument("--ray-address", default="auto", help="the cluster (auto); 'local' starts one on this machine")
    parser.add_argument("--wait", type=float, default=300.0, metavar="SECONDS", help="give up if no host offers the resource 'billow' for this time (300)")


def _option(text: str) -> tuple[str, Any]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise JobError(f"--option must be NAME=VALUE, not '{text}'")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _format(text: str | None) -> Any:
    if text is None or text == "json":
        return text
    try:
        with open(text, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise JobError(f"--format {text}: {error}") from None


def _wish(args: argparse.Namespace) -> Wish:
    settings: dict[str, Any]
    if args.command == "embed":
        columns = {"text": args.column}
        settings = {"dimensions": args.dimensions, "normalize": not args.no_normalize, "pooling": args.pooling,
                    "prefix": args.prefix, "truncate": args.truncate}
    elif args.command == "rerank":
        columns = {"query": args.query_column, "documents": args.documents_column}
        settings = {"raw_scores": args.raw_scores}
    else:
        columns = {"messages": args.messages_column} if args.messages_column else {"prompt": args.column}
        settings = {"system": args.system, "format": _format(args.format), "options": dict(map(_option, args.option))}
    if args.command != "embed" and args.batch > 1:
        raise JobError(f"--batch: a request of '{args.command}' has one row")
    return Wish(op=args.command, model=args.model, inputs=args.inputs, columns=columns, keep=args.keep, settings=settings,
                dtype=getattr(args, "dtype", "float32"), shard_rows=args.shard_rows, batch_rows=args.batch, jobs=args.jobs,
                max_errors=args.max_errors)


def _stored(place: Place, max_errors: int | None = None) -> Job:
    job = read_job(place)
    if job is None:
        raise JobError(f"{place.uri} has no job: no _job.json")
    return job if max_errors is None else replace(job, max_errors=max_errors)


def _run(job: Job, out: Place, args: argparse.Namespace) -> int:
    progress = Progress()
    options = Options(address=args.ray_address, host=args.host, patience_s=args.patience, wait_s=args.wait)
    run_on_ray(job, out, options, progress)
    report = verify(job, out)
    remove_temporary_files(out)
    summary = {**progress.summary(), **_as_json(report), "fingerprint": job.recipe.fingerprint}
    publish_bytes(out.child(SUMMARY_FILE), (json.dumps(summary, indent=1) + "\n").encode())
    _print_report(report, out)
    return 1 if report.wrong else 0


def _as_json(report: Report) -> dict[str, Any]:
    value = asdict(report)
    return {"parts": value.pop("present"), **value}


def _print_report(report: Report, out: Place) -> None:
    for line in report.wrong:
        print(f"billow-ray: {line}", file=sys.stderr)
    if not report.wrong:
        print(f"{out.uri}: {report.present} parts with {report.rows} rows, {report.errors} of them with errors")


def _index(given: int | None) -> int:
    if given is not None:
        return given
    for name in ("SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    raise JobError("--index is required: neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set")


def _shards(args: argparse.Namespace) -> int:
    index = _index(args.index)
    out = place_of(args.job)
    job = _stored(out, args.max_errors)
    if index < 0 or args.of < 0 or (args.of and index >= args.of):
        raise JobError("--index must be at least 0, and below --of")
    numbers = range(index, len(job.shards), args.of) if args.of else range(index, index + 1)
    if not args.of and index >= len(job.shards):
        raise JobError(f"--index {index}: the job has {len(job.shards)} shards, from 0")
    for number in numbers:
        others = sum(n for shard, n in count_errors(out).items() if shard != number)
        with Billow(args.host, args.patience) as billow:
            result = run_shard(job.head(number), out, billow, others)
        print(f"shard {number}: {result.status}, {result.rows} rows, {result.errors} with errors, {result.seconds:.1f} s", flush=True)
    return 0


def _main(args: argparse.Namespace) -> int:
    if args.command == "shard":
        return _shards(args)
    if args.command == "verify":
        out = place_of(args.job)
        report = verify(_stored(out), out, args.deep)
        if args.json:
            print(json.dumps(_as_json(report)))
        else:
            _print_report(report, out)
        return 1 if report.wrong else 0
    if args.command == "run":
        out = place_of(args.job)
        return _run(_stored(out, args.max_errors), out, args)
    out = place_of(args.out)
    with Billow(args.host, args.patience) as billow:
        job = prepare(_wish(args), out, billow)
    if args.plan_only:
        print(f"{len(job.shards)} shards of about {job.rows} rows: {out.uri}")
        return 0
    return _run(job, out, args)


def main(words: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(words)
    try:
        return _main(args)
    except (JobError, BillowUnavailable) as error:
        print(f"billow-ray: error: {error}", file=sys.stderr)
        return error.exit_status
    except OSError as error:
        print(f"billow-ray: error: {error}", file=sys.stderr)
        return EXIT_TRY_AGAIN
    except KeyboardInterrupt:
        print("billow-ray: interrupted; the same command continues the job", file=sys.stderr, flush=True)
        os._exit(EXIT_INTERRUPTED)  # does not wait for requests in flight
