#include "cli/client/generate_bulk.h"

#include <fmt/format.h>
#include <array>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cli/client/bulk_queue.h"
#include "cli/client/command_line.h"
#include "cli/client/generate_work.h"
#include "cli/client/interrupt_watch.h"
#include "cli/client/part_file.h"
#include "cli/console.h"
#include "cli/generate_options.h"
#include "cli/interrupt.h"
#include "cli/option_checks.h"
#include "cli/output_file.h"

namespace billow::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kGroup = "Bulk work";
// Rows in flight and answers that wait for an earlier row, per request in flight.
constexpr size_t kRowsPerJob = 8;

// Options of bulk work, and options that are used by name below.
constexpr const char* kBulkOptions[] = {"--in",     "--out",  "--rows",       "--field",
                                        "--column", "--jobs", "--max-errors", "--timeout"};
constexpr const char* kOtherOptions[] = {"--help",        "--model",     "--quiet",
                                         "--system",      "--raw",       "--think",
                                         "--json-schema", "--json-mode", "--stop"};

// Returns the shortest decimal number that is this float.
Json number(float value) { return Json::parse(fmt::format("{}", value)); }

// An option of the command line, and its name and value in the options of a request.
struct RequestOption {
  const char* flag;
  const char* name;
  Json (*value)(const GenerateOptions& options);
};
constexpr RequestOption kRequestOptions[] = {
    {"--max-tokens", "num_predict", [](const GenerateOptions& o) { return Json(o.max_tokens); }},
    {"--temperature", "temperature",
     [](const GenerateOptions& o) { return number(o.sampling.sampling.temperature); }},
    {"--top-k", "top_k", [](const GenerateOptions& o) { return Json(o.sampling.sampling.top_k); }},
    {"--top-p", "top_p",
     [](const GenerateOptions& o) { return number(o.sampling.sampling.top_p); }},
    {"--min-p", "min_p",
     [](const GenerateOptions& o) { return number(o.sampling.sampling.min_p); }},
    {"--typical-p", "typical_p",
     [](const GenerateOptions& o) { return number(o.sampling.sampling.typical_p); }},
    {"--repeat-last-n", "repeat_last_n",
     [](const GenerateOptions& o) { return Json(o.sampling.sampling.repeat_last_n); }},
    {"--repeat-penalty", "repeat_penalty",
     [](const GenerateOptions& o) { return number(o.sampling.sampling.repeat_penalty); }},
    {"--presence-penalty", "presence_penalty",
     [](const GenerateOptions& o) { return number(o.sampling.sampling.presence_penalty); }},
    {"--frequency-penalty", "frequency_penalty",
     [](const GenerateOptions& o) { return number(o.sampling.sampling.frequency_penalty); }},
    {"--mirostat", "mirostat",
     [](const GenerateOptions& o) { return Json(o.sampling.sampling.mirostat); }},
    {"--mirostat-tau", "mirostat_tau",
     [](const GenerateOptions& o) { return number(o.sampling.sampling.mirostat_tau); }},
    {"--mirostat-eta", "mirostat_eta",
     [](const GenerateOptions& o) { return number(o.sampling.sampling.mirostat_eta); }},
    {"--seed", "seed", [](const GenerateOptions& o) { return Json(o.sampling.sampling.seed); }},
    {"--draft-max", "draft_num_predict",
     [](const GenerateOptions& o) { return Json(o.model.max_draft); }},
};

// Throws Error for an option that was given and that the server's API does not have.
void refuse_local_options(const CLI::App& command) {
  std::set<const CLI::Option*> known;
  for (const char* name : kBulkOptions) known.insert(command.get_option(name));
  for (const char* name : kOtherOptions) known.insert(command.get_option(name));
  for (const RequestOption& option : kRequestOptions) known.insert(command.get_option(option.flag));
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || known.contains(option)) continue;
    refuse_usage(option->get_name() + " is not possible with --in: the work is done by a server");
  }
}

GenerateWorkOptions work_options(const CLI::App& command, const GenerateOptions& options) {
  (void)options.sampling.checked();
  GenerateWorkOptions work;
  work.model = options.model.model;
  work.is_json = row_format_of(options.bulk.rows.in) == RowFormat::kJsonLines;
  work.field = options.bulk.rows.field;
  GenerateRecipe& recipe = work.recipe;
  recipe.system = options.system;
  recipe.raw = options.raw;
  if (command.count("--think") > 0) recipe.think = options.think;
  Json wanted = Json::object();
  for (const RequestOption& option : kRequestOptions)
    if (command.count(option.flag) > 0) wanted[option.name] = option.value(options);
  if (!options.stop.empty()) wanted["stop"] = options.stop;
  recipe.options = wanted.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (options.constraint.json_mode) recipe.format = "\"json\"";
  if (!options.constraint.json_schema.empty())
    recipe.format = options.constraint.constraint()->grammar.text;
  return work;
}

struct Totals {
  uint64_t n_rows = 0;
  uint64_t n_errors = 0;
  uint64_t n_prompt = 0;
  uint64_t n_generated = 0;
};

// The destination of the results: a file or standard output.
class Results {
 public:
  Results(const std::string& out, const std::string& job) {
    if (out.empty()) return;
    file_.emplace(out, job);
    report_resume(*file_, out);
    totals_ = {.n_rows = file_->n_rows(),
               .n_errors = file_->fact("errors"),
               .n_prompt = file_->fact("prompt_tokens"),
               .n_generated = file_->fact("output_tokens")};
  }

  const Totals& totals() const noexcept { return totals_; }
  uint64_t input_offset() const { return file_ ? file_->input_offset() : 0; }

  void take(const GenerateBatch& batch) {
    ++totals_.n_rows;
    totals_.n_errors += batch.error.empty() ? 0 : 1;
    totals_.n_prompt += batch.n_prompt;
    totals_.n_generated += batch.n_generated;
    if (!file_) return print_now(batch.line);
    file_->append(batch.line);
    file_->mark(batch.offset, {{"errors", totals_.n_errors},
                               {"prompt_tokens", totals_.n_prompt},
                               {"output_tokens", totals_.n_generated}});
  }
  void checkpoint() {
    if (file_) file_->checkpoint();
  }
  void publish() {
    if (file_) file_->publish();
  }

 private:
  std::optional<PartFile> file_;
  Totals totals_;
};

void check_errors(const GenerateBulkOptions& bulk, const Totals& totals,
                  const GenerateBatch& batch) {
  if (batch.error.empty() || bulk.max_errors < 0) return;
  if (totals.n_errors <= static_cast<uint64_t>(bulk.max_errors)) return;
  throw BulkFailure(kInputFault, at_rows(bulk.rows.in, batch.row, 1, batch.error) + "; " +
                                     std::to_string(totals.n_errors) +
                                     " rows have errors, more than --max-errors");
}

void run_all(const GenerateBulkOptions& bulk, BulkQueue<GenerateBatch>& queue, BulkRows& rows,
             Results& results) {
  BulkProgress progress("generating", bulk.rows.in, bulk.out);
  work_through<GenerateBatch>(
      queue, kRowsPerJob * bulk.n_jobs,
      [&]() -> std::optional<GenerateBatch> {
        GenerateBatch batch{.row = rows.row()};
        std::optional<std::string> text = rows.next();
        if (!text) return std::nullopt;
        batch.text = *std::move(text);
        batch.offset = rows.offset();
        return batch;
      },
      [&](const GenerateBatch& batch) {
        results.take(batch);
        progress.show(batch.offset);
        check_errors(bulk, results.totals(), batch);
      });
}

// Reports all rows of the file, and the speed of the rows of this run.
void report(const Totals& totals, const Totals& before, Clock::duration time) {
  const double seconds = std::max(std::chrono::duration<double>(time).count(), 1e-3);
  const auto n_generated = static_cast<double>(totals.n_generated - before.n_generated);
  std::fprintf(stderr, "%s",
               fmt::format("{} rows, {} with errors; {} tokens of prompts, {} tokens of "
                           "answers; {:.1f} s, {:.1f} tokens/s\n",
                           totals.n_rows, totals.n_errors, totals.n_prompt, totals.n_generated,
                           seconds, n_generated / seconds)
                   .c_str());
}

void run(const CLI::App& command, const GenerateOptions& options) {
  const GenerateBulkOptions& bulk = options.bulk;
  refuse_local_options(command);
  as_usage([&] { (void)parse_rows(bulk.rows.rows); });
  GenerateWorkOptions work = work_options(command, options);
  if (!bulk.out.empty()) refuse_to_replace(bulk.out, std::array{bulk.rows.in});
  const auto job_now = [&] {
    return from_server([&](ApiClient& client) {
      set_digests(client, work.model, work.recipe);
      return bulk_job(fingerprint(work.recipe), bulk.rows)
          .dump(-1, ' ', false, Json::error_handler_t::replace);
    });
  };
  BulkRows rows(bulk.rows, true);
  const std::string job = bulk.out.empty() ? "" : job_now();
  Results results(bulk.out, job);
  const Totals before = results.totals();
  rows.begin(before.n_rows, results.input_offset());
  const Clock::time_point begin = Clock::now();
  BulkQueue<GenerateBatch> queue(
      {.endpoint = client_environment().host.for_clients(),
       .n_jobs = bulk.n_jobs,
       .timeout = std::chrono::milliseconds(static_cast<int64_t>(bulk.timeout_s * 1e3))},
      [&work](BulkCaller& caller, GenerateBatch& batch) { answer_row(work, caller, batch); });
  std::optional<InterruptWatch> watch;
  if (!bulk.out.empty()) watch.emplace([&queue] { queue.cancel(); });
  try {
    run_all(bulk, queue, rows, results);
    // Ctrl-C also ends the program that writes the rows into a pipe. What came is not all.
    if (watch && watch->interrupted()) throw Error(ErrorCode::kIo, "interrupted");
    if (!bulk.out.empty()) check_unchanged(bulk.rows, bulk.out, job_now() == job);
  } catch (...) {
    results.checkpoint();
    if (watch && watch->interrupted()) end_with(exit_status_of(SIGINT));
    throw;
  }
  results.publish();
  if (!options.quiet) report(results.totals(), before, Clock::now() - begin);
}

}  // namespace

void GenerateBulkOptions::declare(CLI::App& command) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group(kGroup);
  };
  add("--in", rows.in,
      "File with prompts, for a running server: .jsonl with \"prompt\" or \"messages\", .csv, or "
      "one "
      "prompt per line. --model is then the name of a model of the server");
  add("-o,--out", out, "With --in: file for the results; default: JSON lines on standard output");
  add("--rows", rows.rows, "With --in: A:B: rows of the file, from A to before B");
  add("--field", rows.field,
      "With --in, for .jsonl: the field with the prompt or the messages; default: prompt or "
      "messages");
  add("--column", rows.column, "With --in, for .csv: the column with the prompt (prompt)");
  add("--jobs,--concurrency", n_jobs, "With --in: requests in flight (8)")
      ->check(whole_number(1, kMaxJobs));
  add("--max-errors", max_errors, "With --in: stop after more rows with errors (1000); -1: never");
  add("--timeout", timeout_s, "With --in: seconds of retries while the server is busy (60)")
      ->check(number(0.0, kMaxTimeoutSeconds));
}

void generate_in_bulk(const CLI::App& command, const GenerateOptions& options) {
  try {
    run_bulk_command([&] { run(command, options); });
  } catch (const ApiError& error) {  // the server refuses to show the model
    throw Error(ErrorCode::kInvalidInput, error.what());
  }
}

void refuse_bulk_options(const CLI::App& command) {
  for (const char* name : kBulkOptions)
    if (command.count(name) > 0) refuse_usage(std::string(name) + " needs --in");
}

}  // namespace billow::cli
