// Records the context size of each model's latest request, for the list of loaded models.
// Thread-safe.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

namespace billow::api {

class LatestContexts {
 public:
  // `key` is the model's runner key.
  void set(const std::string& key, size_t context) {
    const std::scoped_lock lock(mutex_);
    latest_[key] = context;
  }
  // Returns the size in tokens; 0 if the model had no request.
  size_t of(const std::string& key) const {
    const std::scoped_lock lock(mutex_);
    const auto at = latest_.find(key);
    return at == latest_.end() ? 0 : at->second;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, size_t> latest_;
};

}  // namespace billow::api
