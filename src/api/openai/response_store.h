// Stores answers of /v1/responses in memory, so that a later request can continue from one by its
// id. Limits bytes and age; evicts the oldest first. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
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

// An item of a conversation. All responses with this item share it.
struct ResponseItem {
  std::string id;
  std::string json;
};
using ResponseItems = std::vector<std::shared_ptr<const ResponseItem>>;

struct StoredResponse {
  std::string json;     // the object as it was sent
  ResponseItems items;  // the conversation: earlier items, the input, the output
  size_t n_input = 0;   // number of items before the output
};

class ResponseStore {
 public:
  explicit ResponseStore(const ResponseLimits& limits = {}, SteadyNow now = metrics::Clock::now);

  // Makes an item whose bytes count until its last reference is gone. REQUIRES: it has an id.
  std::shared_ptr<const ResponseItem> item(const Json& json);

  void put(const std::string& id, StoredResponse response);
  std::optional<StoredResponse> find(const std::string& id);
  // Finds an item of any response; null if there is none.
  std::shared_ptr<const ResponseItem> find_item(const std::string& id);
  // Returns false if there is no such response.
  bool erase(const std::string& id);

  size_t n_bytes() const noexcept { return *n_bytes_; }

 private:
  struct Entry {
    std::shared_ptr<const StoredResponse> response;
    metrics::Clock::time_point since;
  };
  void drop_old();  // REQUIRES: the caller holds mutex_
  std::shared_ptr<const StoredResponse> counted(StoredResponse response) const;

  const ResponseLimits limits_;
  const SteadyNow now_;
  const std::shared_ptr<std::atomic<size_t>> n_bytes_;  // of all live items and responses
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> responses_;
  std::deque<std::string> order_;  // ids, oldest first
  std::unordered_map<std::string, std::weak_ptr<const ResponseItem>> items_;
};

// The stores of all API keys: no key sees the responses of another. The limits are per key.
// Thread-safe.
class ResponseStores {
 public:
  // Returns the store of a key; the name is empty without keys. The reference stays valid.
  ResponseStore& of(const std::string& key);

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<ResponseStore>> stores_;
};

}  // namespace billow::api::openai
