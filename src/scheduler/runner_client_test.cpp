#include "scheduler/runner_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "base/error.h"
#include "http/server.h"
#include "http/status.h"
#include "scheduler/runner_folder.h"

namespace billow::scheduler {
namespace {

using std::chrono::milliseconds;

// A server in place of a runner. The test defines its response to completions and embeddings.
struct Place {
  explicit Place(http::Handler completion) : socket(folder.path() + "/a.sock"), client(socket) {
    http::ServerOptions options;
    options.socket_path = socket;
    std::vector<http::Route> routes(4);
    routes[0] = {.methods = {http::Method::kPost}, .pattern = "/completion", .handler = completion};
    routes[3] = {
        .methods = {http::Method::kPost}, .pattern = "/embed", .handler = std::move(completion)};
    routes[1] = {.methods = {http::Method::kPost},
                 .pattern = "/budget",
                 .handler = [this](http::Exchange& exchange) {
                   budget = exchange.request().body;
                   exchange.respond({.content_type = "application/json", .body = "{}"});
                 }};
    routes[2] = {.methods = {http::Method::kGet},
                 .pattern = "/health",
                 .handler = [](http::Exchange& exchange) {
                   exchange.respond({.status = 503, .body = R"({"status":"loading"})"});
                 }};
    server = std::make_unique<http::Server>(options, std::move(routes));
  }

  RunnerFolder folder;
  std::string socket;
  std::string budget;
  RunnerClient client;
  std::unique_ptr<http::Server> server;
};

constexpr const char* kEnd = R"({"done":true,"done_reason":"stop","eval_count":1})"
                             "\n";

http::Handler answers(std::vector<std::string> parts) {
  return [parts = std::move(parts)](http::Exchange& exchange) {
    exchange.begin_stream(200, "application/x-ndjson");
    for (const std::string& part : parts) exchange.write(part);
    exchange.finish();
  };
}

OnPiece into(std::string& text) {
  return [&text](const CompletionPiece& piece) {
    text += piece.text;
    return true;
  };
}

TEST(RunnerClient, JoinsLinesThatArriveInParts) {
  Place place(answers({"{\"text\":\"a\"}\n{\"te", "xt\":\"b\"}\n", kEnd}));
  std::string text;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(place.client.complete({}, into(text), {}).done_reason, "stop");
  EXPECT_EQ(text, "ababab");
  EXPECT_EQ(place.server->n_connections(), 1u);  // reused by the next call
}

TEST(RunnerClient, UsesOneConnectionPerCallInFlight) {
  std::atomic<int> n_inside = 0;
  Place place([&](http::Exchange& exchange) {
    ++n_inside;
    while (n_inside < 8) std::this_thread::yield();
    exchange.respond({.body = kEnd});
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      std::string text;
      EXPECT_EQ(place.client.complete({}, into(text), {}).n_generated, 1u);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RunnerClient, ThrowsStatusAndTextOfRejection) {
  Place place([](http::Exchange& exchange) {
    exchange.respond({.status = 400, .body = R"({"error":"the prompt is too long"})"});
  });
  std::string text;
  try {
    place.client.complete({}, into(text), {});
    FAIL();
  } catch (const http::StatusError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_STREQ(error.what(), "the prompt is too long");
  }
}

TEST(RunnerClient, DistinguishesBusyRunnerFromShutdown) {
  for (const bool is_busy : {true, false}) {
    Place place([is_busy](http::Exchange& exchange) {
      http::Response response = {.status = 503, .body = R"({"error":"512 inputs wait already"})"};
      if (is_busy) response.headers.set("Retry-After", "1");
      exchange.respond(std::move(response));
    });
    try {
      place.client.embed({.inputs = {{.tokens = {1}}}}, {});
      FAIL();
    } catch (const http::StatusError& error) {
      EXPECT_EQ(error.status(), 503);
      EXPECT_STREQ(error.what(), "512 inputs wait already");
      EXPECT_EQ(dynamic_cast<const RunnerBusy*>(&error) != nullptr, is_busy);
    }
  }
}

TEST(RunnerClient, ThrowsErrorInTheMiddleOfAStream) {
  Place place(answers({"{\"text\":\"a\"}\n", "{\"error\":\"it broke\"}\n"}));
  std::string text;
  EXPECT_THROW(place.client.complete({}, into(text), {}), http::StatusError);
  EXPECT_EQ(text, "a");
}

TEST(RunnerClient, ThrowsRunnerGone) {
  Place broken([](http::Exchange& exchange) {
    exchange.begin_stream(200, "application/x-ndjson");
    exchange.write("{\"text\":\"a\"}\n");
    throw Error(ErrorCode::kIo, "broken off");
  });
  std::string text;
  EXPECT_THROW(broken.client.complete({}, into(text), {}), RunnerGone);
  EXPECT_EQ(text, "a");
  Place short_one(answers({"{\"text\":\"a\"}\n"}));
  EXPECT_THROW(short_one.client.complete({}, into(text), {}), RunnerGone);
  RunnerClient nobody(short_one.folder.path() + "/none");
  EXPECT_THROW(nobody.complete({}, into(text), {}), RunnerGone);
  EXPECT_THROW(nobody.health(), RunnerGone);
}

TEST(RunnerClient, PassesOnExceptionsOfTheCallback) {
  Place place(answers({"{\"text\":\"a\"}\n", kEnd}));
  const auto fails = [](const CompletionPiece&) -> bool {
    throw Error(ErrorCode::kInvalidInput, "mine");
  };
  EXPECT_THROW(place.client.complete({}, fails, {}), Error);
  std::string text;
  EXPECT_EQ(place.client.complete({}, into(text), {}).done_reason, "stop");
}

TEST(RunnerClient, CallbackCanEndTheCompletion) {
  std::promise<void> left;
  Place place([&](http::Exchange& exchange) {
    exchange.begin_stream(200, "application/x-ndjson");
    while (exchange.write("{\"text\":\"a\"}\n")) std::this_thread::sleep_for(milliseconds(1));
    left.set_value();
  });
  int n = 0;
  EXPECT_EQ(
      place.client.complete({}, [&](const CompletionPiece&) { return ++n < 3; }, {}).done_reason,
      "");
  EXPECT_EQ(n, 3);
  EXPECT_EQ(left.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(RunnerClient, CanBeCancelledFromAnotherThread) {
  std::promise<void> began;
  std::promise<void> left;
  Place place([&](http::Exchange& exchange) {
    exchange.on_client_gone([&] { left.set_value(); });
    began.set_value();
    left.get_future().wait();
  });
  std::stop_source source;
  std::thread other([&] {
    began.get_future().wait();
    source.request_stop();
  });
  std::string text;
  EXPECT_THROW(place.client.complete({}, into(text), source.get_token()), Cancelled);
  other.join();
  EXPECT_THROW(place.client.complete({}, into(text), source.get_token()), Cancelled);
}

TEST(RunnerClient, ReadsHealthAndSetsBudget) {
  Place place(answers({kEnd}));
  EXPECT_EQ(place.client.health().status, RunnerStatus::kLoading);
  place.client.set_budget({1000, 7});
  EXPECT_EQ(place.budget, R"({"bytes":1000,"version":7})");
}

}  // namespace
}  // namespace billow::scheduler
