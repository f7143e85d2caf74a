#include "api/tei/rerank_codec.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <variant>
#include <vector>

#include "api/embed_fields.h"
#include "api/fields.h"
#include "api/json_text.h"
#include "api/request_options.h"
#include "base/json.h"
#include "http/status.h"

namespace billow::api::tei {
namespace {

using http::StatusError;

[[noreturn]] void refuse(const std::string& text) { throw StatusError(400, text); }

// Parses the documents. A document may be {"text":"..."}.
std::vector<EmbedInput> documents_of(const Json& array, bool partial) {
  if (!array.is_array()) refuse("documents must be an array");
  Json texts = Json::array();
  for (const Json& document : array) {
    const bool has_text = document.is_object() && document.contains("text");
    texts.push_back(has_text ? document["text"] : document);
  }
  return embed_inputs(texts, InputKinds::kTexts, partial);
}

std::optional<size_t> top_n_of(const Fields& fields) {
  const auto top_n = fields.integer("top_n");
  if (!top_n) return std::nullopt;
  if (*top_n < 0) refuse("top_n must not be negative");
  return static_cast<size_t>(*top_n);
}

// Returns the indices of the documents that have a score, best first.
std::vector<size_t> ranked(const EmbedReply& reply, std::optional<size_t> top_n) {
  std::vector<size_t> order(reply.results.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return !reply.results[i].error.empty(); });
  const auto score = [&](size_t i) { return reply.results[i].values.at(0); };
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return score(a) != score(b) ? score(a) > score(b) : a < b;
  });
  if (top_n) order.resize(std::min(order.size(), *top_n));
  return order;
}

float score_of(float logit, bool is_raw) {
  if (is_raw) return logit;
  return static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(logit))));
}

void append_result(std::string& text, const RerankRequest& request, size_t index, float score) {
  text += "{\"index\":" + std::to_string(index);
  text += request.has_texts ? ",\"score\":" : ",\"relevance_score\":";
  append_number(text, score);
  const auto* document = std::get_if<std::string>(&request.embed.inputs.at(index));
  if (request.returns_text && document != nullptr) {
    text += request.has_texts ? ",\"text\":" : ",\"document\":{\"text\":";
    append_string(text, *document);
    if (!request.has_texts) text += '}';
  }
  text += '}';
}

}  // namespace

RerankRequest decode_rerank(std::string_view body) {
  const Fields fields = Fields::parse(body, "RerankRequest");
  RerankRequest request;
  EmbedRequest& embed = request.embed;
  embed.model = fields.text("model");
  embed.query = fields.text("query");
  if (embed.query->empty()) refuse("query must not be empty");
  read_embed_fields(fields, embed);
  embed.pooling.clear();
  embed.dimensions = 0;
  const Json* texts = fields.value("texts");
  const Json* documents = fields.value("documents");
  if ((texts == nullptr) == (documents == nullptr)) refuse("give either texts or documents");
  request.has_texts = texts != nullptr;
  embed.inputs = request.has_texts ? embed_inputs(*texts, InputKinds::kTexts, embed.partial)
                                   : documents_of(*documents, embed.partial);
  if (embed.inputs.empty()) refuse("texts or documents must not be empty");
  request.raw_scores = fields.flag("raw_scores").value_or(false);
  request.returns_text =
      fields.flag(request.has_texts ? "return_text" : "return_documents").value_or(false);
  request.top_n = top_n_of(fields);
  embed.keep_alive = keep_alive_of(fields.value("keep_alive"));
  return request;
}

std::string rerank_json(const RerankRequest& request, const EmbedReply& reply) {
  std::string text;
  if (!request.has_texts) {
    const std::string n_prompt = std::to_string(reply.n_prompt);
    text += "{\"model\":";
    append_string(text, request.embed.model);
    text += ",\"usage\":{\"prompt_tokens\":" + n_prompt + ",\"total_tokens\":" + n_prompt + "}";
    text += ",\"results\":";
  }
  text += '[';
  bool is_first = true;
  const auto separate = [&] {
    if (!is_first) text += ',';
    is_first = false;
  };
  for (const size_t i : ranked(reply, request.top_n)) {
    separate();
    append_result(text, request, i, score_of(reply.results[i].values[0], request.raw_scores));
  }
  for (size_t i = 0; i < reply.results.size(); ++i) {
    if (reply.results[i].error.empty()) continue;
    separate();
    append_failure(text, i, reply.results[i]);
  }
  text += ']';
  if (!request.has_texts) text += '}';
  return text;
}

}  // namespace billow::api::tei
