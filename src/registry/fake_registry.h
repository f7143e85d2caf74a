// For tests: a registry in memory that follows the distribution's specification. A test can switch
// on faults. Thread-safe.
#pragma once

#include <atomic>
#include <charconv>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/server.h"
#include "store/digest.h"
#include "store/name.h"

namespace billow::registry {

class FakeRegistry {
 public:
  struct Faults {
    std::atomic<int> n_cut_uploads{0};    // of these parts, only the first half is accepted
    std::atomic<size_t> n_lost_bytes{0};  // the end of a longer upload fails once and loses these
    std::atomic<int> end_ms{0};           // pause before the response to the end of an upload
    // The ends of this many uploads get 504, and the registry forgets them. It shows each blob only
    // after this many requests for it.
    std::atomic<int> n_lost_ends{0};
    std::atomic<int> n_hidden{0};
    std::atomic<bool> redirects{false};    // uploads are redirected to another address
    std::atomic<bool> holds_blobs{false};  // sends only half of each blob until this is false again
    std::atomic<int> status_of_blobs{0};   // status of all responses about blobs
    std::atomic<bool> breaks_parts{false};  // each part of a blob has a wrong byte
    std::atomic<bool> damages{false};       // each blob has a wrong first byte
  };

  FakeRegistry() : server_(options(), routes()) {}
  ~FakeRegistry() { faults.holds_blobs = false; }
  FakeRegistry(const FakeRegistry&) = delete;
  FakeRegistry& operator=(const FakeRegistry&) = delete;

  std::string host() const { return "127.0.0.1:" + std::to_string(server_.port()); }
  store::Name name(const std::string& repository = "a/m") const {
    return store::parse_name("http://" + host() + "/" + repository).value();
  }

  void put_blob(const std::string& repository, const std::string& bytes) {
    const std::scoped_lock lock(mutex_);
    blobs_[repository][store::digest_of(bytes).text()] = bytes;
  }
  void put_manifest(const std::string& repository, const std::string& text) {
    const std::scoped_lock lock(mutex_);
    manifests_[repository + ":latest"] = text;
  }
  std::string manifest(const std::string& repository) {
    const std::scoped_lock lock(mutex_);
    return manifests_[repository + ":latest"];
  }
  std::string blob(const std::string& repository, const std::string& digest) {
    const std::scoped_lock lock(mutex_);
    return blobs_[repository][digest];
  }

  Faults faults;
  std::atomic<size_t> n_sent{0};      // sent bytes of blobs
  std::atomic<size_t> n_received{0};  // received bytes of uploads
  std::atomic<int> n_mounted{0};
  std::atomic<int> n_requests{0};  // requests for blobs
  std::atomic<int> n_open{0};      // of these, the requests that are not answered yet

 private:
  using Exchange = http::Exchange;
  using Method = http::Method;

  static http::ServerOptions options() {
    http::ServerOptions options;
    options.host = "127.0.0.1";
    return options;
  }

  std::vector<http::Route> routes() {
    std::vector<http::Route> all;
    const auto add = [&](std::vector<Method> methods, const char* pattern,
                         void (FakeRegistry::*handler)(Exchange&), bool streams = false) {
      http::Route& route = all.emplace_back();
      route.methods = std::move(methods);
      route.pattern = pattern;
      route.handler = [this, handler](Exchange& exchange) { (this->*handler)(exchange); };
      route.streams_body = streams;
    };
    add({Method::kGet}, "/v2/:space/:model/manifests/:tag", &FakeRegistry::get_manifest);
    add({Method::kPut}, "/v2/:space/:model/manifests/:tag", &FakeRegistry::take_manifest);
    add({Method::kGet, Method::kHead}, "/v2/:space/:model/blobs/:digest", &FakeRegistry::get_blob);
    add({Method::kPost}, "/v2/:space/:model/blobs/uploads", &FakeRegistry::begin_upload);
    add({Method::kPatch}, "/upload/:id", &FakeRegistry::take_part, true);
    add({Method::kGet}, "/upload/:id", &FakeRegistry::show_upload);
    add({Method::kPut}, "/upload/:id", &FakeRegistry::end_upload);
    add({Method::kPut}, "/elsewhere/:id", &FakeRegistry::take_part, true);
    return all;
  }

  static std::string parameter(const Exchange& exchange, const char* name) {
    return exchange.request().parameters.at(name);
  }
  static std::string query(const Exchange& exchange, const char* name) {
    const auto at = exchange.request().query.find(name);
    return at == exchange.request().query.end() ? "" : at->second;
  }
  static std::string repository(const Exchange& exchange) {
    return parameter(exchange, "space") + "/" + parameter(exchange, "model");
  }
  static bool takes_one(std::atomic<int>& n) {
    int was = n;
    while (was > 0 && !n.compare_exchange_weak(was, was - 1)) continue;
    return was > 0;
  }
  static void refuse(Exchange& exchange, int status, const std::string& code) {
    exchange.respond({.status = status,
                      .content_type = "application/json",
                      .body = R"({"errors":[{"code":")" + code + R"(","message":"no"}]})"});
  }

  void get_manifest(Exchange& exchange) {
    const std::string text = [&] {
      const std::scoped_lock lock(mutex_);
      return manifests_[repository(exchange) + ":" + parameter(exchange, "tag")];
    }();
    if (text.empty()) return refuse(exchange, 404, "MANIFEST_UNKNOWN");
    exchange.respond({.status = 200, .content_type = "x/y", .body = text});
  }

  void take_manifest(Exchange& exchange) {
    const std::scoped_lock lock(mutex_);
    manifests_[repository(exchange) + ":" + parameter(exchange, "tag")] = exchange.take_body().text;
    exchange.respond({.status = 201});
  }

  void get_blob(Exchange& exchange) {
    if (const int status = faults.status_of_blobs) return refuse(exchange, status, "NO");
    std::string bytes;
    {
      const std::scoped_lock lock(mutex_);
      const auto& known = blobs_[repository(exchange)];
      const auto at = known.find(parameter(exchange, "digest"));
      if (at == known.end() || takes_one(faults.n_hidden))
        return refuse(exchange, 404, "BLOB_UNKNOWN");
      bytes = at->second;
    }
    if (exchange.request().method == Method::kHead) {
      exchange.respond({.status = 200, .content_type = "x/y"});
      return;
    }
    if (faults.damages) bytes[0] ^= 1;
    const size_t n_all = bytes.size();
    size_t first = 0;
    size_t last = n_all - 1;
    const std::string range(exchange.request().headers.get("Range"));
    if (range.starts_with("bytes=")) {
      const size_t dash = range.find('-');
      std::from_chars(range.data() + 6, range.data() + dash, first);
      std::from_chars(range.data() + dash + 1, range.data() + range.size(), last);
    }
    bytes = bytes.substr(first, last - first + 1);
    ++n_requests;
    ++n_open;
    http::Headers headers;
    headers.add("Content-Range", "bytes " + std::to_string(first) + "-" + std::to_string(last) +
                                     "/" + std::to_string(n_all));
    exchange.begin_stream(206, "x/y", headers);
    // A request for the first bytes is the client's probe for the address.
    const size_t n_before = last == 0 ? 1 : bytes.size() / 2;
    exchange.write(bytes.substr(0, n_before));
    while (faults.holds_blobs && last > 0 && !exchange.client_gone())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::string rest = bytes.substr(n_before);
    if (faults.breaks_parts && !rest.empty()) rest[0] ^= 1;
    const bool is_connected = exchange.finish(rest);
    n_sent += last == 0 || !is_connected ? 0 : bytes.size();
    --n_open;
  }

  void begin_upload(Exchange& exchange) {
    const std::scoped_lock lock(mutex_);
    const std::string mounted = query(exchange, "mount");
    const std::string from = query(exchange, "from");
    const auto& known = blobs_[from];
    if (const auto at = known.find(mounted); at != known.end()) {
      blobs_[repository(exchange)][mounted] = at->second;
      ++n_mounted;
      exchange.respond({.status = 201});
      return;
    }
    const std::string id = std::to_string(uploads_.size());
    uploads_[id].repository = repository(exchange);
    exchange.respond({.status = 202, .headers = {{"Location", location(id)}}});
  }

  // Returns a new address for each response. Old addresses are refused.
  std::string location(const std::string& id) {
    return "/upload/" + id + "?state=" + std::to_string(++uploads_[id].state);
  }
  bool is_current(const Exchange& exchange) {
    const auto at = uploads_.find(parameter(exchange, "id"));
    return at != uploads_.end() && query(exchange, "state") == std::to_string(at->second.state);
  }

  void take_part(Exchange& exchange) {
    const std::string id = parameter(exchange, "id");
    const bool is_elsewhere = exchange.request().path.starts_with("/elsewhere");
    {
      const std::scoped_lock lock(mutex_);
      if (!is_elsewhere && !is_current(exchange)) return refuse(exchange, 404, "UPLOAD_UNKNOWN");
      if (faults.redirects && !is_elsewhere) {
        exchange.respond({.status = 307,
                          .headers = {{"Location", "/elsewhere/" + id},
                                      {"Docker-Upload-Location", location(id)}}});
        return;
      }
    }
    const bool is_cut = takes_one(faults.n_cut_uploads);
    std::string part;
    std::vector<char> buffer(1 << 16);
    while (const size_t n = exchange.read_body(buffer)) part.append(buffer.data(), n);
    if (is_cut) part.resize(part.size() / 2);
    n_received += part.size();
    const std::scoped_lock lock(mutex_);
    uploads_[id].bytes += part;
    if (is_cut) throw std::runtime_error("cut off");
    if (is_elsewhere)
      exchange.respond({.status = 200});
    else
      exchange.respond({.status = 202, .headers = {{"Location", location(id)}}});
  }

  void show_upload(Exchange& exchange) {
    const std::scoped_lock lock(mutex_);
    const std::string id = parameter(exchange, "id");
    const auto at = uploads_.find(id);
    if (at == uploads_.end()) return refuse(exchange, 404, "UPLOAD_UNKNOWN");
    const size_t n = at->second.bytes.size();
    exchange.respond({.status = 204,
                      .headers = {{"Location", location(id)},
                                  {"Range", "0-" + std::to_string(n == 0 ? 0 : n - 1)}}});
  }

  void end_upload(Exchange& exchange) {
    std::this_thread::sleep_for(std::chrono::milliseconds(faults.end_ms));
    const std::scoped_lock lock(mutex_);
    const std::string id = parameter(exchange, "id");
    if (!is_current(exchange)) return refuse(exchange, 404, "UPLOAD_UNKNOWN");
    std::string& bytes = uploads_[id].bytes;
    if (const size_t n_lost = faults.n_lost_bytes; n_lost > 0 && n_lost < bytes.size()) {
      faults.n_lost_bytes = 0;
      bytes.resize(bytes.size() - n_lost);
      return refuse(exchange, 500, "UNKNOWN");
    }
    const Upload upload = uploads_[id];
    if (store::digest_of(upload.bytes).text() != query(exchange, "digest"))
      return refuse(exchange, 400, "DIGEST_INVALID");
    blobs_[upload.repository][query(exchange, "digest")] = upload.bytes;
    etags.insert(query(exchange, "etag"));
    if (takes_one(faults.n_lost_ends)) {
      uploads_.erase(id);
      return refuse(exchange, 504, "NO");
    }
    exchange.respond({.status = 201});
  }

  struct Upload {
    std::string repository;
    std::string bytes;
    int state = 0;
  };
  std::mutex mutex_;
  std::map<std::string, std::map<std::string, std::string>> blobs_;  // by repository and digest
  std::map<std::string, std::string> manifests_;
  std::map<std::string, Upload> uploads_;

 public:
  std::set<std::string> etags;

 private:
  http::Server server_;
};

}  // namespace billow::registry
