// The common parts of bulk commands: exit statuses, rows, requests and progress. Not thread-safe,
// except where a comment says so.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "cli/client/api_client.h"
#include "cli/client/status_line.h"
#include "cli/client/text_rows.h"

namespace billow::cli {

// An error that ends the command with an exit status. Statuses of <sysexits.h> distinguish input
// errors from temporary failures.
inline constexpr int kInputFault = 65;  // EX_DATAERR: the input is wrong; a retry cannot succeed
inline constexpr int kTryAgain = 75;    // EX_TEMPFAIL: the host failed; a retry may succeed
class BulkFailure : public std::runtime_error {
 public:
  BulkFailure(int exit_status, const std::string& text)
      : std::runtime_error(text), exit_status_(exit_status) {}
  int exit_status() const noexcept { return exit_status_; }

 private:
  int exit_status_;
};

// Throws BulkFailure (kTryAgain) for a response that a Billow server would not send.
[[noreturn]] void fail_invalid();

// Returns "FILE: row 17: WHY" or "FILE: rows 32 to 63: WHY".
std::string at_rows(const std::string& origin, uint64_t first, size_t n, const std::string& why);

// Runs a command. A BulkFailure, RowError or FileInUse ends the program with an exit status and one
// line on standard error. Other exceptions pass through.
void run_bulk_command(const std::function<void()>& command);

inline constexpr size_t kMaxJobs = 1024;  // each job is a thread and a connection
inline constexpr double kMaxTimeoutSeconds = 86400.0;

struct RowRange {
  uint64_t begin = 0;
  uint64_t end = UINT64_MAX;
};
// Parses "A:B". Both numbers are optional. Throws Error.
RowRange parse_rows(const std::string& text);

struct RowOptions {
  std::string in{};  // empty: standard input
  std::string field = "text";
  std::string column = "text";
  std::string rows{};  // "A:B"; empty: all
};

// The rows of a file or of standard input.
class BulkRows {
 public:
  // If `raw`, rows of JSON lines are whole lines. Throws RowError and Error.
  BulkRows(const RowOptions& options, bool raw);

  // Goes to the first requested row. If `n_done` > 0, continues after these rows, at `offset`.
  void begin(uint64_t n_done, uint64_t offset);
  // Returns the next row; nullopt at the end. Throws RowError.
  std::optional<std::string> next();
  uint64_t row() const noexcept { return row_; }  // number of the next row
  uint64_t offset() const noexcept { return rows_.offset(); }

 private:
  const RowRange range_;
  const bool raw_;
  TextRows rows_;
  uint64_t row_ = 0;
};

// Returns all that the results of a job depend on: `fingerprint`, the input, and the chosen rows.
Json bulk_job(const std::string& fingerprint, const RowOptions& options);

// Throws BulkFailure (kTryAgain) if a job of these rows is no longer the one that began. Its rows
// are then a mixture, and the next run starts over.
void check_unchanged(const RowOptions& rows, const std::string& out, bool is_same);

// On a terminal, shows how much of an input file is done. Does nothing if the input or the output
// is not a file.
class BulkProgress {
 public:
  // `verb` is what the command does: "embedding".
  BulkProgress(const std::string& verb, const std::string& in, const std::string& out);
  void show(uint64_t offset);  // bytes of the input that are done

 private:
  const std::string step_;
  uint64_t n_bytes_ = 0;
  std::optional<StatusLine> line_;
};

// Connects to the server, and returns the result of `facts`. Throws BulkFailure if the server does
// not answer, or answers with an error.
std::string from_server(const std::function<std::string(ApiClient&)>& facts);

// A connection for bulk requests. One thread sends; any thread may call cancel().
class BulkCaller {
 public:
  // `is_bulk`: requests have bulk priority. `timeout`: max time of retries while the server is
  // busy. `client` is the id of the command.
  BulkCaller(const scheduler::Endpoint& endpoint, bool is_bulk, std::chrono::milliseconds timeout,
             const std::string& client);

  // Sends the JSON text `body`. While the server is busy, waits and sends `body` again. Returns the
  // response, with any status. Throws BulkFailure (kTryAgain) if no server answers.
  http::Response post(const std::string& path, const std::string& body);
  // Waits for `time`. Returns false if cancel() was called.
  bool wait(std::chrono::milliseconds time);
  // Makes the running call and all later calls fail soon.
  void cancel() noexcept;

 private:
  ApiClient client_;
  http::Headers headers_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_cancelled_ = false;
};

// Returns if only the input is wrong: status 400, 413 or 422. Otherwise throws BulkFailure:
// kTryAgain if the host failed or is busy, 1 if a retry cannot succeed. REQUIRES: status >= 400.
void check_status(const http::Response& response);

// Returns the number at the start of a header field; 0 if there is no number.
size_t count_in(std::string_view field);

}  // namespace billow::cli
