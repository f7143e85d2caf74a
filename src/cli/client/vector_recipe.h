// What vectors depend on, and its fingerprint: equal fingerprints, equal vectors (but for rounding
// between kinds of processors). Pure but for weights_digest; any thread.
#pragma once

#include <cstddef>
#include <string>

#include "cli/client/api_client.h"

namespace billow::cli {

struct VectorRecipe {
  std::string weights{};  // digest of the blob: "sha256:..."
  std::string pooling{};  // in place of the model's; empty: that
  std::string prefix{};   // before every text
  size_t dimensions = 0;  // 0: all
  bool normalise = true;
  std::string truncation = "right";  // "none", "left", "right"
};

// Compact, with its names in alphabetical order:
// {"dimensions":0,"normalize":true,"op":"embed","pooling":"","prefix":"","truncate":"right",
// "weights":"sha256:..."}
std::string canonical_json(const VectorRecipe& recipe);

// "sha256:" and 64 digits: of the canonical JSON.
std::string fingerprint(const VectorRecipe& recipe);

// The digest of the weights of a model on the server. Throws ApiError, and Error where the server
// does not tell it.
std::string weights_digest(ApiClient& client, const std::string& model);

// Throws Error for what is neither "none" nor "left" nor "right".
void check_truncation(const std::string& truncation);

}  // namespace billow::cli
