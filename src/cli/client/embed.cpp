// billow embed: computes vectors of texts from arguments, standard input or a file. Writes them to
// a file or to standard output.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cli/client/bulk.h"
#include "cli/client/bulk_queue.h"
#include "cli/client/command_line.h"
#include "cli/client/embed_work.h"
#include "cli/client/interrupt_watch.h"
#include "cli/client/vector_file.h"
#include "cli/client/vector_recipe.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_checks.h"
#include "cli/output_file.h"
#include "metrics/request_id.h"

namespace billow::cli {
namespace {

constexpr uint64_t kMaxBatchBytes = 8 << 20;

struct Options {
  EmbedWorkOptions work;
  RowOptions rows;
  std::string out;
  size_t batch = 32;
  size_t n_jobs = 4;
  double timeout_s = 10.0;
  bool no_normalise = false;
};

// The source of the texts: rows of a file or of standard input, or the arguments.
class Texts {
 public:
  Texts(const RowOptions& options, const std::vector<std::string>& words) : words_(words) {
    if (words.empty()) rows_.emplace(options, false);
  }

  // Goes to the first requested row, or continues after `n_done` rows.
  void begin(uint64_t n_done, uint64_t offset) {
    if (rows_) rows_->begin(n_done, offset);
  }

  // Returns the next batch; nullopt at the end.
  std::optional<EmbedBatch> next(size_t n_max) {
    EmbedBatch batch{.first_row = rows_ ? rows_->row() : n_words_done_};
    uint64_t n_bytes = 0;
    while (batch.texts.size() < n_max && n_bytes < kMaxBatchBytes) {
      std::optional<std::string> text = rows_ ? rows_->next() : next_word();
      if (!text) break;
      n_bytes += text->size();
      batch.texts.push_back(std::move(*text));
    }
    if (batch.texts.empty()) return std::nullopt;
    if (rows_) batch.offset = rows_->offset();
    return batch;
  }

 private:
  std::optional<std::string> next_word() {
    return n_words_done_ < words_.size() ? std::optional(words_[n_words_done_++]) : std::nullopt;
  }

  const std::vector<std::string>& words_;
  size_t n_words_done_ = 0;
  std::optional<BulkRows> rows_;
};

// Returns everything that the vectors of a file depend on, as JSON.
std::string job_of(const Options& options, const std::string& weights) {
  VectorRecipe recipe = options.work.recipe;
  recipe.weights = weights;
  return bulk_job(fingerprint(recipe), options.rows)
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The destination of the vectors: a file or standard output.
class Output {
 public:
  Output(const Options& options, const std::string& job) {
    if (options.out.empty()) return;
    file_.emplace(options.out, vector_format_of(options.out), job);
    report_resume(file_->part(), options.out);
  }

  uint64_t n_rows() const { return file_ ? file_->n_rows() : 0; }
  uint64_t input_offset() const { return file_ ? file_->part().input_offset() : 0; }

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
size_t run_all(const Options& options, BulkQueue<EmbedBatch>& queue, Texts& texts, Output& output) {
  BulkProgress progress("embedding", options.rows.in, options.out);
  size_t n_cut = 0;
  work_through<EmbedBatch>(
      queue, 2 * options.n_jobs, [&] { return texts.next(options.batch); },
      [&](const EmbedBatch& batch) {
        output.take(batch);
        n_cut += batch.n_cut;
        progress.show(batch.offset);
      });
  return n_cut;
}

void check(const Options& options, const std::vector<std::string>& words) {
  if (options.work.model.empty()) refuse_usage("--model is required");
  if (!options.rows.in.empty() && !words.empty()) refuse_usage("give texts or --in, not both");
  if (options.rows.in.empty() && !options.rows.rows.empty()) refuse_usage("--rows needs --in");
  if (options.work.recipe.pooling == "none")
    refuse_usage("--pooling none does not give one vector for each text");
  as_usage([&] {
    check_truncation(options.work.recipe.truncation);
    parse_rows(options.rows.rows);
    vector_format_of(options.out);
  });
}

void run(Options options, const std::vector<std::string>& words) {
  options.work.recipe.normalise = !options.no_normalise;
  check(options, words);
  const std::string& in = options.rows.in;
  options.work.origin = !words.empty() ? "arguments" : in.empty() ? "standard input" : in;
  if (!options.out.empty()) refuse_to_replace(options.out, std::array{in});
  const auto job_now = [&] {
    return from_server([&](ApiClient& client) {
      return job_of(options, weights_digest(client, options.work.model));
    });
  };
  // Standard input cannot be read again, so its job cannot resume.
  const bool is_job = !options.out.empty() && !in.empty();
  Texts texts(options.rows, words);
  const std::string job = is_job ? job_now() : metrics::new_request_id();
  Output output(options, job);
  texts.begin(output.n_rows(), output.input_offset());
  BulkQueue<EmbedBatch> queue(
      {.endpoint = client_environment().host.for_clients(),
       .is_bulk = !in.empty(),
       .n_jobs = options.n_jobs,
       .timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1e3))},
      [&options](BulkCaller& caller, EmbedBatch& batch) {
        embed_batch(options.work, caller, batch);
      });
  // Only a job that reads a file can resume. Ctrl-C ends others immediately: they may wait for a
  // line of a terminal.
  std::optional<InterruptWatch> watch;
  if (is_job) watch.emplace([&queue] { queue.cancel(); });
  size_t n_cut = 0;
  try {
    n_cut = run_all(options, queue, texts, output);
    // Ctrl-C also ends the program that writes the rows into a named pipe. What came is not all.
    if (watch && watch->interrupted()) throw Error(ErrorCode::kIo, "interrupted");
    if (is_job) check_unchanged(options.rows, options.out, job_now() == job);
  } catch (...) {
    output.checkpoint();
    if (watch && watch->interrupted()) end_with(exit_status_of(SIGINT));
    throw;
  }
  output.publish();
  if (n_cut > 0)
    std::fprintf(stderr, "%s texts were too long and were cut\n", std::to_string(n_cut).c_str());
}

}  // namespace

void add_embed(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = add_client_command(
      app,
      {.name = "embed",
       .description = "Compute vectors of texts from arguments, a file, or lines of standard input",
       .arguments = "[TEXT...]"},
      [options](const std::vector<std::string>& words) {
        run_bulk_command([&] { run(*options, words); });
      });
  command.add_option("-m,--model", options->work.model, "The model");
  command.add_option("--in", options->rows.in,
                     "File with texts: .jsonl, .csv, or one text per line");
  command.add_option("--field", options->rows.field, "For .jsonl: the field with the text (text)");
  command.add_option("--column", options->rows.column, "For .csv: the column with the text (text)");
  command.add_option("--rows", options->rows.rows, "A:B: rows of the file, from A to before B");
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
  command.add_option("--batch", options->batch, "Texts per request (32)")->check(whole_number(1));
  command.add_option("--jobs", options->n_jobs, "Requests in flight (4)")
      ->check(whole_number(1, kMaxJobs));
  command
      .add_option("--timeout", options->timeout_s,
                  "Seconds of retries while the server is busy (10)")
      ->check(number(0.0, kMaxTimeoutSeconds));
}

}  // namespace billow::cli
