// Answers of /v1/responses that are kept, so that a later request can go on from one by its id. In
// memory, bounded in bytes and in time: the oldest go first. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/call_answer.h"
#include "base/json_fwd.h"

namespace billow::api::openai {

struct ResponseLimits {
  size_t max_bytes = size_t{64} << 20;
  std::chrono::seconds max_age = std::chrono::hours(24);
};

// An item of a conversation, shared by all responses whose conversation has it.
struct ResponseItem {
  std::string id;
  std::string json;
};
using ResponseItems = std::vector<std::shared_ptr<const ResponseItem>>;

struct StoredResponse {
  std::string json;     // the object, as it was answered
  ResponseItems items;  // the conversation: what came before, the input, the output
  size_t n_input = 0;   // of these: all but the output
};

class ResponseStore {
 public:
  explicit ResponseStore(const ResponseLimits& limits = {}, SteadyNow now = metrics::Clock::now);

  // An item that counts as long as somebody holds it. It has an id.
  std::shared_ptr<const ResponseItem> item(const Json& json);

  void put(const std::string& id, StoredResponse response);
  std::optional<StoredResponse> find(const std::string& id);
  // Of any response; null where there is none.
  std::shared_ptr<const ResponseItem> find_item(const std::string& id);
  // False: there was none.
  bool erase(const std::string& id);

  size_t n_bytes() const noexcept { return *n_bytes_; }

 private:
  struct Kept {
    std::shared_ptr<const StoredResponse> response;
    metrics::Clock::time_point since;
  };
  void drop_old();  // with mutex_ held
  std::shared_ptr<const StoredResponse> counted(StoredResponse response) const;

  const ResponseLimits limits_;
  const SteadyNow now_;
  const std::shared_ptr<std::atomic<size_t>> n_bytes_;  // of what is held, by whomever
  std::mutex mutex_;
  std::unordered_map<std::string, Kept> responses_;
  std::deque<std::string> order_;  // ids, the oldest first
  std::unordered_map<std::string, std::weak_ptr<const ResponseItem>> items_;
};

}  // namespace billow::api::openai
