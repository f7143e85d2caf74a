// Rows of prompts or messages, requests for their answers, and lines of results. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "cli/client/bulk.h"

namespace billow::cli {

// Everything that answers depend on, besides their row. The fingerprint is that of `billow-ray
// generate`.
struct GenerateRecipe {
  std::string weights{};     // see shown_weights()
  std::string model_text{};  // see shown_text()
  std::string system{};
  std::string format{};         // JSON: "json" in quotes, or a schema; empty: none
  std::string options = "{}";   // JSON: options of requests
  std::optional<bool> think{};  // unset: the model's default
  bool raw = false;             // prompts get no template
};

// Returns compact JSON with its names in alphabetical order. "raw" and "think" are missing if they
// are not set.
std::string canonical_json(const GenerateRecipe& recipe);
std::string fingerprint(const GenerateRecipe& recipe);

// Returns the digest of what the model adds to prompts, in a response of /api/show: of sorted JSON
// with the parameters, the system message and the template, and if there are any, the messages, the
// Modelfile's lines of the renderer and the parser, and the digests of the projectors.
std::string shown_text(const Json& shown);

// Sets the two digests for a model on the server. Throws ApiError, and Error if the server does not
// report them.
void set_digests(ApiClient& client, const std::string& model, GenerateRecipe& recipe);

struct GenerateBatch {
  uint64_t row = 0;
  std::string text{};   // the row: a prompt, or a JSON object
  uint64_t offset = 0;  // offset of the input after the row
  // After the answer:
  std::string line{};   // of the results, with its line end
  std::string error{};  // empty: none
  uint64_t n_prompt = 0;
  uint64_t n_generated = 0;
};

struct GenerateWorkOptions {
  std::string model;
  GenerateRecipe recipe{};  // everything except the digests
  bool is_json = true;      // rows are JSON objects
  std::string field{};      // of the prompt or messages; empty: "prompt" or "messages"
};

struct GenerateRequest {
  std::string path{};
  std::string body{};
  std::string id{};     // JSON: the id of the row; empty: none
  std::string error{};  // why the row has no request; empty: it has one
};

// Returns the request of a row.
GenerateRequest generate_request(const GenerateWorkOptions& options, const std::string& row);

// Sets the results of a response with status 200. Throws BulkFailure if it is invalid.
void read_generate_answer(const std::string& body, const GenerateRequest& request,
                          GenerateBatch& batch);
// Sets the results of a row without an answer.
void set_error(const std::string& why, const GenerateRequest& request, GenerateBatch& batch);

// Gets the answer of a row. A row that the server refuses gets an error. If the server fails at the
// row, it is asked three times, and then for a very short answer: if it can give that, only the row
// gets an error. Throws BulkFailure if the host or the job is at fault.
void answer_row(const GenerateWorkOptions& options, BulkCaller& caller, GenerateBatch& batch);

}  // namespace billow::cli
