#include "registry/transport.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "http/public_address.h"
#include "registry/curl_api.h"

namespace billow::registry {
namespace {

using Clock = std::chrono::steady_clock;

// How often stalled requests are checked.
constexpr int kLookMs = 500;
constexpr long kReceiveBytes = 512 << 10;
// Pause between probes of a silent connection. They keep it open in routers while a server works.
constexpr long kProbePauseSeconds = 30;
// The max size of all heads of a response together: a proxy's head, heads with 1xx, the final head.
constexpr size_t kMaxHeadBytes = 256 << 10;

struct EndEasy {
  void operator()(CURL* easy) const { curl().easy_cleanup(easy); }
};
struct EndMulti {
  void operator()(CURLM* multi) const { curl().multi_cleanup(multi); }
};
struct EndList {
  void operator()(curl_slist* list) const { curl().slist_free_all(list); }
};

// Returns "registry.example" for "https://registry.example/v2/", for messages.
std::string host_of(const std::string& url) {
  const size_t scheme = url.find("://");
  const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  return url.substr(begin, url.find_first_of("/?#", begin) - begin);
}

bool can_be_a_field(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

// A running request. It belongs to the loop's thread from start to end.
class Transfer {
 public:
  Transfer(const Request& request, const TransportOptions& options)
      : request_(request), options_(options), easy_(curl().easy_init()) {
    if (!easy_) throw Error(ErrorCode::kOutOfMemory, "libcurl has no memory for a request");
    check();
    set(CURLOPT_URL, request.url.c_str());
    allow_http_only();
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_USERAGENT, options.user_agent.c_str());
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
    set(CURLOPT_BUFFERSIZE, kReceiveBytes);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_TCP_KEEPIDLE, kProbePauseSeconds);
    set(CURLOPT_TCP_KEEPINTVL, kProbePauseSeconds);
    set(CURLOPT_ERRORBUFFER, error_.data());
    set(CURLOPT_PRIVATE, this);
    set(CURLOPT_HEADERFUNCTION, &Transfer::take_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &Transfer::take_body);
    set(CURLOPT_WRITEDATA, this);
    if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
    if (options.only_public_addresses) {
      set(CURLOPT_PROXY, "");
      set(CURLOPT_OPENSOCKETFUNCTION, &Transfer::open_public_socket);
      set(CURLOPT_OPENSOCKETDATA, this);
    }
    set_method();
    set_fields();
  }

  CURL* easy() const { return easy_.get(); }
  const std::string& url() const { return request_.url; }
  // Returns how long no byte may move.
  std::chrono::milliseconds patience() const {
    const bool is_sent = !request_.upload || n_given_ == request_.upload_bytes;
    return is_sent ? std::max(options_.stall_timeout, request_.reply_timeout)
                   : options_.stall_timeout;
  }
  bool has_stalled(Clock::time_point now) const { return has_begun_ && now - moved_ > patience(); }
  void begin() {
    moved_ = Clock::now();
    has_begun_ = true;
  }

  // Records the result of the request: send() returns the reply or throws the failure.
  void end(CURLcode code) {
    const std::string host = host_of(request_.url);
    if (failure_) return;
    if (is_enough_) return;
    if (code == CURLE_OK) return;
    const bool has_more = error_[0] != '\0';
    std::string why = has_more ? error_.data() : curl().easy_strerror(code);
    if (code == CURLE_SSL_CONNECT_ERROR && why.find("wrong version number") != std::string::npos)
      why =
          "it does not speak TLS; --insecure, or \"insecure\" in a request, asks a registry by "
          "http";
    fail(Error(ErrorCode::kIo, host + ": " + why));
  }
  template <typename Failure>
  void fail(Failure failure) {
    if (!failure_) failure_ = std::make_exception_ptr(std::move(failure));
  }

  Reply take() {
    // Moves the exception out, so that threads share no exception. The loop's thread, which created
    // it, does not destroy it.
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    return std::move(reply_);
  }

 private:
  template <typename Value>
  void set(CURLoption option, Value value) {
    const CURLcode code = curl().easy_setopt(easy_.get(), option, value);
    if (code != CURLE_OK)
      throw Error(ErrorCode::kInvalidInput,
                  host_of(request_.url) + ": " + curl().easy_strerror(code));
  }

  void allow_http_only() {
    // CURLOPT_PROTOCOLS, which libcurl before 7.85 has instead. New headers call it deprecated.
    constexpr auto kProtocolBits = static_cast<CURLoption>(CURLOPTTYPE_LONG + 181);
    if (curl().easy_setopt(easy_.get(), CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK)
      set(kProtocolBits, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
  }

  void check() const {
    const bool is_known =
        request_.url.starts_with("http://") || request_.url.starts_with("https://");
    if (!is_known || !can_be_a_field(request_.url) || !can_be_a_field(request_.method))
      throw Error(ErrorCode::kInvalidInput, "this is not a server address: " + request_.url);
    for (const http::Headers::Field& field : request_.headers)
      if (!can_be_a_field(field.name) || !can_be_a_field(field.value) || field.name.empty())
        throw Error(ErrorCode::kInvalidInput,
                    "a field of the request cannot be sent: " + field.name);
  }

  void set_method() {
    const bool has_body = request_.upload || !request_.body.empty();
    if (request_.upload) {
      set(CURLOPT_UPLOAD, 1L);
      set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request_.upload_bytes));
      set(CURLOPT_READFUNCTION, &Transfer::give_body);
      set(CURLOPT_READDATA, this);
    } else if (has_body || request_.method == "POST" || request_.method == "PUT" ||
               request_.method == "PATCH") {
      set(CURLOPT_POST, 1L);
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
      set(CURLOPT_POSTFIELDS, request_.body.data());
    } else if (request_.method == "HEAD") {
      set(CURLOPT_NOBODY, 1L);
    }
    if (request_.method != "HEAD") set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }

  void set_fields() {
    const auto add = [this](const std::string& line) {
      curl_slist* const list = fields_.release();
      curl_slist* const longer = curl().slist_append(list, line.c_str());
      fields_.reset(longer == nullptr ? list : longer);
      if (longer == nullptr)
        throw Error(ErrorCode::kOutOfMemory, "libcurl has no memory for a request");
    };
    // Stops libcurl from adding these fields: a registry need not confirm that it wants the body,
    // and no form is sent.
    if (request_.headers.find("Expect") == nullptr) add("Expect:");
    if (request_.headers.find("Content-Type") == nullptr) add("Content-Type:");
    for (const http::Headers::Field& field : request_.headers)
      add(field.value.empty() ? field.name + ";" : field.name + ": " + field.value);
    set(CURLOPT_HTTPHEADER, fields_.get());
  }

  // Runs a callback of the request. send() throws the exceptions of the callback.
  template <typename Work>
  bool guarded(const Work& work) {
    moved_ = Clock::now();
    try {
      return work();
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
      return false;
    }
  }

  // The address is the resolved one, so a name cannot resolve to another address afterwards.
  static curl_socket_t open_public_socket(void* self, curlsocktype, curl_sockaddr* address) {
    auto& transfer = *static_cast<Transfer*>(self);
    if (!http::is_public_address(address->addr)) {
      transfer.fail(Error(ErrorCode::kPermissionDenied,
                          host_of(transfer.request_.url) + " is not a public address"));
      return CURL_SOCKET_BAD;
    }
    return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }
  static size_t take_header(char* bytes, size_t, size_t n_bytes, void* self) {
    return static_cast<Transfer*>(self)->on_header({bytes, n_bytes}) ? n_bytes : 0;
  }
  static size_t take_body(char* bytes, size_t, size_t n_bytes, void* self) {
    return static_cast<Transfer*>(self)->on_bytes({bytes, n_bytes}) ? n_bytes
                                                                    : CURL_WRITEFUNC_ERROR;
  }
  static size_t give_body(char* bytes, size_t, size_t n_bytes, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    size_t n = 0;
    const bool goes_on = transfer.guarded([&] {
      n = transfer.request_.upload(std::span(bytes, n_bytes));
      transfer.n_given_ += n;
      return true;
    });
    return goes_on ? n : CURL_READFUNC_ABORT;
  }

  bool on_header(std::string_view line) {
    return guarded([&] {
      n_head_bytes_ += line.size();
      if (n_head_bytes_ > kMaxHeadBytes)
        throw Error(ErrorCode::kTooLarge, host_of(request_.url) +
                                              ": the head of the response has more than " +
                                              std::to_string(kMaxHeadBytes) + " bytes");
      line = trimmed(line);
      if (line.starts_with("HTTP/")) {  // also after "100 Continue" and the response of a proxy
        reply_ = {};
        const size_t blank = line.find(' ');
        const std::string_view code =
            blank == std::string_view::npos ? "" : line.substr(blank + 1, 3);
        for (const char c : code)
          if (c >= '0' && c <= '9') reply_.status = reply_.status * 10 + (c - '0');
        return true;
      }
      const size_t colon = line.find(':');
      if (colon != std::string_view::npos)
        reply_.headers.add(std::string(line.substr(0, colon)),
                           std::string(trimmed(line.substr(colon + 1))));
      return true;
    });
  }

  bool on_bytes(std::string_view bytes) {
    return guarded([&] {
      if (request_.on_body) {
        is_enough_ = !request_.on_body(reply_, bytes);
        return !is_enough_;
      }
      if (bytes.size() > request_.max_body_bytes - reply_.body.size())
        throw Error(ErrorCode::kTooLarge, host_of(request_.url) + ": the response has more than " +
                                              std::to_string(request_.max_body_bytes) + " bytes");
      reply_.body += bytes;
      return true;
    });
  }

  const Request& request_;
  const TransportOptions& options_;
  std::unique_ptr<CURL, EndEasy> easy_;
  std::unique_ptr<curl_slist, EndList> fields_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  Reply reply_;
  std::exception_ptr failure_;
  size_t n_head_bytes_ = 0;
  uint64_t n_given_ = 0;    // bytes of the body that libcurl has
  bool is_enough_ = false;  // on_body wants no more bytes
  bool has_begun_ = false;
  Clock::time_point moved_{};  // time of the last byte sent or received
};

}  // namespace

class Transport::Loop {
 public:
  explicit Loop(TransportOptions options) : options_(std::move(options)) {
    multi_.reset(curl().multi_init());
    if (!multi_) throw Error(ErrorCode::kOutOfMemory, "libcurl has no memory");
    thread_ = std::thread([this] { run(); });
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      ends_ = true;
    }
    wake();
    thread_.join();
  }

  Reply send(const Request& request, const std::stop_token& stop) {
    const auto entry = std::make_shared<Entry>(request, options_);
    {
      const std::scoped_lock lock(mutex_);
      if (ends_) throw ending();  // the loop may take no more requests
      waiting_.push_back(entry);
    }
    wake();
    {
      const std::stop_callback cancels(stop, [&] {
        {
          const std::scoped_lock lock(mutex_);
          entry->is_cancelled = true;
          has_cancelled_ = true;
        }
        wake();
      });
      std::unique_lock lock(mutex_);
      entry->ended.wait(lock, [&] { return entry->is_over; });
    }
    return entry->transfer.take();
  }

 private:
  struct Entry {
    Entry(const Request& request, const TransportOptions& options) : transfer(request, options) {}
    Transfer transfer;
    // Guarded by the mutex.
    std::condition_variable ended;
    bool is_cancelled = false;
    bool is_over = false;
  };
  using Entries = std::vector<std::shared_ptr<Entry>>;

  static Error ending() { return Error(ErrorCode::kIo, "the program is ending"); }

  void wake() { curl().multi_wakeup(multi_.get()); }

  void run() {
    while (take_news()) {
      int n_running = 0;
      curl().multi_perform(multi_.get(), &n_running);
      end_finished();
      end_stalled();
      curl().multi_poll(multi_.get(), nullptr, 0, running_.empty() ? 60'000 : kLookMs, nullptr);
    }
    while (!running_.empty()) end(running_.begin()->second, ending());
  }

  // Returns false if the loop must end.
  bool take_news() {
    Entries fresh;
    Entries cancelled;
    bool ends = false;
    {
      const std::scoped_lock lock(mutex_);
      fresh.swap(waiting_);
      ends = ends_;
      if (std::exchange(has_cancelled_, false))
        for (const auto& [easy, entry] : running_)
          if (entry->is_cancelled) cancelled.push_back(entry);
      for (const auto& entry : fresh)
        if (entry->is_cancelled) cancelled.push_back(entry);
    }
    for (const auto& entry : fresh) {
      entry->transfer.begin();
      running_.emplace(entry->transfer.easy(), entry);
      curl().multi_add_handle(multi_.get(), entry->transfer.easy());
    }
    for (const auto& entry : cancelled)
      end(entry, Error(ErrorCode::kIo, "the request was cancelled"));
    return !ends;
  }

  void end_finished() {
    int n_left = 0;
    while (const CURLMsg* message = curl().multi_info_read(multi_.get(), &n_left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const std::shared_ptr<Entry> entry = running_.at(message->easy_handle);
      entry->transfer.end(message->data.result);
      end(entry, std::nullopt);
    }
  }

  void end_stalled() {
    const Clock::time_point now = Clock::now();
    Entries stalled;
    for (const auto& [easy, entry] : running_)
      if (entry->transfer.has_stalled(now)) stalled.push_back(entry);
    for (const auto& entry : stalled)
      end(entry, Error(ErrorCode::kIo,
                       host_of(entry->transfer.url()) + ": no data moved for " +
                           std::to_string(entry->transfer.patience().count() / 1000) + " s"));
  }

  void end(std::shared_ptr<Entry> entry, std::optional<Error> why) {
    if (why) entry->transfer.fail(std::move(*why));
    curl().multi_remove_handle(multi_.get(), entry->transfer.easy());
    running_.erase(entry->transfer.easy());
    const std::scoped_lock lock(mutex_);
    entry->is_over = true;
    entry->ended.notify_all();
  }

  const TransportOptions options_;
  std::unique_ptr<CURLM, EndMulti> multi_;
  std::mutex mutex_;
  Entries waiting_;
  bool has_cancelled_ = false;
  bool ends_ = false;
  std::map<CURL*, std::shared_ptr<Entry>> running_;  // used by the thread
  std::thread thread_;
};

Transport::Transport(TransportOptions options)
    : loop_(std::make_shared<Loop>(std::move(options))) {}

Transport::~Transport() { loop_->stop(); }

Reply Transport::send(const Request& request, std::stop_token stop) {
  const std::shared_ptr<Loop> loop = loop_;  // the Transport may be destroyed during the call
  return loop->send(request, stop);
}

}  // namespace billow::registry
