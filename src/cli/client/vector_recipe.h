// Everything that vectors depend on, and its fingerprint. Equal fingerprints mean equal vectors,
// except for rounding on different kinds of processors. Pure and thread-safe, except
// weights_digest.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "cli/client/api_client.h"

namespace billow::cli {

struct VectorRecipe {
  std::string weights{};  // see shown_weights()
  std::string pooling{};  // empty: the model's pooling
  std::string prefix{};   // goes before every text
  size_t dimensions = 0;  // 0: all dimensions
  bool normalise = true;
  std::string truncation = "right";  // "none", "left", "right"
};

// Returns compact JSON with its names in alphabetical order:
// {"dimensions":0,"normalize":true,"op":"embed","pooling":"","prefix":"","truncate":"right",
// "weights":"sha256:..."}
std::string canonical_json(const VectorRecipe& recipe);

// Returns "sha256:" and the 64 digits of the canonical JSON's digest.
std::string fingerprint(const VectorRecipe& recipe);

// Returns the digest at the end of a Modelfile's line such as "FROM /models/blobs/sha256-...", or
// nullopt if there is none.
std::optional<std::string> digest_in(const std::string& line);

// Returns the digest of the weights in a response of /api/show: "sha256:...", that of the blob.
// For a model with adapters, it is the digest of the JSON list of the blob's digest and those of
// the adapters. Returns nullopt if the response has no digests.
std::optional<std::string> shown_weights(const Json& shown);

// Returns the digest of the weights of a model on the server. Throws ApiError, and Error if the
// server does not report it.
std::string weights_digest(ApiClient& client, const std::string& model);

// Throws Error if `truncation` is not "none", "left" or "right".
void check_truncation(const std::string& truncation);

}  // namespace billow::cli
