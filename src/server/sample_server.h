// For tests: a server with fake runners over a store with the model "m", and a client.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "api/sample_served.h"
#include "http/client.h"
#include "scheduler/fake_runner.h"
#include "server/server.h"

namespace billow::server {

class ServerFixture {
 public:
  ServerFixture() { models_.add({.go = api::kLines}); }

  Options options() {
    Options options;
    options.host = "127.0.0.1";
    options.port = 0;
    options.models = models_.store.folder();
    options.models_loaded.budget_bytes = uint64_t{1} << 30;
    options.start_runner = runners_.starter();
    options.describe = [this](const std::string&, const scheduler::EngineChoice&, std::stop_token) {
      return models_.facts;
    };
    options.registry.mirror = "http://127.0.0.1:9";  // no program listens on the "discard" port
    options.node_name = "node-7";
    options.own_version = "1.2.3";
    options.isa = "scalar";
    return options;
  }
  void start(Options options) {
    server_.emplace(std::move(options));
    client_.emplace(http::Endpoint{.host = "127.0.0.1", .port = server_->port()});
  }
  void start() { start(options()); }

  http::Response send(http::Method method, std::string target, std::string body = "",
                      http::Headers headers = {}) {
    http::Call call;
    call.method = method;
    call.target = std::move(target);
    call.body = std::move(body);
    call.headers = std::move(headers);
    return client_->send(call);
  }
  http::Response get(std::string target) { return send(http::Method::kGet, std::move(target)); }
  http::Response generate(http::Headers headers = {}) {
    return send(http::Method::kPost, "/api/generate",
                R"({"model":"m","prompt":"hi","stream":false})", std::move(headers));
  }
  static bool becomes_true(const std::function<bool()>& holds) {
    for (int i = 0; i < 6000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  std::string key() { return models_.catalog.find("m")->key; }

  api::SampleStore models_;
  scheduler::FakeRunners runners_;
  std::optional<Server> server_;
  std::optional<http::Client> client_;
};

}  // namespace billow::server
