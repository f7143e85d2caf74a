// Fetches one blob of a repository into a folder of blobs. The parts of a blob download in
// parallel. An interrupted part resumes where it stopped. The blob gets its name only after its
// digest was checked. After a failure or a crash, the fetched bytes stay and the next download
// continues from there.
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
  size_t n_at_once = 16;  // max parts in parallel
  // Two parts begin immediately. Another part begins after each pause of this length. On a fast
  // line few connections are then open, the parts arrive one after another, and hashing keeps pace.
  std::chrono::milliseconds next_part_pause{500};
  // Consecutive attempts without a byte. After this many, the download fails.
  int max_attempts = 6;
  std::chrono::milliseconds first_pause{1'000};  // before the second attempt; doubles each time
  PartSizes sizes{};
  // Receives the number of stored bytes of the blob whenever it changes. Runs on several threads;
  // must not block.
  std::function<void(uint64_t n_completed)> on_progress{};
  // Receives the number of hashed bytes while the digest is computed. Runs on a separate thread.
  std::function<void(uint64_t n_checked)> on_check{};
};

// Fetches the blob of `n_bytes`, the size in its manifest, to FOLDER/sha256-HEX. Returns
// immediately if the file exists. If the manifest has no size (0), the registry is asked for it,
// and no progress is reported, because it would exceed the manifest's size.
// Throws Error: the errors of the Session; kIo "max retries exceeded: ..." with the last failure;
// kIo "...: the manifest says ..." if the registry has a blob of another size; kIo if the disk
// lacks space; kIo "the download was cancelled" once `stop` is set. Throws kInvalidInput "digest
// mismatch, file must be downloaded again: want sha256:..., got sha256:..." if the bytes are wrong;
// then no bytes are kept. If the download had resumed older bytes, it first fetches all bytes once
// more.
void download(Session& session, const std::string& folder, const store::Digest& digest,
              uint64_t n_bytes, const DownloadOptions& options = {}, std::stop_token stop = {});

}  // namespace billow::registry
