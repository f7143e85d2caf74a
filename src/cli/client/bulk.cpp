#include "cli/client/bulk.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "cli/client/command_line.h"
#include "cli/client/part_file.h"
#include "cli/client/show_text.h"
#include "cli/program.h"
#include "cli/terminal_line.h"
#include "store/folder.h"

namespace billow::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestWait{100};
constexpr milliseconds kLongestWait{5'000};

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

milliseconds wait_of(const http::Response& response) {
  const std::chrono::seconds asked(count_in(response.headers.get("Retry-After").substr(0, 4)));
  return std::clamp<milliseconds>(asked, kShortestWait, kLongestWait);
}

}  // namespace

void fail_invalid() {
  throw BulkFailure(
      kTryAgain,
      "the server's response is invalid; is the program at this address a billow server?");
}

std::string at_rows(const std::string& origin, uint64_t first, size_t n, const std::string& why) {
  std::string rows = "row " + std::to_string(first);
  if (n > 1) rows = "rows " + std::to_string(first) + " to " + std::to_string(first + n - 1);
  return origin + ": " + rows + ": " + why;
}

void run_bulk_command(const std::function<void()>& command) {
  int status = 0;
  std::string text;
  try {
    return command();
  } catch (const BulkFailure& failure) {
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

RowRange parse_rows(const std::string& text) {
  if (text.empty()) return {};
  const size_t colon = text.find(':');
  if (colon != std::string::npos) {
    const auto begin = colon == 0 ? std::optional<uint64_t>(0) : number(text.substr(0, colon));
    const auto end = colon + 1 == text.size() ? std::optional<uint64_t>(UINT64_MAX)
                                              : number(text.substr(colon + 1));
    if (begin && end && *begin <= *end) return {*begin, *end};
  }
  throw Error(
      ErrorCode::kInvalidInput,
      "--rows must be A:B, from row A (the first is 0) to before row B, not '" + text + "'");
}

BulkRows::BulkRows(const RowOptions& options, bool raw)
    : range_(parse_rows(options.rows)),
      raw_(raw),
      rows_(options.in, row_format_of(options.in),
            row_format_of(options.in) == RowFormat::kCsv ? options.column : options.field),
      row_(range_.begin) {}

void BulkRows::begin(uint64_t n_done, uint64_t offset) {
  row_ = range_.begin + n_done;
  n_done > 0 ? rows_.resume(row_, offset) : rows_.skip(range_.begin);
}

std::optional<std::string> BulkRows::next() {
  if (row_ >= range_.end) return std::nullopt;
  std::optional<std::string> row = raw_ ? rows_.next_raw() : rows_.next();
  if (row) {
    ++row_;
  } else if (range_.end != UINT64_MAX) {
    rows_.skip(1);  // throws an error with the number of rows
  }
  return row;
}

Json bulk_job(const std::string& fingerprint, const RowOptions& options) {
  Json job = {{"fingerprint", fingerprint},
              {"in", std::filesystem::absolute(options.in).string()},
              {"field", options.field},
              {"column", options.column},
              {"rows", options.rows}};
  // The time of a pipe changes with each row, and a job that reads it cannot resume.
  const bool is_file = std::filesystem::is_regular_file(options.in);
  if (const auto status = is_file ? store::file_status(options.in) : std::nullopt) {
    job["in_bytes"] = status->size_bytes;
    job["in_modified"] = status->modified.time_since_epoch().count();
  }
  return job;
}

void check_unchanged(const RowOptions& rows, const std::string& out, bool is_same) {
  if (is_same) return;
  throw BulkFailure(kTryAgain, "the model or " + rows.in + " changed during the job, so " + out +
                                   " is not written; run the command again");
}

BulkProgress::BulkProgress(const std::string& verb, const std::string& in, const std::string& out)
    : step_(verb + " " + in) {
  const auto status = in.empty() ? std::nullopt : store::file_status(in);
  if (!status || out.empty() || !is_smart_terminal(STDERR_FILENO)) return;
  n_bytes_ = status->size_bytes;
  line_.emplace();
}

void BulkProgress::show(uint64_t offset) {
  if (line_) line_->show(step_, offset, n_bytes_);
}

std::string from_server(const std::function<std::string(ApiClient&)>& facts) {
  try {
    return facts(*connected_client());
  } catch (const ApiError& error) {
    throw BulkFailure(error.status() >= 500 ? kTryAgain : 1, error.what());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kIo) throw;
    throw BulkFailure(kTryAgain, error.what());
  }
}

BulkCaller::BulkCaller(const scheduler::Endpoint& endpoint, bool is_bulk, milliseconds timeout,
                       const std::string& client)
    : client_(endpoint), headers_({{"X-Billow-Client", client}}), timeout_(timeout) {
  if (is_bulk) headers_.add("X-Billow-Priority", "bulk");
}

http::Response BulkCaller::post(const std::string& path, const std::string& body) {
  const auto give_up = std::chrono::steady_clock::now() + timeout_;
  for (;;) {
    http::Response response;
    try {
      response = client_.exchange(path, body, headers_);
    } catch (const Error& error) {  // no server answers, or not with HTTP
      throw BulkFailure(kTryAgain, error.what());
    }
    const bool is_busy = response.status == 503 || response.status == 429;
    const auto time = wait_of(response);
    if (!is_busy || std::chrono::steady_clock::now() + time > give_up || !wait(time))
      return response;
  }
}

bool BulkCaller::wait(milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return is_cancelled_; });
}

void BulkCaller::cancel() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
  }
  client_.abandon();
  changed_.notify_all();
}

void check_status(const http::Response& response) {
  const int status = response.status;
  if (status == 400 || status == 413 || status == 422) return;
  const std::string message = said_by(response.body);
  const std::string with_status = ApiError(status, message, true).what();
  if (status >= 500 || status == 429 || status == 408) throw BulkFailure(kTryAgain, with_status);
  throw BulkFailure(1, message.empty() ? with_status : message);
}

size_t count_in(std::string_view field) {
  size_t count = 0;
  std::from_chars(field.data(), field.data() + field.size(), count);
  return count;
}

}  // namespace billow::cli
