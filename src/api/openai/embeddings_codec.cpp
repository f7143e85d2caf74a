#include "api/openai/embeddings_codec.h"

#include <cstdint>

#include "api/embed_fields.h"
#include "api/openai/errors.h"
#include "api/openai/request_values.h"
#include "api/request_options.h"
#include "api/vector_text.h"
#include "base/json.h"
#include "base/text.h"

namespace billow::api::openai {
namespace {

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
  read_embed_fields(fields, embed);
  embed.dimensions_must_fit = true;
  const Json* input = fields.value("input");
  if (input == nullptr || (input->is_array() && input->empty())) refuse("invalid input");
  embed.inputs = embed_inputs(*input, InputKinds::kTextsAndTokens, embed.partial);
  embed.options = extra_options(fields);
  embed.keep_alive = keep_alive_of(fields.value("keep_alive"));
  return request;
}

std::string embeddings_json(const EmbedReply& reply, std::string_view model, bool base64) {
  std::string text = R"({"object":"list","data":[)";
  for (size_t i = 0; i < reply.results.size(); ++i) {
    if (i > 0) text += ',';
    const EmbedResult& result = reply.results[i];
    if (!result.error.empty()) {
      append_failure(text, i, result);
      continue;
    }
    text += R"({"object":"embedding","embedding":)";
    append_vectors(text, result, base64);
    text += ",\"index\":" + std::to_string(i) + "}";
  }
  const std::string n_prompt = std::to_string(reply.n_prompt);
  text += "],\"model\":" + to_text(Json(std::string(model)));
  text += ",\"usage\":{\"prompt_tokens\":" + n_prompt + ",\"total_tokens\":" + n_prompt + "}}\n";
  return text;
}

}  // namespace billow::api::openai
