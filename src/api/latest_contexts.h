// The context that the latest request of each model was given, for the list of loaded models. Any
// thread may call.
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
  // In tokens; 0: the model had no request.
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
