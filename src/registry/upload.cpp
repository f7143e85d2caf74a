#include "registry/upload.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/regular_file.h"
#include "registry/origin.h"

namespace billow::registry {
namespace {

// An error that a retry cannot fix.
struct Fatal : Error {
  using Error::Error;
};

bool is_good(int status) { return status >= 200 && status < 300; }

std::string hex(std::span<const uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

class Md5 {
 public:
  Md5() { EVP_DigestInit_ex(context_.get(), EVP_md5(), nullptr); }
  void update(std::span<const std::byte> bytes) {
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }
  std::array<uint8_t, 16> finish() {
    std::array<uint8_t, 16> sum{};
    EVP_DigestFinal_ex(context_.get(), sum.data(), nullptr);
    return sum;
  }

 private:
  struct End {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, End> context_{EVP_MD_CTX_new()};
};

// A part of a blob that the registry had sent elsewhere.
struct SentPart {
  uint64_t first = 0;
  uint64_t end = 0;
  std::array<uint8_t, 16> sum{};  // MD5
};

// Returns N + 1 for a field Range with the value "0-N": the bytes that a registry has. Returns 0 if
// the field is missing or malformed.
uint64_t received_bytes(std::string_view range) {
  const size_t dash = range.rfind('-');
  if (dash == std::string_view::npos) return 0;
  const std::string_view digits = range.substr(dash + 1);
  uint64_t last = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), last);
  if (code != std::errc() || end != digits.data() + digits.size()) return 0;
  return last == 0 ? 0 : last + 1;  // "0-0" can also mean no byte
}

class Upload {
 public:
  Upload(Session& session, const std::string& path, const store::Digest& digest, std::string from,
         const UploadOptions& options, std::stop_token stop)
      : session_(session),
        file_(path),
        path_(path),
        digest_(digest),
        from_(std::move(from)),
        options_(options),
        stop_(std::move(stop)) {
    const std::vector<Part> parts = plan_parts(file_.size_bytes(), options.sizes);
    part_bytes_ = parts.empty() ? 0 : parts.front().size;
  }

  void run() {
    int n_failed = 0;
    for (;;) {
      const uint64_t before = n_received_;
      std::string why;
      try {
        if (attempt()) return;
      } catch (const Fatal&) {
        throw;
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kPermissionDenied) throw;
        why = error.what();
      }
      if (n_received_ > before) n_failed = 0;
      pause_or_give_up(++n_failed, why);
    }
  }

 private:
  void pause_or_give_up(int n_failed, const std::string& why) {
    if (n_failed >= options_.max_attempts)
      throw Fatal(ErrorCode::kIo, "max retries exceeded: " + why);
    pause(n_failed);
  }

  // Pauses after the failure or question number `n`. Each pause is twice as long as the last one.
  void pause(int n) {
    std::mutex mutex;
    std::condition_variable_any pauses;
    std::unique_lock lock(mutex);
    pauses.wait_for(lock, stop_, options_.first_pause * (1 << (n - 1)), [] { return false; });
    if (stop_.stop_requested()) throw Fatal(ErrorCode::kIo, "the upload was cancelled");
  }

  void report(uint64_t n_completed) const {
    if (options_.on_progress) options_.on_progress(n_completed);
  }

  // Returns true once the registry has the blob. Throws Error if a retry may succeed.
  bool attempt() {
    if (!url_.empty() && resume()) return true;
    if (url_.empty() && begin()) return true;
    report(n_received_);
    while (n_received_ < file_.size_bytes()) send_part();
    finish();
    return true;
  }

  // Starts an upload. Returns true if the registry has the blob in another repository.
  bool begin() {
    Request request{.method = "POST", .url = "/blobs/uploads/"};
    if (!from_.empty()) request.url += "?mount=" + digest_.text() + "&from=" + from_;
    std::string asked;
    const Reply reply = session_.follow(std::move(request), stop_, &asked);
    if (reply.status == 201) {
      report(file_.size_bytes());
      return true;
    }
    if (!is_good(reply.status)) {
      const std::string why =
          digest_.text() + ": the registry accepts no upload: " + error_text(reply);
      if (reply.status >= 400 && reply.status < 500 && reply.status != 429)
        throw Fatal(reply.status == 403 ? ErrorCode::kPermissionDenied : ErrorCode::kIo, why);
      throw Error(ErrorCode::kIo, why);
    }
    take_location(reply, asked);
    if (url_.empty())
      throw Fatal(ErrorCode::kIo,
                  digest_.text() + ": the registry does not say where to send the blob");
    n_received_ = 0;
    parts_.clear();
    return false;
  }

  // Forgets the redirected parts that the registry has lost: they are sent again.
  void forget_parts() {
    for (; !parts_.empty() && parts_.back().end > n_received_; parts_.pop_back())
      n_received_ = std::min(n_received_, parts_.back().first);
  }

  // Asks the registry how many bytes of the upload it has. Returns true if it has the blob. If the
  // registry does not know the upload any more, the upload starts over.
  bool resume() {
    if (may_have_ended_ && has_blob(session_, digest_, stop_)) return true;
    const Reply reply = session_.send({.url = url_}, stop_);
    if (is_good(reply.status)) {
      const uint64_t n = received_bytes(reply.headers.get("Range"));
      n_received_ = std::min(n, file_.size_bytes());
      forget_parts();
      take_location(reply, url_);
      return false;
    }
    if (reply.status != 404) return false;  // progress unknown: the part is sent again
    if (may_have_ended_ ? await_blob() : has_blob(session_, digest_, stop_)) return true;
    url_.clear();
    n_received_ = 0;
    may_have_ended_ = false;
    return false;
  }

  // Waits for the blob of an upload whose last request got no response: a registry may still check
  // the bytes. Returns whether the registry has the blob.
  bool await_blob() {
    for (int n = 1; n <= options_.max_attempts; ++n) {
      if (has_blob(session_, digest_, stop_)) return true;
      pause(n);
    }
    return has_blob(session_, digest_, stop_);
  }

  // Stores the address for the next request, if the reply to a request for `asked` has one.
  void take_location(const Reply& reply, const std::string& asked) {
    std::string_view location = reply.headers.get("Docker-Upload-Location");
    if (location.empty()) location = reply.headers.get("Location");
    if (location.empty()) return;
    const auto url = resolved_url(asked, std::string(location));
    if (!url)
      throw Fatal(ErrorCode::kIo, digest_.text() + ": the registry sent an invalid address");
    if (session_.base().starts_with("https:") && url->starts_with("http:"))
      throw Fatal(ErrorCode::kIo, digest_.text() + ": the registry redirects from https to http");
    url_ = *url;
  }

  Request part_request(std::string method, std::string url, uint64_t first, uint64_t end) {
    Request request{.method = std::move(method), .url = std::move(url)};
    request.headers.set("Content-Type", "application/octet-stream");
    request.upload_bytes = end - first;
    request.upload = [this, at = first, end](std::span<char> buffer) mutable {
      const auto n_wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size(), end - at));
      const size_t n = file_.read_at(at, std::as_writable_bytes(buffer.first(n_wanted)));
      if (n == 0 && n_wanted > 0)
        throw Fatal(ErrorCode::kIo, path_ + ": the file became shorter during the upload");
      at += n;
      report(at);
      return n;
    };
    return request;
  }

  void send_part() {
    const uint64_t first = n_received_;
    const uint64_t end = std::min(first + part_bytes_, file_.size_bytes());
    Request request = part_request("PATCH", url_, first, end);
    request.headers.set("Content-Range", std::to_string(first) + "-" + std::to_string(end - 1));
    request.headers.set("X-Redirect-Uploads", "1");
    // A registry that redirects the part answers before the bytes are sent.
    if (first == 0 || !parts_.empty()) request.headers.set("Expect", "100-continue");
    const std::string asked = url_;
    const Reply reply = session_.send(std::move(request), stop_);
    if (reply.status == 307) {
      const auto elsewhere = resolved_url(asked, std::string(reply.headers.get("Location")));
      if (!elsewhere)
        throw Fatal(ErrorCode::kIo, digest_.text() + ": the registry redirects to no address");
      take_location(reply, asked);
      send_elsewhere(*elsewhere, first, end);
      parts_.push_back({first, end, md5_of(first, end)});
    } else if (is_good(reply.status)) {
      take_location(reply, asked);
    } else {
      throw Error(ErrorCode::kIo, digest_.text() + ": " + error_text(reply));
    }
    n_received_ = end;
    report(end);
  }

  void send_elsewhere(const std::string& url, uint64_t first, uint64_t end) {
    for (int n_failed = 0;;) {
      std::string why;
      try {
        const Reply reply = session_.send(part_request("PUT", url, first, end), stop_);
        if (is_good(reply.status)) return;
        why = digest_.text() + ": " + error_text(reply);
      } catch (const Fatal&) {
        throw;
      } catch (const Error& error) {
        why = error.what();
      }
      pause_or_give_up(++n_failed, why);
    }
  }

  std::array<uint8_t, 16> md5_of(uint64_t first, uint64_t end) const {
    Md5 md5;
    std::vector<std::byte> bytes(1 << 20);
    while (first < end) {
      const auto n_wanted = static_cast<size_t>(std::min<uint64_t>(bytes.size(), end - first));
      const size_t n = file_.read_at(first, std::span(bytes).first(n_wanted));
      if (n == 0)
        throw Fatal(ErrorCode::kIo, path_ + ": the file became shorter during the upload");
      md5.update(std::span(bytes).first(n));
      first += n;
    }
    return md5.finish();
  }

  // Returns the ETag that object stores give to a blob of several objects.
  std::string etag() const {
    Md5 md5;
    for (const SentPart& part : parts_) md5.update(std::as_bytes(std::span(part.sum)));
    return hex(md5.finish()) + "-" + std::to_string(parts_.size());
  }

  void finish() {
    Request request{.method = "PUT", .url = url_};
    request.url += (url_.find('?') == std::string::npos ? "?" : "&");
    request.url += "digest=" + digest_.text();
    if (!parts_.empty()) request.url += "&etag=" + etag();
    request.headers.set("Content-Type", "application/octet-stream");
    request.reply_timeout = options_.end_timeout;
    may_have_ended_ = true;
    const Reply reply = session_.send(std::move(request), stop_);
    if (is_good(reply.status)) return;
    may_have_ended_ = reply.status >= 500;  // also of a proxy that did not wait for the registry
    const std::string why =
        digest_.text() + ": the registry refuses the blob: " + error_text(reply);
    if (reply.status == 400) throw Fatal(ErrorCode::kIo, why);  // the digest does not match
    throw Error(ErrorCode::kIo, why);
  }

  Session& session_;
  const RegularFile file_;
  const std::string path_;
  const store::Digest digest_;
  const std::string from_;
  const UploadOptions& options_;
  const std::stop_token stop_;
  uint64_t part_bytes_ = 0;
  std::string url_;              // for the next request; empty: no upload has begun
  uint64_t n_received_ = 0;      // bytes that the registry has
  bool may_have_ended_ = false;  // the last request was sent, and its result is unknown
  std::vector<SentPart> parts_;  // redirected, without those that the registry has lost
};

}  // namespace

bool has_blob(Session& session, const store::Digest& digest, std::stop_token stop) {
  const Reply reply = session.follow({.method = "HEAD", .url = "/blobs/" + digest.text()}, stop);
  if (reply.status == 404) return false;
  if (is_good(reply.status)) return true;
  // A response to HEAD has no error message.
  const bool may_want_tls = reply.status == 400 && session.base().starts_with("http:");
  throw Error(ErrorCode::kIo, digest.text() + ": " + error_text(reply) +
                                  (may_want_tls ? ": the registry may support only https, and "
                                                  "'insecure' uses http"
                                                : ""));
}

void upload(Session& session, const std::string& path, const store::Digest& digest,
            const std::string& from, const UploadOptions& options, std::stop_token stop) {
  try {
    Upload(session, path, digest, from, options, stop).run();
  } catch (const Error&) {
    if (stop.stop_requested()) throw Error(ErrorCode::kIo, "the upload was cancelled");
    throw;
  }
}

}  // namespace billow::registry
