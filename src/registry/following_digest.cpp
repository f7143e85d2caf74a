#include "registry/following_digest.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/regular_file.h"

namespace billow::registry {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;
// The bytes read and hashed at a time. They fit into a core's own cache.
constexpr size_t kReadBytes = 128 << 10;

}  // namespace

FollowingDigest::FollowingDigest(std::string path, std::function<void(uint64_t)> on_hashed)
    : path_(std::move(path)),
      on_hashed_(std::move(on_hashed)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void FollowingDigest::advance(uint64_t n_bytes) {
  const std::scoped_lock lock(mutex_);
  if (n_bytes <= n_available_) return;
  n_available_ = n_bytes;
  if (n_available_ - n_hashed_ >= kPieceBytes) changed_.notify_all();  // a few bytes wait for more
}

std::optional<store::Digest> FollowingDigest::finish(uint64_t n_bytes, std::stop_token stop) {
  std::unique_lock lock(mutex_);
  n_available_ = n_bytes;
  is_complete_ = true;
  changed_.notify_all();
  const bool is_over =
      changed_.wait(lock, std::move(stop), [&] { return failure_ || n_hashed_ >= n_bytes; });
  if (!is_over) return std::nullopt;
  if (failure_) throw Error(ErrorCode::kIo, *failure_);
  return hasher_.finish();
}

void FollowingDigest::run(const std::stop_token& stop) {
  try {
    hash(stop);
  } catch (const std::exception& error) {
    const std::scoped_lock lock(mutex_);
    failure_ = error.what();
    changed_.notify_all();
  }
}

uint64_t FollowingDigest::await_piece(uint64_t n_hashed, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [&] {
    return n_available_ - n_hashed >= kPieceBytes || (is_complete_ && n_available_ > n_hashed);
  });
  return n_available_;
}

void FollowingDigest::hash(const std::stop_token& stop) {
  const RegularFile file(path_);
  std::vector<std::byte> bytes(kReadBytes);
  for (uint64_t n_done = 0;;) {
    const uint64_t n_available = await_piece(n_done, stop);
    if (stop.stop_requested()) return;
    for (const uint64_t end = n_done + std::min(kPieceBytes, n_available - n_done); n_done < end;) {
      const auto n_wanted = static_cast<size_t>(std::min<uint64_t>(kReadBytes, end - n_done));
      const size_t n = file.read_at(n_done, std::span(bytes).first(n_wanted));
      if (n == 0)
        throw Error(ErrorCode::kIo, path_ + ": the file became shorter during the download");
      hasher_.update(std::span(bytes).first(n));
      n_done += n;
    }
    if (on_hashed_) on_hashed_(n_done);
    const std::scoped_lock lock(mutex_);
    n_hashed_ = n_done;
    if (is_complete_) changed_.notify_all();
  }
}

}  // namespace billow::registry
