// Calls to a runner over its Unix socket: the wire side of Runner. Keeps connections for the next
// calls, one for each call that runs at the same time. Owns them. Any thread may call.
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

// Functions throw and return as those of Runner. RunnerGone means here that the connection was
// lost or could not be had.
class RunnerClient {
 public:
  // `answer_timeout`: of health() and set_budget(), for each step of an answer.
  explicit RunnerClient(std::string socket_path,
                        std::chrono::milliseconds answer_timeout = std::chrono::seconds(10));

  CompletionEnd complete(const Completion& request, const OnPiece& on_piece, std::stop_token stop);
  EmbedOutputs embed(const EmbedJob& job, std::stop_token stop);
  std::vector<int32_t> tokenize(std::string_view text);
  std::string detokenize(const std::vector<int32_t>& tokens);
  std::vector<Prefix> prefixes(std::string_view root, size_t n_max);
  RunnerHealth health();
  void set_budget(const Budget& budget);

 private:
  // Lends a connection to one call, and keeps it for another where that came to a clean end.
  http::Response send(const http::Call& call, const std::stop_token& stop);
  http::Response post(std::string target, std::string body, const std::stop_token& stop = {});
  http::Response ask(const http::Call& call);
  std::unique_ptr<http::Client> take();
  void give_back(std::unique_ptr<http::Client> client);

  const std::string socket_path_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<http::Client>> kept_;
  std::mutex asking_;
  http::Client asker_;  // has less timeout than the others
};

}  // namespace billow::scheduler
