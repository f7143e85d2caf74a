// Implements the calls of Runner over a Unix socket. Each call in flight has its own connection;
// later calls reuse the connection. Owns the connections. Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "http/client.h"
#include "scheduler/runner.h"

namespace billow::scheduler {

// Functions throw and return like those of Runner. RunnerGone means that the connection was lost or
// could not be opened.
class RunnerClient {
 public:
  // `answer_timeout`: max time to connect, and without a byte, in health() and set_budget().
  explicit RunnerClient(std::string socket_path,
                        std::chrono::milliseconds answer_timeout = std::chrono::seconds(10));

  CompletionEnd complete(const Completion& request, const OnPiece& on_piece, std::stop_token stop);
  EmbedOutputs embed(const EmbedJob& job, std::stop_token stop);
  std::vector<Prefix> prefixes(std::string_view root, size_t n_max);
  TextKv do_with_text(TextAction action, const CachedText& text);
  RunnerHealth health();
  void set_budget(const Budget& budget);

 private:
  // Uses a connection for one call. Keeps it for later calls if the call ended cleanly.
  http::Response send(const http::Call& call, const std::stop_token& stop);
  http::Response post(std::string target, std::string body, const std::stop_token& stop = {});
  http::Response ask(const http::Call& call);
  std::unique_ptr<http::Client> take();
  void give_back(std::unique_ptr<http::Client> client);

  const std::string socket_path_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<http::Client>> kept_;
  std::mutex asking_;
  http::Client asker_;  // has a shorter timeout than the others
};

}  // namespace billow::scheduler
