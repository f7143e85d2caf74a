// billow embed: computes vectors of texts from arguments, standard input or a file. Writes them to
// a file or to standard output.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cli/client/command_line.h"
#include "cli/client/embed_work.h"
#include "cli/client/interrupt_watch.h"
#include "cli/client/status_line.h"
#include "cli/client/text_rows.h"
#include "cli/client/vector_file.h"
#include "cli/client/vector_recipe.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/program.h"
#include "metrics/request_id.h"
#include "store/folder.h"

namespace billow::cli {
namespace {

constexpr uint64_t kMaxBatchBytes = 8 << 20;
constexpr uint64_t kNoEnd = UINT64_MAX;

struct Options {
  EmbedWorkOptions work;
  std::string in;
  std::string out;
  std::string field = "text";
  std::string column = "text";
  std::string rows;
  size_t batch = 32;
  double timeout_s = 10.0;
  bool no_normalise = false;
};

struct RowRange {
  uint64_t begin = 0;
  uint64_t end = kNoEnd;
};

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Parses "A:B". Both numbers are optional.
RowRange parse_rows(const std::string& text) {
  if (text.empty()) return {};
  const size_t colon = text.find(':');
  if (colon != std::string::npos) {
    const auto begin = colon == 0 ? std::optional<uint64_t>(0) : number(text.substr(0, colon));
    const auto end =
        colon + 1 == text.size() ? std::optional<uint64_t>(kNoEnd) : number(text.substr(colon + 1));
    if (begin && end && *begin <= *end) return {*begin, *end};
  }
  throw Error(
      ErrorCode::kInvalidInput,
      "--rows must be A:B, from row A (the first is 0) to before row B, not '" + text + "'");
}

// The source of the texts: rows of a file or of standard input, or the arguments.
class Texts {
 public:
  Texts(const Options& options, const std::vector<std::string>& words)
      : range_(parse_rows(options.rows)), words_(words), row_(range_.begin) {
    if (!words.empty()) return;
    const RowFormat format = row_format_of(options.in);
    rows_.emplace(options.in, format, format == RowFormat::kCsv ? options.column : options.field);
  }

  // Goes to the first requested row, or continues after `n_done` rows.
  void begin(uint64_t n_done, uint64_t offset) {
    row_ = range_.begin + n_done;
    if (!rows_) return;
    n_done > 0 ? rows_->resume(row_, offset) : rows_->skip(range_.begin);
  }

  // Returns the next batch; empty at the end.
  EmbedBatch next(size_t n_max) {
    EmbedBatch batch{.first_row = row_};
    uint64_t n_bytes = 0;
    while (row_ < range_.end && batch.texts.size() < n_max && n_bytes < kMaxBatchBytes) {
      std::optional<std::string> text = next_text();
      if (!text) break;
      n_bytes += text->size();
      batch.texts.push_back(std::move(*text));
      ++row_;
    }
    if (rows_) batch.offset = rows_->offset();
    return batch;
  }

 private:
  std::optional<std::string> next_text() {
    if (!rows_) return row_ < words_.size() ? std::optional(words_[row_]) : std::nullopt;
    std::optional<std::string> text = rows_->next();
    if (!text && range_.end != kNoEnd) rows_->skip(1);  // throws an error with the number of rows
    return text;
  }

  const RowRange range_;
  const std::vector<std::string>& words_;
  std::optional<TextRows> rows_;
  uint64_t row_ = 0;
};

// Returns everything that the vectors of a file depend on, as JSON.
std::string job_of(const Options& options, const std::string& weights) {
  VectorRecipe recipe = options.work.recipe;
  recipe.weights = weights;
  Json job = {{"fingerprint", fingerprint(recipe)},
              {"in", std::filesystem::absolute(options.in).string()},
              {"field", options.field},
              {"column", options.column},
              {"rows", options.rows}};
  if (const auto status = store::file_status(options.in)) {
    job["in_bytes"] = status->size_bytes;
    job["in_modified"] = status->modified.time_since_epoch().count();
  }
  return job.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The destination of the vectors: a file or standard output.
class Output {
 public:
  Output(const Options& options, const std::string& job) {
    if (options.out.empty()) return;
    file_.emplace(options.out, vector_format_of(options.out), job);
    if (file_->was_of_another_job()) {
      std::fprintf(stderr, "%s.part belongs to another job; starting over\n", options.out.c_str());
    } else if (file_->n_rows() > 0) {
      std::fprintf(stderr, "continuing after %s rows\n", std::to_string(file_->n_rows()).c_str());
    }
  }

  uint64_t n_rows() const { return file_ ? file_->n_rows() : 0; }
  uint64_t input_offset() const { return file_ ? file_->input_offset() : 0; }

  void take(const EmbedBatch& batch) {
    std::string lines;
    for (size_t i = 0; i < batch.vectors.size(); ++i) {
      const uint64_t row = batch.first_row + i;
      file_ ? file_->append(row, batch.vectors[i]) : append_json_line(lines, row, batch.vectors[i]);
    }
    if (file_) return file_->mark(batch.offset);
    print_now(lines);
  }
  void checkpoint() {
    if (file_) file_->checkpoint();
  }
  void publish() {
    if (file_) file_->publish();
  }

 private:
  std::optional<VectorFile> file_;
};

// Sends all texts and writes their vectors in order. Returns how many texts were cut.
size_t run_all(const Options& options, EmbedWork& work, Texts& texts, Output& output) {
  const auto size = options.in.empty() ? std::nullopt : store::file_status(options.in);
  std::optional<StatusLine> status;
  if (size && !options.out.empty() && ::isatty(STDERR_FILENO) != 0) status.emplace();
  size_t n_cut = 0;
  bool has_more = true;
  for (;;) {
    while (has_more && work.n_inside() < 2 * options.work.n_jobs) {
      EmbedBatch batch = texts.next(options.batch);
      has_more = !batch.texts.empty();
      if (has_more) work.put(std::move(batch));
    }
    if (work.n_inside() == 0) return n_cut;
    const EmbedBatch batch = work.take();
    output.take(batch);
    n_cut += batch.n_cut;
    if (status) status->show("embedding " + options.in, batch.offset, size->size_bytes);
  }
}

void check(const Options& options, const std::vector<std::string>& words) {
  if (options.work.model.empty()) throw Error(ErrorCode::kInvalidInput, "--model is required");
  if (!options.in.empty() && !words.empty())
    throw Error(ErrorCode::kInvalidInput, "give texts or --in, not both");
  if (options.in.empty() && !options.rows.empty())
    throw Error(ErrorCode::kInvalidInput, "--rows needs --in");
  if (options.batch == 0 || options.work.n_jobs == 0)
    throw Error(ErrorCode::kInvalidInput, "--batch and --jobs must be at least 1");
  if (options.work.recipe.pooling == "none")
    throw Error(ErrorCode::kInvalidInput, "--pooling none does not give one vector for each text");
  check_truncation(options.work.recipe.truncation);
  parse_rows(options.rows);
  vector_format_of(options.out);
}

void run(Options options, const std::vector<std::string>& words) {
  options.work.recipe.normalise = !options.no_normalise;
  options.work.timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1e3));
  check(options, words);
  options.work.is_bulk = !options.in.empty();
  options.work.origin =
      words.empty() ? (options.in.empty() ? "standard input" : options.in) : "arguments";
  Texts texts(options, words);
  const scheduler::Endpoint endpoint = client_environment().host.for_clients();
  std::string job;
  if (!options.out.empty()) {
    try {
      const auto client = connected_client();
      // Standard input cannot be read again, so its job cannot resume.
      job = options.in.empty() ? metrics::new_request_id()
                               : job_of(options, weights_digest(*client, options.work.model));
    } catch (const ApiError& error) {
      throw EmbedFailure(error.status() >= 500 ? kTryAgain : 1, error.what());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kIo) throw;
      throw EmbedFailure(kTryAgain, error.what());
    }
  }
  Output output(options, job);
  texts.begin(output.n_rows(), output.input_offset());
  EmbedWork work(endpoint, options.work);
  std::optional<InterruptWatch> watch;
  if (!options.out.empty()) watch.emplace([&work] { work.cancel(); });
  size_t n_cut = 0;
  try {
    n_cut = run_all(options, work, texts, output);
  } catch (...) {
    output.checkpoint();
    if (watch && watch->interrupted()) end_with(exit_status_of(SIGINT));
    throw;
  }
  output.publish();
  if (n_cut > 0)
    std::fprintf(stderr, "%s texts were too long and were cut\n", std::to_string(n_cut).c_str());
}

// Runs the command. The exit status distinguishes input errors from temporary failures.
void run_and_report(const Options& options, const std::vector<std::string>& words) {
  int status = 0;
  std::string text;
  try {
    return run(options, words);
  } catch (const EmbedFailure& failure) {
    status = failure.exit_status();
    text = failure.what();
  } catch (const RowError& error) {
    status = kInputFault;
    text = error.what();
  } catch (const FileInUse& error) {
    status = kTryAgain;
    text = error.what();
  }
  report_error(text);
  end_with(status);
}

}  // namespace

void add_embed(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = add_client_command(
      app,
      {.name = "embed",
       .description = "Compute vectors of texts from arguments, a file, or lines of standard input",
       .arguments = "[TEXT...]"},
      [options](const std::vector<std::string>& words) { run_and_report(*options, words); });
  command.add_option("-m,--model", options->work.model, "The model");
  command.add_option("--in", options->in, "File with texts: .jsonl, .csv, or one text per line");
  command.add_option("--field", options->field, "For .jsonl: the field with the text (text)");
  command.add_option("--column", options->column, "For .csv: the column with the text (text)");
  command.add_option("--rows", options->rows, "A:B: rows of the file, from A to before B");
  command.add_option("-o,--out", options->out,
                     "File for the vectors: .npy, or JSON lines (Parquet is not supported); "
                     "default: JSON lines on standard output");
  VectorRecipe& recipe = options->work.recipe;
  command.add_option("--prefix", recipe.prefix, "Text to put before every text");
  command.add_option("--dimensions", recipe.dimensions, "Keep only this many of the first values");
  command.add_option("--pooling", recipe.pooling,
                     "mean, cls, last or max; default: the model's pooling");
  command.add_flag("--no-normalize", options->no_normalise, "Do not normalize the vectors");
  command.add_option("--truncate", recipe.truncation,
                     "Where to cut a text that is too long: right (default) or left; none: fail");
  command.add_option("--batch", options->batch, "Texts per request (32)");
  command.add_option("--jobs", options->work.n_jobs, "Requests in flight (4)");
  command.add_option("--timeout", options->timeout_s,
                     "Seconds of retries while the server is busy (10)");
}

}  // namespace billow::cli
