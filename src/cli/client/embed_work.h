// Batches of texts on their way through a server: several requests in flight, each on a connection
// of its own, the answers in the order of the texts. Owns its threads. One thread puts and takes;
// cancel() may come from any.
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

// What ends the command, and with which status: one of <sysexits.h> says whose fault it is.
inline constexpr int kInputFault = 65;  // EX_DATAERR: of the texts; no host will do better
inline constexpr int kTryAgain = 75;    // EX_TEMPFAIL: of the host; later, or elsewhere, it may go
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
  uint64_t offset = 0;                        // of the input, behind them
  std::vector<std::vector<float>> vectors{};  // of each text, once it comes back
  size_t n_cut = 0;                           // texts that were cut
};

struct EmbedWorkOptions {
  std::string model;
  VectorRecipe recipe{};  // all but its weights
  bool is_bulk = false;
  size_t n_jobs = 4;                          // requests in flight
  std::chrono::milliseconds timeout{10'000};  // how long a server that is busy is asked again
  std::string origin = "input";               // of the texts, for messages
};

class EmbedWork {
 public:
  EmbedWork(const scheduler::Endpoint& endpoint, EmbedWorkOptions options);
  ~EmbedWork();  // cancels
  EmbedWork(const EmbedWork&) = delete;
  EmbedWork& operator=(const EmbedWork&) = delete;

  void put(EmbedBatch batch);
  size_t n_inside() const;  // put and not taken
  // The oldest one, when it is done. REQUIRES: there is one. Throws EmbedFailure where it failed.
  EmbedBatch take();
  // Whatever is on its way fails soon.
  void cancel() noexcept;

 private:
  struct Slot {
    EmbedBatch batch;
    bool is_taken = false;  // by a thread
    bool is_done = false;
    std::exception_ptr error;
  };
  void serve(ApiClient& client);
  std::shared_ptr<Slot> next();
  void ask(ApiClient& client, EmbedBatch& batch);
  bool wait(std::chrono::milliseconds time);

  const EmbedWorkOptions options_;
  const std::string client_id_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Slot>> slots_;
  bool is_cancelled_ = false;
  std::vector<std::unique_ptr<ApiClient>> clients_;
  std::vector<std::thread> threads_;
};

// The body of a request for vectors of texts.
std::string embed_request(const EmbedWorkOptions& options, const std::vector<std::string>& texts);

// Takes the vectors out of an answer's body. Throws EmbedFailure, which names the row, for a text
// that failed, and for an answer that makes no sense.
void read_embed_answer(const std::string& body, const std::string& origin, EmbedBatch& batch);

}  // namespace billow::cli
