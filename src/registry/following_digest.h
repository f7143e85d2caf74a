// Computes the digest of a file while its bytes arrive. A separate thread hashes the available
// bytes from the beginning of the file. After the last byte, little work is left.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "store/digest.h"

namespace billow::registry {

class FollowingDigest {
 public:
  // Calls `on_hashed`, if given, with the number of hashed bytes, on the hashing thread.
  explicit FollowingDigest(std::string path, std::function<void(uint64_t n_bytes)> on_hashed = {});
  // Stops the thread.
  ~FollowingDigest() = default;
  FollowingDigest(const FollowingDigest&) = delete;
  FollowingDigest& operator=(const FollowingDigest&) = delete;

  // Reports that the file's first `n_bytes` are written and final. Thread-safe; does not block.
  void advance(uint64_t n_bytes);
  // Waits for the digest of the first `n_bytes` and returns it. Returns nullopt once `stop` is set.
  // Throws Error if the file cannot be read or is shorter. REQUIRES: no advance() reported more
  // bytes.
  std::optional<store::Digest> finish(uint64_t n_bytes, std::stop_token stop);

 private:
  void run(const std::stop_token& stop);
  void hash(const std::stop_token& stop);
  // Waits for a whole piece after the hashed bytes, or for the last bytes at the end. Returns the
  // number of available bytes.
  uint64_t await_piece(uint64_t n_hashed, const std::stop_token& stop);

  const std::string path_;
  const std::function<void(uint64_t)> on_hashed_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable_any changed_;
  uint64_t n_available_ = 0;
  uint64_t n_hashed_ = 0;
  bool is_complete_ = false;
  std::optional<std::string> failure_;
  store::Hasher hasher_;  // used by the thread until all bytes are hashed
  std::jthread thread_;
};

}  // namespace billow::registry
