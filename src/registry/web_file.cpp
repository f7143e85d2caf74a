#include "registry/web_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "registry/content_range.h"
#include "registry/origin.h"
#include "registry/session.h"

namespace billow::registry {
namespace {

constexpr int kMaxRedirects = 10;
constexpr int kMaxAttemptsUnanswered = 2;  // fail early if the server does not respond at all
constexpr size_t kMaxErrorBytes = 64 << 10;
constexpr std::string_view kSuffix = ".gguf";
constexpr std::string_view kSplitForm = "-#####-of-#####.gguf";
constexpr int kMaxSplits = 1000;

// Returns the URL without its query and fragment.
std::string_view path_of(std::string_view url) { return url.substr(0, url.find_first_of("?#")); }

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

void pause(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait_for(lock, stop, time, [] { return false; });
}

// A fetch from its first attempt to its end.
class Fetch {
 public:
  Fetch(Transport& transport, const std::string& url, const WebFileSink& sink,
        const WebFileOptions& options, std::stop_token stop)
      : transport_(transport),
        url_(url),
        host_(origin_of(url) ? origin_of(url)->host : url),
        sink_(sink),
        options_(options),
        stop_(std::move(stop)) {}

  void run() {
    std::chrono::milliseconds time = options_.first_pause;
    for (int n_failed = 0; !try_once();) {
      n_failed = has_advanced_ ? 1 : n_failed + 1;
      if (has_advanced_) time = options_.first_pause;
      if (n_taken_ > 0 && version_.empty())
        fail(ErrorCode::kIo, why_ +
                                 "; the server does not say which version of the file it sends, "
                                 "so the rest cannot be fetched");
      const int n_max = has_answered_ ? options_.max_attempts
                                      : std::min(options_.max_attempts, kMaxAttemptsUnanswered);
      if (n_failed >= n_max) fail(ErrorCode::kIo, "max retries exceeded: " + why_);
      pause(time, stop_);
      check_stop();
      time *= 2;
    }
  }

 private:
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const {
    throw Error(code, fmt::format("{}: {}", host_, what));
  }

  void check_stop() const {
    if (stop_.stop_requested()) fail(ErrorCode::kIo, "the download was cancelled");
  }

  // Returns true if all bytes have arrived. Returns false if a retry may succeed; why_ then has the
  // reason.
  bool try_once() {
    const uint64_t n_before = n_taken_;
    failure_ = nullptr;
    std::string url = url_;
    for (int n_redirects = 0;; ++n_redirects) {
      Reply reply;
      try {
        reply = transport_.send(request(url), stop_);
      } catch (const Error& error) {
        if (failure_) std::rethrow_exception(failure_);
        check_stop();
        if (error.code() != ErrorCode::kIo) throw;
        why_ = error.what();
        has_advanced_ = n_taken_ > n_before;
        return false;
      }
      if (failure_) std::rethrow_exception(failure_);
      has_answered_ = true;
      has_advanced_ = n_taken_ > n_before;
      if (!is_redirect(reply.status)) return is_whole(reply);
      if (n_redirects == kMaxRedirects)
        fail(ErrorCode::kIo, fmt::format("it redirects more than {} times", kMaxRedirects));
      url = next_address(url, reply);
    }
  }

  std::string next_address(const std::string& url, const Reply& reply) const {
    const std::optional<std::string> next =
        resolved_url(url, std::string(reply.headers.get("Location")));
    if (!next) fail(ErrorCode::kIo, "it redirects to no address");
    if (url.starts_with("https:") && next->starts_with("http:"))
      fail(ErrorCode::kIo, "it redirects from https to http");
    return *next;
  }

  Request request(const std::string& url) {
    Request request{.url = url};
    request.headers.set("Accept-Encoding", "identity");
    if (n_taken_ > 0) {
      request.headers.set("Range", fmt::format("bytes={}-", n_taken_));
      request.headers.set("If-Range", version_);
    }
    refusal_.clear();
    has_begun_answer_ = false;
    request.on_body = [this](const Reply& head, std::string_view bytes) {
      has_answered_ = true;
      if (head.status != 200 && head.status != 206) {
        refusal_ += bytes.substr(0, kMaxErrorBytes - std::min(kMaxErrorBytes, refusal_.size()));
        return refusal_.size() < kMaxErrorBytes;
      }
      try {
        if (!std::exchange(has_begun_answer_, true)) begin(head);
        take(bytes);
      } catch (...) {
        failure_ = std::current_exception();
        return false;
      }
      return true;
    };
    return request;
  }

  // Checks the head of a response that has bytes of the file.
  void begin(const Reply& head) {
    const ContentRange range = parse_content_range(head.headers.get("Content-Range"));
    const std::optional<uint64_t> size = whole_bytes(head);
    std::string version(head.headers.get("ETag"));
    if (version.empty() || version.starts_with("W/"))
      version = std::string(head.headers.get("Last-Modified"));
    n_skipped_ = 0;
    if (n_taken_ == 0) {
      size_ = size;
      version_ = version;
      if (sink_.begin) sink_.begin(size_);
      return;
    }
    if (!size_) size_ = size;
    if ((size && size != size_) || version != version_)
      fail(ErrorCode::kIo, "the file has changed during the download: download it again");
    if (head.status == 206 && range.first != n_taken_)
      fail(ErrorCode::kIo, "it sends a different part of the file than requested");
    // A server without ranges sends the whole file again.
    if (head.status == 200) n_skipped_ = n_taken_;
  }

  void take(std::string_view bytes) {
    const uint64_t n = std::min<uint64_t>(n_skipped_, bytes.size());
    n_skipped_ -= n;
    bytes.remove_prefix(static_cast<size_t>(n));
    if (bytes.empty()) return;
    if (size_ && bytes.size() > *size_ - n_taken_)
      fail(ErrorCode::kIo, "it sends more bytes than the file has");
    sink_.write(std::as_bytes(std::span(bytes)));
    n_taken_ += bytes.size();
  }

  bool is_whole(const Reply& reply) {
    const int status = reply.status;
    if (status == 200 || status == 206) {
      if (!size_ || n_taken_ == *size_) return true;
      why_ = "the response ended early";
      return false;
    }
    Reply failed = reply;
    failed.body = refusal_;
    why_ = error_text(failed);
    if (status == 404 || status == 410)
      fail(ErrorCode::kNotFound, "there is no such file: " + why_);
    if (status == 401 || status == 403) fail(ErrorCode::kPermissionDenied, why_);
    const bool may_pass = status >= 500 || status == 408 || status == 429;
    if (!may_pass) fail(ErrorCode::kIo, why_);
    return false;
  }

  Transport& transport_;
  const std::string& url_;
  const std::string host_;
  const WebFileSink& sink_;
  const WebFileOptions& options_;
  const std::stop_token stop_;
  std::optional<uint64_t> size_;
  std::string version_;  // the strong ETag of the first response, or its Last-Modified date
  uint64_t n_taken_ = 0;
  uint64_t n_skipped_ = 0;  // bytes of this response that are already taken
  bool has_begun_answer_ = false;
  bool has_answered_ = false;  // the server has answered any attempt
  bool has_advanced_ = false;
  std::string refusal_;  // the body of a response without the file
  std::string why_;
  std::exception_ptr failure_;
};

}  // namespace

bool is_file_address(std::string_view text) {
  if (!text.starts_with("http://") && !text.starts_with("https://")) return false;
  const std::string_view path = path_of(text);
  const size_t host = path.find("://") + 3;
  const size_t slash = path.find('/', host);
  return slash != std::string_view::npos && slash > host && path.ends_with(kSuffix) &&
         path.size() - path.rfind('/') > kSuffix.size() + 1 && origin_of(text).has_value();
}

std::string file_name_of(std::string_view url) {
  const std::string_view path = path_of(url);
  return std::string(path.substr(path.rfind('/') + 1));
}

std::vector<std::string> file_addresses(const std::string& url) {
  std::string address = url;
  constexpr std::string_view kPage = "/blob/";
  for (const std::string_view site : {"https://huggingface.co/", "https://hf.co/"}) {
    const size_t page = address.find(kPage);
    if (address.starts_with(site) && page != std::string::npos && page < path_of(address).size())
      address.replace(page, kPage.size(), "/resolve/");
  }
  const std::string_view path = path_of(address);
  const bool is_split = path.size() > kSplitForm.size() &&
                        std::ranges::equal(path.substr(path.size() - kSplitForm.size()), kSplitForm,
                                           [](char c, char form) {
                                             return form == '#' ? c >= '0' && c <= '9' : c == form;
                                           });
  if (!is_split) return {address};
  const size_t at = path.size() - kSplitForm.size() + 1;
  constexpr size_t kTotalAt = 9;  // position in "00001-of-00003"
  const uint64_t n = number_in(path.substr(at + kTotalAt, 5)).value_or(0);
  if (n < 1 || n > kMaxSplits) return {address};
  std::vector<std::string> all;
  for (uint64_t i = 1; i <= n; ++i) {
    std::string one = address;
    one.replace(at, 5, fmt::format("{:05}", i));
    all.push_back(std::move(one));
  }
  return all;
}

void fetch_web_file(Transport& transport, const std::string& url, const WebFileSink& sink,
                    const WebFileOptions& options, std::stop_token stop) {
  Fetch(transport, url, sink, options, std::move(stop)).run();
}

}  // namespace billow::registry
