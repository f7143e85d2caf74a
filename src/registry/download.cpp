#include "registry/download.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "registry/content_range.h"
#include "registry/following_digest.h"
#include "registry/part_files.h"
#include "store/folder.h"

namespace billow::registry {
namespace {

// Max number of expired addresses in a row without a byte in between. More count as failures.
constexpr int kMaxRefreshes = 20;
// Writing to the disk starts in units of this size.
constexpr uint64_t kFlushBytes = 8 << 20;
// Number of parts that begin immediately.
constexpr size_t kFirstParts = 2;

// An error that a retry cannot fix.
struct Fatal : Error {
  using Error::Error;
};

// Returns whether a blob's address may have expired or moved. `is_elsewhere`: it is not the
// registry's own address of the blob.
bool is_expired(int status, bool is_elsewhere) {
  return status == 400 || status == 401 || status == 403 || status == 410 ||
         (status >= 300 && status < 400) || (status == 404 && is_elsewhere);
}

std::string range_of(uint64_t first, uint64_t end) {
  return "bytes=" + std::to_string(first) + "-" + std::to_string(end - 1);
}

bool has_blob(const Reply& reply) { return reply.status == 200 || reply.status == 206; }

// Asks for the first byte of a blob, because only the head of the response is needed. `url`
// receives the address that answered.
Reply asked_head(Session& session, const store::Digest& digest, const std::stop_token& stop,
                 std::string* url = nullptr) {
  Request request{.url = "/blobs/" + digest.text(), .headers = {{"Range", range_of(0, 1)}}};
  request.on_body = [](const Reply&, std::string_view) { return false; };
  return session.follow(std::move(request), stop, url);
}

[[noreturn]] void throw_refused(const store::Digest& digest, const Reply& reply) {
  throw Error(reply.status == 404 ? ErrorCode::kNotFound : ErrorCode::kIo,
              digest.text() + ": " + error_text(reply));
}

// Returns the size of a blob whose manifest has no size.
uint64_t asked_size(Session& session, const store::Digest& digest, const std::stop_token& stop) {
  const Reply reply = asked_head(session, digest, stop);
  if (!has_blob(reply)) throw_refused(digest, reply);
  const std::optional<uint64_t> n_bytes = whole_bytes(reply);
  if (!n_bytes)
    throw Error(ErrorCode::kIo,
                digest.text() + ": neither the manifest nor the registry says the blob's size");
  return *n_bytes;
}

void check_room(const std::string& path, uint64_t n_wanted) {
  struct statvfs disk{};
  if (::statvfs(path.c_str(), &disk) != 0) return;
  const uint64_t n_free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (n_wanted > n_free)
    throw Error(ErrorCode::kIo, path + ": " + format_byte_size(n_wanted) +
                                    " more are needed, but the disk has " +
                                    format_byte_size(n_free) + " left");
}

class Download {
 public:
  Download(Session& session, const std::string& folder, const store::Digest& digest,
           uint64_t n_bytes, const DownloadOptions& options, const std::stop_token& stop)
      : session_(session),
        digest_(digest),
        n_bytes_(n_bytes),
        options_(options),
        blob_path_(folder + "/" + digest.file_name()),
        forward_(stop, [this] { stop_.request_stop(); }),
        files_(folder, digest, n_bytes, options.sizes, stop) {}

  void run() {
    if (store::file_status(blob_path_)) return files_.remove();  // another program was faster
    const bool is_resumed = completed_bytes(files_.parts()) > 0;
    try {
      fetch();
    } catch (...) {
      if (completed_bytes(files_.parts()) == 0) files_.remove();  // no bytes to resume from
      throw;
    }
    if (is_resumed && digest() != digest_) {  // the older bytes may be wrong
      files_.restart(false);
      fetch();
      check_digest();
    } else if (!is_resumed) {
      check_digest();
    }
    files_.commit(blob_path_);
  }

 private:
  [[noreturn]] static void throw_cancelled() {
    throw Fatal(ErrorCode::kIo, "the download was cancelled");
  }

  void report() const {
    if (options_.on_progress) options_.on_progress(n_completed_);
  }

  void fetch() {
    n_completed_ = completed_bytes(files_.parts());
    check_room(files_.path(), n_bytes_ - n_completed_);
    report();
    if (n_completed_ != n_bytes_) find_url();
    first_open_ = 0;
    sum_.emplace(files_.path(), [this, n_before = uint64_t{0}](uint64_t n_hashed) mutable {
      if (n_hashed - n_before >= kFlushBytes)
        files_.begin_flush(std::exchange(n_before, n_hashed), n_hashed);
      if (options_.on_check) options_.on_check(n_hashed);
    });
    sum_->advance(n_in_a_row());
    if (n_completed_ != n_bytes_) fetch_parts();
  }

  // Returns the number of bytes from the beginning without a gap. Only one thread calls it at a
  // time: first before the parts are fetched, then the Transport's thread.
  uint64_t n_in_a_row() {
    const std::vector<Part>& parts = files_.parts();
    while (first_open_ < parts.size() && parts[first_open_].completed == parts[first_open_].size)
      ++first_open_;
    if (first_open_ == parts.size()) return n_bytes_;
    return parts[first_open_].offset + parts[first_open_].completed;
  }

  // Returns why a response cannot be about the blob, or "".
  std::string flaw_of(const Reply& head) const {
    if (!has_blob(head)) return digest_.text() + ": " + error_text(head);
    const std::optional<uint64_t> n_bytes = whole_bytes(head);
    if (!n_bytes || *n_bytes == n_bytes_) return "";
    return digest_.text() + ": the manifest says " + std::to_string(n_bytes_) +
           " bytes, but the server has " + std::to_string(*n_bytes);
  }

  // Asks the registry for the blob's address.
  Reply ask_for_url() {
    std::string url;
    Reply reply = asked_head(session_, digest_, stop_.get_token(), &url);
    if (!flaw_of(reply).empty()) return reply;
    const std::scoped_lock lock(mutex_);
    ++n_urls_;
    url_ = url;
    return reply;
  }

  // Finds the first address. Plans a single part if the server does not support ranges. A response
  // without ranges may also be the page of a proxy, or an exception. So it must have the blob's
  // size, and stored bytes are given up only after a second response.
  void find_url() {
    bool is_asked_again = n_completed_ == 0;
    for (int n_failed = 1;; ++n_failed) {
      const Reply reply = ask_for_url();
      if (!has_blob(reply)) throw_refused(digest_, reply);
      std::string flaw = flaw_of(reply);
      if (reply.status == 206 && !flaw.empty()) throw Error(ErrorCode::kIo, flaw);
      if (reply.status == 206 || (flaw.empty() && files_.parts().size() == 1)) return;
      if (flaw.empty() && std::exchange(is_asked_again, true)) break;
      if (flaw.empty()) flaw = digest_.text() + ": the server sends the whole blob, not a part";
      pause_or_give_up(n_failed, flaw);
    }
    files_.restart(true);
    n_completed_ = 0;
  }

  void fetch_parts() {
    std::vector<size_t> left;
    for (size_t i = files_.parts().size(); i-- > 0;)
      if (files_.parts()[i].completed < files_.parts()[i].size) left.push_back(i);
    const size_t n_threads = std::min(options_.n_at_once, left.size());
    {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < n_threads; ++i)
        threads.emplace_back([this, &left, n_before = i < kFirstParts ? 0 : i + 1 - kFirstParts] {
          await_turn(n_before, left);
          fetch_some(left);
        });
    }
    if (!failure_.empty()) throw Error(failure_code_, failure_);
    if (stop_.stop_requested()) throw_cancelled();
  }

  // Waits for `n_pauses` pauses, or until the list is empty.
  void await_turn(size_t n_pauses, const std::vector<size_t>& left) {
    std::unique_lock lock(mutex_);
    pauses_.wait_for(lock, stop_.get_token(),
                     options_.next_part_pause * static_cast<int64_t>(n_pauses),
                     [&] { return left.empty(); });
  }

  // Fetches parts from the list until the list is empty or a part fails.
  void fetch_some(std::vector<size_t>& left) {
    for (;;) {
      size_t index = 0;
      {
        const std::scoped_lock lock(mutex_);
        if (left.empty() || stop_.stop_requested()) return;
        index = left.back();
        left.pop_back();
        if (left.empty()) pauses_.notify_all();
      }
      try {
        fetch_part(index);
      } catch (const Error& error) {
        return fail(error.code(), error.what());
      } catch (const std::exception& error) {  // no memory
        return fail(ErrorCode::kIo, error.what());
      }
    }
  }

  void fail(ErrorCode code, const char* why) {
    const std::scoped_lock lock(mutex_);
    if (failure_.empty() && !stop_.stop_requested()) {
      failure_ = why;
      failure_code_ = code;
    }
    stop_.request_stop();
  }

  // The result of one request for a part.
  struct Attempt {
    std::string why;  // why bytes may be missing
    bool has_expired = false;
    int n_url = 0;  // number of the address
  };

  void fetch_part(size_t index) {
    const Part& part = files_.parts()[index];
    int n_failed = 0;
    int n_refreshed = 0;
    while (part.completed < part.size) {
      const uint64_t before = part.completed;
      Attempt attempt = try_part(index);
      files_.save(index);
      if (stop_.stop_requested()) throw_cancelled();
      if (part.completed > before) n_failed = n_refreshed = 0;
      if (part.completed == part.size) return;
      if (attempt.has_expired) {
        const std::string flaw = refresh(attempt.n_url);
        if (flaw.empty() && ++n_refreshed <= kMaxRefreshes) {
          pause(options_.first_pause * (n_refreshed - 1) / kMaxRefreshes);
          continue;
        }
        if (!flaw.empty()) attempt.why = flaw;
      }
      pause_or_give_up(++n_failed, attempt.why);
    }
  }

  Attempt try_part(size_t index) {
    Attempt attempt;
    std::string url;
    try {
      const int status = fetch_once(index, url, attempt.n_url);
      const bool is_elsewhere = url != session_.base() + "/blobs/" + digest_.text();
      attempt.has_expired = is_expired(status, is_elsewhere);
      attempt.why = digest_.text() + ": the server answered " + std::to_string(status);
    } catch (const Fatal&) {
      throw;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kPermissionDenied) throw;
      attempt.why = error.what();
    }
    return attempt;
  }

  // Sends one request for the rest of a part and returns its status. A server without ranges sends
  // the only part from the beginning again. This function then skips the bytes that are stored.
  int fetch_once(size_t index, std::string& url, int& n_url) {
    const Part& part = files_.parts()[index];
    const uint64_t first = part.offset + part.completed;
    Request request{.url = {}, .headers = {{"Range", range_of(first, part.end())}}};
    {
      const std::scoped_lock lock(mutex_);
      request.url = url = url_;
      n_url = n_urls_;
    }
    bool is_checked = false;
    uint64_t n_known = 0;  // bytes to skip
    request.on_body = [&](const Reply& head, std::string_view bytes) {
      if (!std::exchange(is_checked, true)) {
        check_head(head, part, first);
        if (head.status == 200) n_known = part.completed;
      }
      const uint64_t n_skipped = std::min<uint64_t>(n_known, bytes.size());
      n_known -= n_skipped;
      take(index, bytes.substr(n_skipped));
      return true;
    };
    return session_.send(std::move(request), stop_.get_token()).status;
  }

  // Throws Error if the reply does not have the bytes of the part from `first` on.
  void check_head(const Reply& head, const Part& part, uint64_t first) const {
    if (head.status == 200 && part.size == n_bytes_) {
      const std::string flaw = flaw_of(head);
      if (!flaw.empty()) throw Error(ErrorCode::kIo, flaw);
      return;
    }
    const std::string_view range = head.headers.get("Content-Range");
    const std::string begin = "bytes " + std::to_string(first) + "-";
    const std::string total = "/" + std::to_string(n_bytes_);
    if (head.status != 206 || !range.starts_with(begin) ||
        !(range.ends_with(total) || range.ends_with("/*"))) {
      throw Error(ErrorCode::kIo,
                  digest_.text() + ": the server sent different bytes than requested");
    }
  }

  // Runs on the Transport's thread.
  void take(size_t index, std::string_view bytes) {
    const Part& part = files_.parts()[index];
    if (bytes.size() > part.size - part.completed)
      throw Error(ErrorCode::kIo, digest_.text() + ": the server sent more bytes than requested");
    try {
      files_.write(index, bytes);
    } catch (const Error& error) {  // for example, the disk is full
      throw Fatal(error.code(), error.what());
    }
    n_completed_ += bytes.size();
    sum_->advance(n_in_a_row());
    report();
  }

  // Asks for another address, unless another thread has got one since `n_url`. Returns why there is
  // none, or "". Threads that wait meanwhile share a failure: if each asked a silent registry in
  // turn, the last one would wait for long.
  std::string refresh(int n_url) {
    const int n_failures = n_refresh_failures_;
    const std::scoped_lock one_at_a_time(refresh_mutex_);
    {
      const std::scoped_lock lock(mutex_);
      if (n_urls_ != n_url) return "";
    }
    if (n_refresh_failures_ != n_failures) return refresh_failure_;
    std::string flaw;
    try {
      flaw = flaw_of(ask_for_url());
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kPermissionDenied) throw;
      flaw = error.what();
    }
    if (flaw.empty()) return "";
    refresh_failure_ = flaw;
    ++n_refresh_failures_;
    return flaw;
  }

  // Pauses after failure number `n_failed` in a row. Each pause is twice as long as the last one.
  void pause_or_give_up(int n_failed, const std::string& why) {
    if (n_failed >= options_.max_attempts)
      throw Fatal(ErrorCode::kIo, "max retries exceeded: " + why);
    constexpr int kMaxDoublings = 20;
    pause(options_.first_pause * (1 << std::min(n_failed - 1, kMaxDoublings)));
  }

  void pause(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    pauses_.wait_for(lock, stop_.get_token(), time, [] { return false; });
    if (stop_.stop_requested()) throw_cancelled();
  }

  // Returns the digest of all bytes once they are stored.
  store::Digest digest() {
    const auto found = sum_->finish(n_bytes_, stop_.get_token());
    if (!found) throw_cancelled();
    return *found;
  }

  void check_digest() {
    const store::Digest found = digest();
    if (found == digest_) return;
    files_.remove();
    throw Error(ErrorCode::kInvalidInput, "digest mismatch, file must be downloaded again: want " +
                                              digest_.text() + ", got " + found.text());
  }

  Session& session_;
  const store::Digest digest_;
  const uint64_t n_bytes_;
  const DownloadOptions& options_;
  const std::string blob_path_;
  std::stop_source stop_;  // requested by the caller, or after a part has failed
  const std::stop_callback<std::function<void()>> forward_;
  PartFiles files_;
  std::atomic<uint64_t> n_completed_{0};
  size_t first_open_ = 0;  // the first incomplete part
  std::optional<FollowingDigest> sum_;
  std::mutex refresh_mutex_;  // locked before mutex_
  std::atomic<int> n_refresh_failures_{0};
  std::string refresh_failure_;  // the last one
  std::mutex mutex_;
  std::condition_variable_any pauses_;
  std::string url_;
  int n_urls_ = 0;  // how often the registry gave an address
  std::string failure_;
  ErrorCode failure_code_ = ErrorCode::kIo;
};

}  // namespace

void download(Session& session, const std::string& folder, const store::Digest& digest,
              uint64_t n_bytes, const DownloadOptions& options, std::stop_token stop) {
  if (store::file_status(folder + "/" + digest.file_name())) return;
  try {
    if (n_bytes > 0 || digest == store::digest_of(""))
      return Download(session, folder, digest, n_bytes, options, stop).run();
    DownloadOptions quiet = options;
    quiet.on_progress = nullptr;
    n_bytes = asked_size(session, digest, stop);
    check_room(folder, n_bytes);  // the caller could not check it
    Download(session, folder, digest, n_bytes, quiet, stop).run();
  } catch (const Error&) {
    if (stop.stop_requested()) throw Error(ErrorCode::kIo, "the download was cancelled");
    throw;
  }
}

}  // namespace billow::registry
