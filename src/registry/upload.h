// Sends one blob to a repository: asks for an upload, sends the bytes part by part, each to the
// address that the registry named last, and ends the upload with the digest (the distribution's
// specification, "Pushing blobs"). A part that was cut off goes on from what the registry has.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "registry/parts.h"
#include "registry/session.h"
#include "store/digest.h"

namespace billow::registry {

struct UploadOptions {
  // Attempts in a row without a byte. After them the upload fails.
  int max_attempts = 6;
  std::chrono::milliseconds first_pause{1'000};  // before the second attempt; doubles each time
  PartSizes sizes{};
  // How many bytes have gone, whenever that changes. On several threads; must not block.
  std::function<void(uint64_t n_completed)> on_progress{};
};

// Whether the repository has the blob.
bool has_blob(Session& session, const store::Digest& digest, std::stop_token stop = {});

// The blob, whose bytes are those of the file at `path`. `from`, where it is not empty: a
// repository of the registry that may have it. Throws Error: what the Session throws; kIo "max
// retries exceeded: ..." with what went wrong last; kIo "the upload was cancelled" once `stop` is
// set.
void upload(Session& session, const std::string& path, const store::Digest& digest,
            const std::string& from, const UploadOptions& options = {}, std::stop_token stop = {});

}  // namespace billow::registry
