#include "cli/client/embed_work.h"

#include <bit>

#include "base/base64.h"
#include "base/json.h"
#include "cli/client/show_text.h"

namespace billow::cli {
namespace {

std::vector<float> floats_of(const Json& embedding) {
  if (!embedding.is_string()) fail_invalid();
  const auto bytes = base64_decoded(embedding.get_ref<const std::string&>());
  if (!bytes || bytes->size() % 4 != 0) fail_invalid();
  std::vector<float> values(bytes->size() / 4);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 4; ++k)
      bits |= uint32_t{static_cast<unsigned char>((*bytes)[4 * i + k])} << (8 * k);
    values[i] = std::bit_cast<float>(bits);
  }
  return values;
}

}  // namespace

std::string embed_request(const EmbedWorkOptions& options, const std::vector<std::string>& texts) {
  const VectorRecipe& recipe = options.recipe;
  Json body = {{"model", options.model}, {"encoding_format", "base64"}, {"partial", true}};
  Json& input = body["input"] = Json::array();
  for (const std::string& text : texts) input.push_back(recipe.prefix + text);
  if (recipe.dimensions > 0) body["dimensions"] = recipe.dimensions;
  if (!recipe.normalise) body["normalize"] = false;
  if (!recipe.pooling.empty()) body["pooling"] = recipe.pooling;
  if (recipe.truncation == "none") body["truncate"] = false;
  if (recipe.truncation == "left") body["truncation_direction"] = "left";
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void read_embed_answer(const std::string& body, const std::string& origin, EmbedBatch& batch) {
  const Json answer = Json::parse(body, nullptr, false);
  if (!answer.is_object() || !answer.contains("data")) fail_invalid();
  const Json& data = answer["data"];
  if (!data.is_array() || data.size() != batch.texts.size()) fail_invalid();
  batch.vectors.clear();
  for (size_t i = 0; i < data.size(); ++i) {
    const Json& entry = data[i];
    if (!entry.is_object()) fail_invalid();
    if (entry.contains("error")) {
      const bool is_of_host = count_field(entry, "status") >= 500;
      throw BulkFailure(is_of_host ? kTryAgain : kInputFault,
                        at_rows(origin, batch.first_row + i, 1, text_field(entry, "error")));
    }
    if (!entry.contains("embedding")) fail_invalid();
    batch.vectors.push_back(floats_of(entry["embedding"]));
  }
}

void embed_batch(const EmbedWorkOptions& options, BulkCaller& caller, EmbedBatch& batch) {
  const http::Response response =
      caller.post("/v1/embeddings", embed_request(options, batch.texts));
  if (response.status >= 400) {
    check_status(response);
    throw BulkFailure(kInputFault, at_rows(options.origin, batch.first_row, batch.texts.size(),
                                           said_by(response.body)));
  }
  read_embed_answer(response.body, options.origin, batch);
  batch.n_cut = count_in(response.headers.get("X-Billow-Truncated"));
}

}  // namespace billow::cli
