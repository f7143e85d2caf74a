#include "api/embed_fields.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "api/json_text.h"
#include "base/json.h"
#include "base/text.h"
#include "http/status.h"
#include "metrics/request_id.h"

namespace billow::api {
namespace {

using http::StatusError;

constexpr const char* kInvalidType = "invalid input type";

bool is_token_id(const Json& value) {
  if (!value.is_number_integer()) return false;
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= static_cast<uint64_t>(kMax);
  return value.get<int64_t>() >= 0 && value.get<int64_t>() <= kMax;
}

bool are_token_ids(const Json& array) {
  return array.is_array() && std::ranges::all_of(array, is_token_id);
}

std::vector<int32_t> token_ids(const Json& array) {
  std::vector<int32_t> ids;
  ids.reserve(array.size());
  for (const Json& id : array) ids.push_back(id.get<int32_t>());
  return ids;
}

EmbedInput one_input(const Json& value, InputKinds kinds, bool partial) {
  if (value.is_string()) return value.get<std::string>();
  if (kinds == InputKinds::kTextsAndTokens && are_token_ids(value)) return token_ids(value);
  if (partial) return UnusableInput{kInvalidType};
  throw StatusError(400, kInvalidType);
}

Truncation truncation_of(const Fields& fields) {
  if (!fields.flag("truncate").value_or(true)) return Truncation::kNone;
  const std::string direction = fields.text("truncation_direction");
  const std::string side = lower_case(direction);
  if (side == "left") return Truncation::kLeft;
  if (side.empty() || side == "right") return Truncation::kRight;
  throw StatusError(400, "truncation_direction must be left or right, not '" + direction + "'");
}

}  // namespace

std::vector<EmbedInput> embed_inputs(const Json& input, InputKinds kinds, bool partial) {
  if (input.is_string()) return {input.get<std::string>()};
  if (!input.is_array()) throw StatusError(400, kInvalidType);
  if (kinds == InputKinds::kTextsAndTokens && !input.empty() && input.front().is_number())
    return {one_input(input, kinds, partial)};
  if (input.size() > kMaxInputs) {
    throw StatusError(413, "the request has " + std::to_string(input.size()) +
                               " inputs; send at most " + std::to_string(kMaxInputs) +
                               " per request");
  }
  std::vector<EmbedInput> inputs;
  inputs.reserve(input.size());
  for (const Json& element : input) inputs.push_back(one_input(element, kinds, partial));
  return inputs;
}

void read_embed_fields(const Fields& fields, EmbedRequest& request) {
  request.truncation = truncation_of(fields);
  request.pooling = lower_case(fields.text("pooling"));
  request.normalise = fields.flag("normalize").value_or(true);
  request.partial = fields.flag("partial").value_or(false);
  const int64_t dimensions = fields.integer("dimensions").value_or(0);
  request.dimensions = dimensions > 0 ? static_cast<size_t>(dimensions) : 0;
}

void read_embed_headers(const http::Request& from, EmbedRequest& request) {
  request.is_bulk = is_bulk(from);
  const std::string_view client = from.headers.get("X-Billow-Client");
  request.client = metrics::is_request_id(client) ? std::string(client) : from.peer;
}

void add_sizing_headers(Call& call, const EmbedReply& reply) {
  if (reply.context > 0) {
    call.add_header("X-Billow-Context", std::to_string(reply.context));
    call.add_header("X-Billow-Context-Reason", reply.context_reason);
  }
  if (reply.n_cut > 0) call.add_header("X-Billow-Truncated", std::to_string(reply.n_cut));
}

void append_failure(std::string& text, size_t index, const EmbedResult& result) {
  text += "{\"index\":" + std::to_string(index) + ",\"error\":";
  append_string(text, result.error);
  text += ",\"status\":" + std::to_string(result.status) + '}';
}

}  // namespace billow::api
