// The digest of a file while its bytes arrive: a thread of its own hashes what is there, from the
// file's beginning on, so that little is left to do behind the last byte.
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
  // Calls `on_hashed`, where given, with the number of bytes that are hashed, on its own thread.
  explicit FollowingDigest(std::string path, std::function<void(uint64_t n_bytes)> on_hashed = {});
  // Ends the thread.
  ~FollowingDigest() = default;
  FollowingDigest(const FollowingDigest&) = delete;
  FollowingDigest& operator=(const FollowingDigest&) = delete;

  // The file's first `n_bytes` are there and stay as they are. Any thread; does not block.
  void advance(uint64_t n_bytes);
  // Waits for the digest of the first `n_bytes`. Nullopt once `stop` is set. Throws Error where the
  // file cannot be read or is shorter. REQUIRES: no advance() was for more.
  std::optional<store::Digest> finish(uint64_t n_bytes, std::stop_token stop);

 private:
  void run(const std::stop_token& stop);
  void hash(const std::stop_token& stop);
  // Waits for a piece behind what is hashed, or for what there is of it at the end. How many bytes
  // are there.
  uint64_t await_piece(uint64_t n_hashed, const std::stop_token& stop);

  const std::string path_;
  const std::function<void(uint64_t)> on_hashed_;
  std::mutex mutex_;  // over what follows
  std::condition_variable_any changed_;
  uint64_t n_there_ = 0;
  uint64_t n_hashed_ = 0;
  bool is_all_there_ = false;
  std::optional<std::string> failure_;
  store::Hasher hasher_;  // of the thread until all is hashed
  std::jthread thread_;
};

}  // namespace billow::registry
