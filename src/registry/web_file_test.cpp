#include "registry/web_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/server.h"

namespace billow::registry {
namespace {

using http::Exchange;

TEST(FileAddress, MustNameAGgufFile) {
  for (const char* text :
       {"https://h/x.gguf", "http://127.0.0.1:80/a/b/x.gguf", "https://h/x.gguf?download=true"})
    EXPECT_TRUE(is_file_address(text)) << text;
  for (const char* text : {"h/x.gguf", "https://x.gguf", "https://h/.gguf", "https://h/x.bin",
                           "https://hf.co/user/repo", "ftp://h/x.gguf", "https:///x.gguf",
                           "https://user@h/x.gguf", "https://h/x?y=/z.gguf", ""})
    EXPECT_FALSE(is_file_address(text)) << text;
  EXPECT_EQ(file_name_of("https://h/a/x.gguf?download=true#top"), "x.gguf");
}

TEST(FileAddress, OfASplitCoversAllFiles) {
  EXPECT_EQ(file_addresses("https://h/x.gguf"), std::vector<std::string>{"https://h/x.gguf"});
  EXPECT_EQ(file_addresses("https://h/x-00002-of-00002.gguf?a=1"),
            (std::vector<std::string>{"https://h/x-00001-of-00002.gguf?a=1",
                                      "https://h/x-00002-of-00002.gguf?a=1"}));
  EXPECT_EQ(file_addresses("https://h/x-00001-of-00000.gguf").size(), 1u);
  EXPECT_EQ(file_addresses("https://h/x-00001-of-99999.gguf").size(), 1u);
}

TEST(FileAddress, OfAHuggingFacePageBecomesTheFile) {
  EXPECT_EQ(file_addresses("https://huggingface.co/a/b/blob/main/x.gguf"),
            std::vector<std::string>{"https://huggingface.co/a/b/resolve/main/x.gguf"});
  EXPECT_EQ(file_addresses("https://h/a/b/blob/main/x.gguf"),
            std::vector<std::string>{"https://h/a/b/blob/main/x.gguf"});
}

// A server of one file, "/x.gguf", with faults that a test can set.
class FileServer {
 public:
  FileServer()
      : server_(options(), {route("/x.gguf", [this](Exchange& e) { send(e); }),
                            route("/moved.gguf", [](Exchange& e) { move(e, "/x.gguf"); }),
                            route("/round.gguf", [](Exchange& e) { move(e, "/round.gguf"); }),
                            route("/away.gguf", [](Exchange& e) { move(e, "ftp://h/x"); })}) {}

  std::string url(const std::string& path = "/x.gguf") const {
    return "http://127.0.0.1:" + std::to_string(server_.port()) + path;
  }

  std::string bytes = std::string(100'000, 'x') + "end";
  std::string version = "\"1\"";
  bool knows_ranges = true;
  bool changes = false;               // each response has another version
  std::atomic<int> n_cut{0};          // responses that are cut off in the middle
  std::atomic<int> n_unavailable{0};  // responses with 503
  std::atomic<int> n_requests{0};
  std::atomic<size_t> n_sent{0};

 private:
  static http::ServerOptions options() {
    http::ServerOptions options;
    options.host = "127.0.0.1";
    return options;
  }
  static http::Route route(const char* pattern, std::function<void(Exchange&)> handler) {
    return {.methods = {http::Method::kGet}, .pattern = pattern, .handler = std::move(handler)};
  }
  static void move(Exchange& exchange, const std::string& to) {
    exchange.respond({.status = 302, .headers = {{"Location", to}}});
  }

  void send(Exchange& exchange) {
    const int n = ++n_requests;
    if (n_unavailable > 0) {
      --n_unavailable;
      exchange.respond({.status = 503, .body = "later"});
      return;
    }
    const std::string now = changes ? "\"" + std::to_string(n) + "\"" : version;
    http::Headers headers;
    if (!now.empty()) headers.set("ETag", now);
    const std::string range(exchange.request().headers.get("Range"));
    size_t first = 0;
    int status = 200;
    if (knows_ranges && !range.empty() && exchange.request().headers.get("If-Range") == now) {
      first = std::stoul(range.substr(range.find('=') + 1));
      status = 206;
      headers.set("Content-Range", "bytes " + std::to_string(first) + "-" +
                                       std::to_string(bytes.size() - 1) + "/" +
                                       std::to_string(bytes.size()));
    }
    std::string part = bytes.substr(first);
    if (n_cut > 0) {
      --n_cut;
      part.resize(part.size() / 2);
      n_sent += part.size();
      exchange.begin_stream(status, "application/octet-stream", headers, part);
      throw std::runtime_error("cut off");
    }
    n_sent += part.size();
    exchange.respond({.status = status, .headers = headers, .body = part});
  }

  http::Server server_;
};

struct Fetched {
  std::string bytes;
  std::optional<uint64_t> size;
};

Fetched fetch(const std::string& url, int max_attempts = 4) {
  Fetched fetched;
  Transport transport;
  fetch_web_file(transport, url,
                 {.begin = [&](std::optional<uint64_t> size) { fetched.size = size; },
                  .write =
                      [&](std::span<const std::byte> bytes) {
                        fetched.bytes.append(reinterpret_cast<const char*>(bytes.data()),
                                             bytes.size());
                      }},
                 {.max_attempts = max_attempts, .first_pause = std::chrono::milliseconds(1)});
  return fetched;
}

ErrorCode code_of_failure(const std::string& url, const std::string& part_of_message,
                          int max_attempts = 4) {
  try {
    fetch(url, max_attempts);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part_of_message), std::string::npos) << error.what();
    EXPECT_TRUE(std::string(error.what()).starts_with("127.0.0.1: ")) << error.what();
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kIo;
}

TEST(FetchWebFile, ReturnsTheBytes) {
  FileServer server;
  const Fetched fetched = fetch(server.url("/moved.gguf?a=b"));
  EXPECT_EQ(fetched.bytes, server.bytes);
  EXPECT_EQ(fetched.size, server.bytes.size());
}

TEST(FetchWebFile, ResumesAfterACutOffResponse) {
  FileServer server;
  server.n_cut = 3;
  EXPECT_EQ(fetch(server.url()).bytes, server.bytes);
  EXPECT_EQ(server.n_requests, 4);
  EXPECT_EQ(server.n_sent, server.bytes.size()) << "no byte arrived twice";
}

TEST(FetchWebFile, SkipsRepeatedBytesOfAServerWithoutRanges) {
  FileServer server;
  server.n_cut = 1;
  server.knows_ranges = false;
  EXPECT_EQ(fetch(server.url()).bytes, server.bytes);
}

TEST(FetchWebFile, RetriesIfTheServerIsBusy) {
  FileServer server;
  server.n_unavailable = 3;
  EXPECT_EQ(fetch(server.url()).bytes, server.bytes);
  server.n_unavailable = 4;
  EXPECT_EQ(code_of_failure(server.url(), "max retries exceeded: 503: later"), ErrorCode::kIo);
}

TEST(FetchWebFile, AFileThatChangesIsAnError) {
  FileServer server;
  server.n_cut = 1;
  server.changes = true;
  EXPECT_EQ(code_of_failure(server.url(), "has changed"), ErrorCode::kIo);
}

TEST(FetchWebFile, AFileWithoutAVersionIsNotResumed) {
  FileServer server;
  server.n_cut = 1;
  server.version = "";
  EXPECT_EQ(code_of_failure(server.url(), "does not say which version"), ErrorCode::kIo);
}

TEST(FetchWebFile, DoesNotRetryAMissingFile) {
  FileServer server;
  EXPECT_EQ(code_of_failure(server.url("/none.gguf"), "there is no such file"),
            ErrorCode::kNotFound);
  EXPECT_EQ(code_of_failure(server.url("/round.gguf"), "redirects more than"), ErrorCode::kIo);
  EXPECT_EQ(code_of_failure(server.url("/away.gguf"), "redirects to no address"), ErrorCode::kIo);
}

TEST(FetchWebFile, FailsEarlyIfTheServerNeverAnswers) {
  const auto begin = std::chrono::steady_clock::now();
  // The pauses of 18 attempts would take longer than two minutes.
  EXPECT_EQ(code_of_failure("http://127.0.0.1:1/x.gguf", "max retries exceeded: 127.0.0.1:1", 18),
            ErrorCode::kIo);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(2));
}

TEST(FetchWebFile, AnExceptionOfTheSinkEndsIt) {
  FileServer server;
  Transport transport;
  const WebFileSink sink{.begin = {}, .write = [](std::span<const std::byte>) {
                           throw Error(ErrorCode::kTooLarge, "full");
                         }};
  EXPECT_THROW(fetch_web_file(transport, server.url(), sink), Error);
  EXPECT_EQ(server.n_requests, 1);
}

TEST(FetchWebFile, StopEndsIt) {
  FileServer server;
  server.n_unavailable = 1000;
  std::stop_source stop;
  stop.request_stop();
  Transport transport;
  try {
    fetch_web_file(transport, server.url(), {}, {}, stop.get_token());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the download was cancelled"), std::string::npos)
        << error.what();
  }
  EXPECT_LE(server.n_requests, 1);
}

}  // namespace
}  // namespace billow::registry
