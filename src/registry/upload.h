// Sends one blob to a repository. It requests an upload and sends the bytes part by part, each to
// the address that the registry named last. It ends the upload with the digest. The protocol is
// "Pushing blobs" of the distribution's specification. An interrupted part resumes from the bytes
// that the registry has.
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
  // Consecutive attempts without a byte. After this many, the upload fails.
  int max_attempts = 6;
  std::chrono::milliseconds first_pause{1'000};  // before the second attempt; doubles each time
  // Max time without a byte of the response to the last request, in which a registry checks the
  // digest of all bytes.
  std::chrono::milliseconds end_timeout{600'000};
  PartSizes sizes{};
  // Receives the number of sent bytes whenever it changes. Runs on several threads; must not block.
  std::function<void(uint64_t n_completed)> on_progress{};
};

// Returns whether the repository has the blob.
bool has_blob(Session& session, const store::Digest& digest, std::stop_token stop = {});

// Sends the blob from the file at `path`. `from`, if not empty, names a repository of the registry
// that may have the blob. Throws Error: the errors of the Session; kIo "max retries exceeded: ..."
// with the last failure; kIo "the upload was cancelled" once `stop` is set.
void upload(Session& session, const std::string& path, const store::Digest& digest,
            const std::string& from, const UploadOptions& options = {}, std::stop_token stop = {});

}  // namespace billow::registry
