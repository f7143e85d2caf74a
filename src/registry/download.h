// Fetches one blob of a repository into a folder of blobs: in parts, several at once, each resumed
// where it was cut off, and checked by its digest before it has its name. What was fetched stays
// when a download fails or its process dies, and the next download of the blob goes on from there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "registry/parts.h"
#include "registry/session.h"
#include "store/digest.h"

namespace billow::registry {

struct DownloadOptions {
  size_t n_at_once = 16;  // parts
  // Two parts begin at once, a further one after each such pause: on a fast line few connections
  // do, the parts come one after the other, and the digest keeps pace.
  std::chrono::milliseconds next_part_pause{500};
  // Attempts in a row without a byte. After them the download fails.
  int max_attempts = 6;
  std::chrono::milliseconds first_pause{1'000};  // before the second attempt; doubles each time
  PartSizes sizes{};
  // How many bytes of the blob are there, whenever that changes. On several threads; must not
  // block.
  std::function<void(uint64_t n_completed)> on_progress{};
  // Called while the digest is computed, with the bytes that are hashed. On a thread of its own.
  std::function<void(uint64_t n_checked)> on_check{};
};

// The blob, with the size that its manifest says, as FOLDER/sha256-HEX. Returns at once where it is
// there already. Throws Error: what the Session throws; kIo "max retries exceeded: ..." with what
// went wrong last; kTooLarge where the disk has no room; kInvalidInput "digest mismatch, file must
// be downloaded again: want sha256:..., got sha256:..." when the bytes are wrong, and then nothing
// of them stays (where some were there before, all are fetched again first); kIo "the download was
// cancelled" once `stop` is set.
void download(Session& session, const std::string& folder, const store::Digest& digest,
              uint64_t n_bytes, const DownloadOptions& options = {}, std::stop_token stop = {});

}  // namespace billow::registry
