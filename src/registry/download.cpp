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
#include "registry/following_digest.h"
#include "registry/part_files.h"
#include "store/folder.h"

namespace billow::registry {
namespace {

// Max number of expired addresses in a row without a byte in between.
constexpr int kMaxRefreshes = 20;
// Writing to the disk starts in units of this size.
constexpr uint64_t kFlushBytes = 8 << 20;
// Number of parts that begin immediately.
constexpr size_t kFirstParts = 2;

// An error that a retry cannot fix.
struct Fatal : Error {
  using Error::Error;
};

bool is_expired(int status) {
  return status == 400 || status == 401 || status == 403 || status == 410;
}

std::string range_of(uint64_t first, uint64_t end) {
  return "bytes=" + std::to_string(first) + "-" + std::to_string(end - 1);
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
    check_room();
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

  void check_room() const {
    struct statvfs disk{};
    if (::statvfs(files_.path().c_str(), &disk) != 0) return;
    const uint64_t n_free = uint64_t{disk.f_bavail} * disk.f_frsize;
    const uint64_t n_wanted = n_bytes_ - n_completed_;
    if (n_wanted > n_free)
      throw Error(ErrorCode::kTooLarge, files_.path() + ": " + format_byte_size(n_wanted) +
                                            " more are needed, but the disk has " +
                                            format_byte_size(n_free) + " left");
  }

  // Asks the registry for the blob's address. `url` receives the address that answered.
  Reply ask_for_url(std::string& url) {
    Request request{.url = "/blobs/" + digest_.text(), .headers = {{"Range", range_of(0, 1)}}};
    request.on_body = [](const Reply&, std::string_view) {
      return false;
    };  // only the head is needed
    Reply reply = session_.follow(std::move(request), stop_.get_token(), &url);
    const std::scoped_lock lock(mutex_);
    ++n_urls_;
    if (has_blob(reply)) url_ = url;
    return reply;
  }

  static bool has_blob(const Reply& reply) { return reply.status == 200 || reply.status == 206; }

  // Finds the first address. Plans a single part if the server does not support ranges.
  void find_url() {
    std::string url;
    const Reply reply = ask_for_url(url);
    if (!has_blob(reply))
      throw Error(reply.status == 404 ? ErrorCode::kNotFound : ErrorCode::kIo,
                  digest_.text() + ": " + error_text(reply));
    if (reply.status == 206 || files_.parts().size() == 1) return;
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

  void fetch_part(size_t index) {
    const Part& part = files_.parts()[index];
    int n_failed = 0;
    int n_refreshed = 0;
    std::string why;
    while (part.completed < part.size) {
      const uint64_t before = part.completed;
      int status = 0;
      int n_url = 0;
      try {
        status = fetch_once(index, n_url);
        why = digest_.text() + ": the server answered " + std::to_string(status);
      } catch (const Fatal&) {
        throw;
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kPermissionDenied) throw;
        why = error.what();
      }
      files_.save(index);
      if (stop_.stop_requested()) throw_cancelled();
      if (part.completed > before) n_failed = n_refreshed = 0;
      if (part.completed == part.size) return;
      if (is_expired(status) && ++n_refreshed <= kMaxRefreshes) {
        refresh(n_url);
        continue;
      }
      if (++n_failed >= options_.max_attempts)
        throw Fatal(ErrorCode::kIo, "max retries exceeded: " + why);
      constexpr int kMaxDoublings = 20;
      pause(options_.first_pause * (1 << std::min(n_failed - 1, kMaxDoublings)));
    }
  }

  // Sends one request for the rest of a part and returns its status. A server without ranges sends
  // the only part from the beginning again. This function then skips the bytes that are stored.
  int fetch_once(size_t index, int& n_url) {
    const Part& part = files_.parts()[index];
    const uint64_t first = part.offset + part.completed;
    Request request{.url = {}, .headers = {{"Range", range_of(first, part.end())}}};
    {
      const std::scoped_lock lock(mutex_);
      request.url = url_;
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
    if (head.status == 200 && part.size == n_bytes_) return;
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

  // Asks for another address, unless another thread has asked since `n_url`.
  void refresh(int n_url) {
    const std::scoped_lock one_at_a_time(refresh_mutex_);
    {
      const std::scoped_lock lock(mutex_);
      if (n_urls_ != n_url) return;
    }
    std::string url;
    ask_for_url(url);
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
  std::mutex mutex_;
  std::condition_variable_any pauses_;
  std::string url_;
  int n_urls_ = 0;  // how often the address was requested
  std::string failure_;
  ErrorCode failure_code_ = ErrorCode::kIo;
};

}  // namespace

void download(Session& session, const std::string& folder, const store::Digest& digest,
              uint64_t n_bytes, const DownloadOptions& options, std::stop_token stop) {
  if (store::file_status(folder + "/" + digest.file_name())) return;
  try {
    Download(session, folder, digest, n_bytes, options, stop).run();
  } catch (const Error&) {
    if (stop.stop_requested()) throw Error(ErrorCode::kIo, "the download was cancelled");
    throw;
  }
}

}  // namespace billow::registry
