#include "cli/fleet/drain.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "http/server.h"

namespace billow::cli {
namespace {

// A host that reports at the second check that it drains. It ends after the request that follows.
class Host {
 public:
  Host() {
    std::vector<http::Route> routes(2);
    routes[0] = {.methods = {http::Method::kGet},
                 .pattern = "/readyz",
                 .handler = [this](http::Exchange& exchange) {
                   exchange.respond(http::text_response(n_asked_++ == 0 ? 200 : 503, ""));
                 }};
    routes[1] = {.methods = {http::Method::kGet},
                 .pattern = "/api/tags",
                 .handler = [this](http::Exchange& exchange) {
                   exchange.respond(http::text_response(200, "{}"));
                   if (n_asked_ >= 2) may_end_ = true;
                 }};
    http::ServerOptions options;
    options.host = "127.0.0.1";
    server_.emplace(options, std::move(routes));
    port_ = server_->port();
    ender_ = std::thread([this] {
      while (!may_end_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      server_.reset();
    });
  }
  ~Host() {
    may_end_ = true;  // also after a failure
    ender_.join();
  }

  uint16_t port() const { return port_; }

 private:
  std::atomic<int> n_asked_ = 0;
  std::atomic<bool> may_end_ = false;
  uint16_t port_ = 0;
  std::optional<http::Server> server_;
  std::thread ender_;
};

bool never() { return false; }

TEST(FleetDrain, AdvisesADelayThatIsLongEnoughForTheChecks) {
  const Host host;
  Fleet fleet;
  fleet.check_seconds = 7;
  fleet.hosts.push_back(
      {.name = "a", .endpoint = {.host = "127.0.0.1", .port = host.port(), .path = ""}});
  const auto findings = watch_drain(fleet, fleet.hosts[0], std::chrono::seconds(60), never);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].level, FindingLevel::kFailure);
  EXPECT_NE(findings[0].text.find("HAProxy needs 21 s; start it with --drain-delay 21"),
            std::string::npos)
      << findings[0].text;
}

}  // namespace
}  // namespace billow::cli
