// Sends batches of texts to a server, with several requests in flight, each on its own connection.
// Returns results in the order of the texts. Owns its threads. One thread calls put() and take();
// any thread may call cancel().
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cli/client/api_client.h"
#include "cli/client/vector_recipe.h"

namespace billow::cli {

// An error that ends the command, with its exit status. Statuses of <sysexits.h> distinguish input
// errors from temporary failures.
inline constexpr int kInputFault = 65;  // EX_DATAERR: the texts are wrong; a retry cannot succeed
inline constexpr int kTryAgain = 75;    // EX_TEMPFAIL: the host failed; a retry may succeed
class EmbedFailure : public std::runtime_error {
 public:
  EmbedFailure(int exit_status, const std::string& text)
      : std::runtime_error(text), exit_status_(exit_status) {}
  int exit_status() const noexcept { return exit_status_; }

 private:
  int exit_status_;
};

struct EmbedBatch {
  uint64_t first_row = 0;
  std::vector<std::string> texts{};
  uint64_t offset = 0;                        // offset of the input after these texts
  std::vector<std::vector<float>> vectors{};  // one per text, after the response
  size_t n_cut = 0;                           // truncated texts
};

struct EmbedWorkOptions {
  std::string model;
  VectorRecipe recipe{};  // everything except its weights
  bool is_bulk = false;
  size_t n_jobs = 4;                          // requests in flight
  std::chrono::milliseconds timeout{10'000};  // max time of retries while the server is busy
  std::string origin = "input";               // source of the texts, for messages
};

class EmbedWork {
 public:
  EmbedWork(const scheduler::Endpoint& endpoint, EmbedWorkOptions options);
  ~EmbedWork();  // calls cancel()
  EmbedWork(const EmbedWork&) = delete;
  EmbedWork& operator=(const EmbedWork&) = delete;

  void put(EmbedBatch batch);
  size_t n_inside() const;  // batches that were put and not yet taken
  // Waits for the oldest batch and returns it. REQUIRES: n_inside() > 0. Throws EmbedFailure if the
  // batch failed.
  EmbedBatch take();
  // Makes all batches in flight fail soon.
  void cancel() noexcept;

 private:
  struct Slot {
    EmbedBatch batch;
    bool is_taken = false;  // a thread works on it
    bool is_done = false;
    std::exception_ptr error;
  };
  void serve(ApiClient& client);
  std::shared_ptr<Slot> next();
  void ask(ApiClient& client, EmbedBatch& batch);
  bool wait(std::chrono::milliseconds time);

  const EmbedWorkOptions options_;
  const std::string client_id_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Slot>> slots_;
  bool is_cancelled_ = false;
  std::vector<std::unique_ptr<ApiClient>> clients_;
  std::vector<std::thread> threads_;
};

// Returns the body of a request for the vectors of texts.
std::string embed_request(const EmbedWorkOptions& options, const std::vector<std::string>& texts);

// Parses the vectors in a response body and adds them to `batch`. Throws EmbedFailure for a failed
// text, with its row, and for an invalid response.
void read_embed_answer(const std::string& body, const std::string& origin, EmbedBatch& batch);

}  // namespace billow::cli
