// Requests for the vectors of texts, and their responses. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/client/bulk.h"
#include "cli/client/vector_recipe.h"

namespace billow::cli {

struct EmbedBatch {
  uint64_t first_row = 0;
  std::vector<std::string> texts{};
  uint64_t offset = 0;                        // offset of the input after these texts
  std::vector<std::vector<float>> vectors{};  // one per text, after the response
  size_t n_cut = 0;                           // truncated texts
};

struct EmbedWorkOptions {
  std::string model;
  VectorRecipe recipe{};         // everything except its weights
  std::string origin = "input";  // source of the texts, for messages
};

// Returns the body of a request for the vectors of texts.
std::string embed_request(const EmbedWorkOptions& options, const std::vector<std::string>& texts);

// Parses the vectors in a response body and adds them to `batch`. Throws BulkFailure for a failed
// text, with its row, and for an invalid response.
void read_embed_answer(const std::string& body, const std::string& origin, EmbedBatch& batch);

// Gets the vectors of a batch. Throws BulkFailure.
void embed_batch(const EmbedWorkOptions& options, BulkCaller& caller, EmbedBatch& batch);

}  // namespace billow::cli
