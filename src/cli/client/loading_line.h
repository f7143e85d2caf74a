// Shows on the terminal of standard error that the user waits for a model of the server: a spinner,
// and a bar with the progress while the server loads a model. Asks the server about the load on a
// connection of its own. A server that does not answer GET /api/memory gets the spinner only. Does
// nothing if standard error is not a terminal. Owns a thread. Use it from one thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/json_fwd.h"
#include "cli/client/api_client.h"
#include "cli/client/status_line.h"
#include "scheduler/environment.h"

namespace billow::cli {

struct ModelLoad {
  std::string name{};
  uint64_t n_loaded = 0;  // bytes
  uint64_t n_to_load = 0;
};

// Returns the load in a response of GET /api/memory. A server has at most one. Returns nullopt if
// no model loads, or if the progress is not known.
std::optional<ModelLoad> model_load(const Json& memory);

class LoadingLine {
 public:
  explicit LoadingLine(const scheduler::Endpoint& server);
  ~LoadingLine();  // end()
  LoadingLine(const LoadingLine&) = delete;
  LoadingLine& operator=(const LoadingLine&) = delete;

  // Erases the line and shows no new one. Does not wait for the server.
  void end();

 private:
  void watch();
  void show(const std::optional<ModelLoad>& load);

  StatusLine status_;
  std::unique_ptr<ApiClient> client_;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  bool has_bar_ = false;  // used by the thread only
  std::thread thread_;
};

}  // namespace billow::cli
