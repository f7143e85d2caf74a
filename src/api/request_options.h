// A request's options on top of its model's: which of them count, and what they say. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/generation.h"
#include "scheduler/time.h"

namespace billow::api {

// What a request's num_ctx means.
enum class NumCtxPolicy : uint8_t {
  kIgnore,  // nothing: contexts have the size that they need
  kCap,     // the most that the context may have
};

struct RequestOptions {
  std::string sampling_json = "{}";  // what the runner's sampler takes, by Ollama's names
  std::vector<std::string> stop{};
  int64_t num_predict = -1;
  std::optional<size_t> num_ctx{};
};

// The model's parameters, and over them, key by key, those of the request. Throws http::StatusError
// (500, as Ollama has it) for an option of a wrong type: option "num_ctx" must be of type integer.
RequestOptions merged_options(const std::string& model_json, const std::string& request_json);

// "5m", -1, 0.5 ... as JSON; nothing where the text is empty. Throws http::StatusError (400).
std::optional<scheduler::Duration> keep_alive_of(const std::string& json);

// Throws http::StatusError: 500 for what is no format, 501 for one that is not supported yet.
void check_format(const std::string& json);

}  // namespace billow::api
