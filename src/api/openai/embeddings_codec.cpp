#include "api/openai/embeddings_codec.h"

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "api/openai/errors.h"
#include "api/openai/request_values.h"
#include "api/vector_text.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/text.h"

namespace billow::api::openai {
namespace {

// Of the floats' bytes, little-endian.
std::string base64_vector(std::span<const float> vector) {
  std::string bytes;
  bytes.reserve(4 * vector.size());
  for (const float value : vector) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (const int shift : {0, 8, 16, 24}) bytes += static_cast<char>(bits >> shift & 255);
  }
  return base64_encoded(bytes);
}

std::vector<std::string> inputs_of(const Json* input) {
  if (input == nullptr || (input->is_array() && input->empty())) refuse("invalid input");
  if (input->is_string()) return {input->get<std::string>()};
  if (!input->is_array()) refuse("invalid input type");
  std::vector<std::string> inputs;
  inputs.reserve(input->size());
  for (const Json& element : *input) {
    if (!element.is_string()) refuse("invalid input type");
    inputs.push_back(element.get<std::string>());
  }
  return inputs;
}

bool is_base64(const std::string& format) {
  const std::string name = lower_case(format);
  if (!name.empty() && name != "float" && name != "base64") {
    refuse("Invalid value for 'encoding_format' = " + format +
           ". Supported values: ['float', 'base64'].");
  }
  return name == "base64";
}

}  // namespace

EmbeddingsRequest decode_embeddings(std::string_view body) {
  const Fields fields = parse_body(body, "EmbedRequest");
  EmbeddingsRequest request{.base64 = is_base64(fields.text("encoding_format"))};
  EmbedRequest& embed = request.embed;
  embed.model = fields.text("model");
  embed.inputs = inputs_of(fields.value("input"));
  const int64_t dimensions = fields.integer("dimensions").value_or(0);
  if (dimensions > 0) embed.dimensions = static_cast<size_t>(dimensions);
  embed.options_json = extra_options(fields);
  embed.keep_alive_json = keep_alive_json(fields);
  return request;
}

std::string embeddings_json(const EmbedReply& reply, std::string_view model, bool base64) {
  std::string text = R"({"object":"list","data":[)";
  for (size_t i = 0; i < reply.vectors.size(); ++i) {
    if (i > 0) text += ',';
    text += R"({"object":"embedding","embedding":)";
    if (base64) {
      text += '"' + base64_vector(reply.vectors[i]) + '"';
    } else {
      append_vector(text, reply.vectors[i]);
    }
    text += ",\"index\":" + std::to_string(i) + "}";
  }
  const std::string n_prompt = std::to_string(reply.n_prompt);
  text += "],\"model\":" + to_text(Json(std::string(model)));
  text += ",\"usage\":{\"prompt_tokens\":" + n_prompt + ",\"total_tokens\":" + n_prompt + "}}\n";
  return text;
}

}  // namespace billow::api::openai
