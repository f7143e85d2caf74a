#include "registry/download.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/test_folder.h"
#include "http/server.h"
#include "registry/part_files.h"
#include "store/folder.h"

namespace billow::registry {
namespace {

using http::Exchange;
using http::Method;
using std::chrono::milliseconds;

constexpr size_t kBytes = 1'000'003;

std::string random_bytes(size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string bytes(n, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Faults of the server.
struct Faults {
  std::atomic<int> n_cuts{0};              // responses that are cut off
  std::atomic<int> n_errors{0};            // responses with 503
  std::atomic<int> n_stalls{0};            // responses that stall halfway
  std::atomic<int> url_life{0};            // uses of each address at the other host; 0: no redirect
  std::atomic<int> expired_status{403};    // status of an address that was used too often
  std::atomic<int> n_failed_refreshes{0};  // later requests for an address that get 503
  std::atomic<int> n_dropped_refreshes{0};  // later requests for an address without a response
  std::atomic<int> n_refusals{0};           // responses with 401, which want a token
  std::atomic<int> n_token_errors{0};       // responses of the token server with 503
  std::atomic<int> n_pages{0};              // responses with 200 and a page of a proxy
  std::atomic<int> n_part_pages{0};         // the same, but not to the first request
  std::atomic<int> n_whole{0};              // responses with 200 and the whole blob
  std::atomic<bool> has_ranges{true};
  std::atomic<bool> lies{false};  // sends the blob's beginning for every range
  std::atomic<bool> is_damaged{false};
  std::atomic<int> status{0};  // status of all responses
};

class DownloadTest : public testing::Test {
 protected:
  explicit DownloadTest(milliseconds stall_timeout = std::chrono::minutes(1))
      : server_(server_options(), routes()),
        transport_({.stall_timeout = stall_timeout}),
        session_(transport_, name(),
                 {.insecure = true, .key = [] { return IdentityKey::make(); }}) {
    ::setenv("no_proxy", "*", 1);
    options_.sizes = {.min = 50'000, .max = 1'000'000};
    options_.first_pause = milliseconds(1);
    options_.next_part_pause = milliseconds(0);
  }
  ~DownloadTest() override { ends_ = true; }

  static http::ServerOptions server_options() {
    http::ServerOptions options;
    options.host = "127.0.0.1";
    return options;
  }
  store::Name name() const {
    store::Name name;
    name.scheme = "http";
    name.host = "127.0.0.1:" + std::to_string(server_.port());
    name.space = "a";
    name.model = "m";
    return name;
  }

  std::vector<http::Route> routes() {
    std::vector<http::Route> all(3);
    all[0].methods = all[1].methods = all[2].methods = {Method::kGet, Method::kHead};
    all[0].pattern = "/v2/a/m/blobs/:digest";
    all[0].handler = [this](Exchange& exchange) {
      if (faults_.url_life > 0) {
        const int key = ++n_keys_;
        if (key > 1 && takes_one(faults_.n_dropped_refreshes)) {
          exchange.begin_stream(200, "x/y");
          throw std::runtime_error("cut off");
        }
        if (key > 1 && takes_one(faults_.n_failed_refreshes)) {
          exchange.respond(http::text_response(503, "busy"));
          return;
        }
        exchange.respond({.status = 307,
                          .content_type = "",
                          .headers = {{"Location", "/store?key=" + std::to_string(key)}},
                          .body = ""});
        return;
      }
      serve(exchange);
    };
    all[1].pattern = "/store";
    all[1].handler = [this](Exchange& exchange) {
      const int key = std::atoi(exchange.request().query.find("key")->second.c_str());
      bool is_good = false;
      {
        const std::scoped_lock lock(mutex_);
        is_good = ++n_uses_[key] <= faults_.url_life;
      }
      if (is_good)
        serve(exchange);
      else
        exchange.respond(http::text_response(faults_.expired_status, "the signature has expired"));
    };
    all[2].pattern = "/token";
    all[2].handler = [this](Exchange& exchange) {
      const bool fails = takes_one(faults_.n_token_errors);
      exchange.respond(fails ? http::text_response(503, "busy")
                             : http::text_response(200, R"({"token":"t"})"));
    };
    return all;
  }

  static bool takes_one(std::atomic<int>& n) {
    int was = n;
    while (was > 0 && !n.compare_exchange_weak(was, was - 1)) continue;
    return was > 0;
  }

  // Responds with a fault that replaces the blob. Returns false if there is none.
  bool responds_otherwise(Exchange& exchange, bool is_probe, const std::string& blob) {
    if (takes_one(faults_.n_pages) || (!is_probe && takes_one(faults_.n_part_pages))) {
      exchange.respond(http::text_response(200, "<html>please log in</html>"));
    } else if (takes_one(faults_.n_whole)) {
      exchange.respond({.status = 200, .content_type = "x/y", .headers = {}, .body = blob});
    } else if (!is_probe && takes_one(faults_.n_errors)) {
      exchange.respond(http::text_response(503, "busy"));
    } else if (!is_probe && takes_one(faults_.n_refusals)) {
      const std::string realm = "http://127.0.0.1:" + std::to_string(server_.port()) + "/token";
      exchange.respond({.status = 401,
                        .content_type = "",
                        .headers = {{"WWW-Authenticate", "Bearer realm=\"" + realm + "\""}},
                        .body = ""});
    } else {
      return false;
    }
    return true;
  }

  void serve(Exchange& exchange) {
    if (faults_.status != 0) {
      exchange.respond(http::text_response(faults_.status, "no"));
      return;
    }
    const std::string blob = [&] {
      const std::scoped_lock lock(mutex_);
      return blob_;
    }();
    const std::string range(exchange.request().headers.get("Range"));
    size_t first = 0;
    size_t last = blob.size() - 1;
    const bool is_range = faults_.has_ranges && range.starts_with("bytes=");
    if (is_range) {
      const size_t dash = range.find('-');
      std::from_chars(range.data() + 6, range.data() + dash, first);
      std::from_chars(range.data() + dash + 1, range.data() + range.size(), last);
    }
    const bool is_probe = range == "bytes=0-0";
    if (responds_otherwise(exchange, is_probe, blob)) return;
    std::string bytes = blob.substr(faults_.lies ? 0 : first, last - first + 1);
    if (faults_.is_damaged) bytes[bytes.size() / 2] ^= 1;
    http::Headers headers;
    if (is_range)
      headers.add("Content-Range", "bytes " + std::to_string(faults_.lies ? 0 : first) + "-" +
                                       std::to_string(last) + "/" + std::to_string(blob.size()));
    const int status = is_range ? 206 : 200;
    n_sent_ += is_probe ? 0 : bytes.size();
    const bool cuts = !is_probe && takes_one(faults_.n_cuts);
    const bool stalls = !is_probe && takes_one(faults_.n_stalls);
    if (!cuts && !stalls) {
      exchange.respond(
          {.status = status, .content_type = "x/y", .headers = headers, .body = bytes});
      return;
    }
    exchange.begin_stream(status, "x/y", headers);
    exchange.write(bytes.substr(0, bytes.size() * 2 / 3));
    while (stalls && !exchange.client_gone() && !ends_)
      std::this_thread::sleep_for(milliseconds(1));
    throw std::runtime_error("cut off");
  }

  // Replaces the blob. The server may still read it for requests of cancelled calls.
  void set_blob(std::string blob) {
    const std::scoped_lock lock(mutex_);
    blob_ = std::move(blob);
    digest_ = store::digest_of(blob_);
  }

  std::string get(std::stop_token stop = {}) {
    try {
      download(session_, folder_.path(), digest_, manifest_bytes_.value_or(blob_.size()), options_,
               std::move(stop));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // Fetches a part of the blob. The next download resumes.
  void fetch_a_third() {
    faults_.n_stalls = 100;
    std::stop_source stop;
    options_.on_progress = [&](uint64_t n) {
      if (n > kBytes / 3) stop.request_stop();
    };
    EXPECT_EQ(get(stop.get_token()), "the download was cancelled");
    options_.on_progress = nullptr;
    faults_.n_stalls = 0;
  }
  // Resumes, and expects that no stored byte is fetched again.
  void expect_resumes() {
    std::atomic<uint64_t> n_min{kBytes};
    options_.on_progress = [&](uint64_t n) {
      uint64_t was = n_min;
      while (was > n && !n_min.compare_exchange_weak(was, n)) continue;
    };
    EXPECT_EQ(get(), "");
    expect_whole();
    EXPECT_GT(n_min, kBytes / 3);
  }
  void expect_whole() const {
    EXPECT_EQ(store::children(folder_.path()), std::vector<std::string>{digest_.file_name()});
    const auto file = store::read_file(folder_.path() + "/" + digest_.file_name(), 1 << 24);
    ASSERT_TRUE(file);
    EXPECT_TRUE(file->bytes == blob_);
  }

  std::string blob_ = random_bytes(kBytes, 1);
  store::Digest digest_ = store::digest_of(blob_);
  std::optional<uint64_t> manifest_bytes_;  // nullopt: the blob's size
  Faults faults_;
  std::atomic<bool> ends_{false};
  std::atomic<size_t> n_sent_{0};
  std::atomic<int> n_keys_{0};
  std::mutex mutex_;
  std::map<int, int> n_uses_;
  TestFolder folder_;
  DownloadOptions options_;
  http::Server server_;
  Transport transport_;
  Session session_;
};

TEST_F(DownloadTest, FetchesABlobInParts) {
  std::atomic<uint64_t> n_reported{0};
  std::atomic<uint64_t> n_checked{0};
  options_.on_progress = [&](uint64_t n) {
    uint64_t was = n_reported;
    while (was < n && !n_reported.compare_exchange_weak(was, n)) continue;
  };
  options_.on_check = [&](uint64_t n) { n_checked = n; };
  EXPECT_EQ(get(), "");
  expect_whole();
  EXPECT_EQ(n_sent_, kBytes);
  EXPECT_EQ(n_reported, kBytes);
  EXPECT_EQ(n_checked, kBytes);
  EXPECT_EQ(get(), "");
  EXPECT_EQ(n_sent_, kBytes) << "the blob is already stored";
}

TEST_F(DownloadTest, FetchesBlobsOfNoneAndOneByte) {
  for (const char* content : {"", "x"}) {
    set_blob(content);
    EXPECT_EQ(get(), "");
    const auto file = store::read_file(folder_.path() + "/" + digest_.file_name(), 16);
    ASSERT_TRUE(file);
    EXPECT_EQ(file->bytes, content);
  }
}

TEST_F(DownloadTest, ResumesAfterACutOffResponse) {
  faults_.n_cuts = 20;
  faults_.n_errors = 5;
  EXPECT_EQ(get(), "");
  expect_whole();
  EXPECT_LT(n_sent_, kBytes + kBytes / 2);
}

class StalledDownloadTest : public DownloadTest {
 protected:
  StalledDownloadTest() : DownloadTest(milliseconds(6000)) {}
};

TEST_F(StalledDownloadTest, ResumesAfterAStall) {
  faults_.n_stalls = 2;
  EXPECT_EQ(get(), "");
  expect_whole();
}

TEST_F(DownloadTest, AsksForAnotherAddressWhenOneExpires) {
  faults_.url_life = 5;
  EXPECT_EQ(get(), "");
  expect_whole();
  EXPECT_GT(n_keys_, 2);
}

TEST_F(DownloadTest, AddressesThatMovedOrVanishedAreRequestedAgain) {
  for (const int status : {302, 404, 410}) {
    faults_.expired_status = status;
    faults_.url_life = 5;
    const int n_before = n_keys_;
    EXPECT_EQ(get(), "") << status;
    expect_whole();
    EXPECT_GT(n_keys_, n_before + 2);
    std::filesystem::remove(folder_.path() + "/" + digest_.file_name());
  }
}

TEST_F(DownloadTest, SurvivesARegistryThatGivesNoOtherAddressForATime) {
  faults_.url_life = 5;
  faults_.n_dropped_refreshes = 2;
  faults_.n_failed_refreshes = 2;
  EXPECT_EQ(get(), "");
  expect_whole();
  EXPECT_EQ(faults_.n_dropped_refreshes, 0);
  EXPECT_EQ(faults_.n_failed_refreshes, 0);
}

TEST_F(DownloadTest, ReportsARegistryThatGivesNoOtherAddress) {
  faults_.url_life = 5;
  faults_.n_failed_refreshes = 1'000'000;
  EXPECT_EQ(get(), "max retries exceeded: " + digest_.text() + ": 503: busy");
  EXPECT_LE(n_keys_, 1 + 16 * options_.max_attempts) << "each failure has a pause";
}

TEST_F(DownloadTest, SurvivesATokenServerThatFailsForATime) {
  faults_.n_refusals = 1;
  faults_.n_token_errors = 1;
  EXPECT_EQ(get(), "");
  expect_whole();
  EXPECT_EQ(faults_.n_token_errors, 0);
}

TEST_F(DownloadTest, APageOfAProxyCostsNoStoredBytes) {
  fetch_a_third();
  faults_.n_pages = 2;
  expect_resumes();
}

TEST_F(DownloadTest, OneResponseWithoutRangesCostsNoStoredBytes) {
  fetch_a_third();
  faults_.n_whole = 1;
  expect_resumes();
}

TEST_F(DownloadTest, APageOfAProxyIsNoPartOfTheBlob) {
  options_.sizes = {.min = 2 * kBytes, .max = 2 * kBytes};
  faults_.n_part_pages = 2;
  EXPECT_EQ(get(), "");
  expect_whole();
  std::filesystem::remove(folder_.path() + "/" + digest_.file_name());
  faults_.n_pages = 1'000'000;
  EXPECT_EQ(get(), "max retries exceeded: " + digest_.text() +
                       ": the manifest says 1000003 bytes, but the server has 26");
  EXPECT_TRUE(store::children(folder_.path()).empty());
}

TEST_F(DownloadTest, AsksForASizeThatTheManifestLacks) {
  manifest_bytes_ = 0;
  bool reports = false;
  options_.on_progress = [&](uint64_t) { reports = true; };
  EXPECT_EQ(get(), "");
  expect_whole();
  EXPECT_FALSE(reports);
  std::filesystem::remove(folder_.path() + "/" + digest_.file_name());
  faults_.has_ranges = false;
  EXPECT_EQ(get(), "");
  expect_whole();
  std::filesystem::remove(folder_.path() + "/" + digest_.file_name());
  faults_.status = 404;
  EXPECT_EQ(get(), digest_.text() + ": 404: no");
}

TEST_F(DownloadTest, ReportsAWrongSizeOfTheManifest) {
  manifest_bytes_ = kBytes + 1;
  EXPECT_EQ(get(),
            digest_.text() + ": the manifest says 1000004 bytes, but the server has 1000003");
  EXPECT_EQ(n_sent_, 0u);
  EXPECT_TRUE(store::children(folder_.path()).empty());
}

TEST_F(DownloadTest, FetchesABlobFromAServerWithoutRanges) {
  faults_.has_ranges = false;
  EXPECT_EQ(get(), "");
  expect_whole();
  std::filesystem::remove(folder_.path() + "/" + digest_.file_name());
  faults_.n_cuts = 2;
  EXPECT_EQ(get(), "");
  expect_whole();
}

TEST_F(DownloadTest, ReportsFailuresAndKeepsItsBytes) {
  faults_.n_errors = 1'000'000;
  EXPECT_EQ(get(), "max retries exceeded: " + digest_.text() + ": the server answered 503");
  faults_.n_errors = 0;
  faults_.lies = true;
  options_.max_attempts = 2;
  EXPECT_EQ(get(), "max retries exceeded: " + digest_.text() +
                       ": the server sent different bytes than requested");
  faults_.lies = false;
  EXPECT_EQ(get(), "");
  expect_whole();
}

TEST_F(DownloadTest, ReportsAMissingBlob) {
  faults_.status = 404;
  EXPECT_EQ(get(), digest_.text() + ": 404: no");
}

TEST_F(DownloadTest, RemovesWrongBytes) {
  faults_.is_damaged = true;
  EXPECT_TRUE(
      get().starts_with("digest mismatch, file must be downloaded again: want " + digest_.text()));
  EXPECT_TRUE(store::children(folder_.path()).empty());
}

TEST_F(DownloadTest, IsCancelledAndResumed) {
  faults_.n_stalls = 100;
  std::stop_source stop;
  options_.on_progress = [&](uint64_t n) {
    if (n > kBytes / 3) stop.request_stop();
  };
  EXPECT_EQ(get(stop.get_token()), "the download was cancelled");
  EXPECT_EQ(get(stop.get_token()), "the download was cancelled");
  faults_.n_stalls = 0;
  // The server may still handle requests of the cancelled calls, so its byte count proves nothing
  // here.
  std::optional<uint64_t> n_resumed;
  options_.on_progress = [&](uint64_t n) {
    if (!n_resumed) n_resumed = n;  // the first report comes before any request
  };
  EXPECT_EQ(get(), "");
  expect_whole();
  EXPECT_GT(n_resumed, kBytes / 3) << "stored bytes are not fetched again";
}

TEST_F(DownloadTest, TwoParallelDownloadsFetchTheBlobOnce) {
  faults_.n_cuts = 5;
  {
    std::jthread other([&] { EXPECT_EQ(get(), ""); });
    EXPECT_EQ(get(), "");
  }
  expect_whole();
  EXPECT_LT(n_sent_, kBytes + kBytes / 2);
}

TEST_F(DownloadTest, CompletesOrCanResumeAfterRandomFaults) {
  std::mt19937 random(11);
  for (int round = 0; round < 30; ++round) {
    set_blob(random_bytes(1 + random() % 300'000, static_cast<unsigned>(round)));
    options_.sizes = {.min = 1 + random() % 50'000, .max = 1'000'000};
    options_.n_at_once = 1 + random() % 16;
    options_.max_attempts = 2;
    for (int attempt = 0;; ++attempt) {
      ASSERT_LT(attempt, 50);
      const bool is_hard = attempt < 3;
      faults_.n_cuts = is_hard ? static_cast<int>(random() % 20) : 0;
      faults_.n_errors = is_hard ? static_cast<int>(random() % 20) : 0;
      faults_.url_life = random() % 2 == 0 ? 0 : static_cast<int>(1 + random() % 9);
      faults_.has_ranges = random() % 8 != 0;
      faults_.is_damaged = is_hard && random() % 6 == 0;
      std::stop_source stop;
      std::jthread stops;
      if (is_hard && random() % 2 == 0)
        stops = std::jthread([&stop, pause = random() % 5000] {
          std::this_thread::sleep_for(std::chrono::microseconds(pause));
          stop.request_stop();
        });
      if (get(stop.get_token()).empty()) break;
      EXPECT_FALSE(store::file_status(folder_.path() + "/" + digest_.file_name()));
    }
    expect_whole();
    std::filesystem::remove(folder_.path() + "/" + digest_.file_name());
  }
}

}  // namespace
}  // namespace billow::registry
