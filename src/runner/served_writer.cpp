#include "runner/served_writer.h"

#include <chrono>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "engine/embedding.h"
#include "engine/memory_json.h"
#include "runner/pictures.h"
#include "runner/protocol.h"
#include "runner/response.h"

namespace billow::runner {
namespace {

constexpr const char* kLines = "application/x-ndjson";

// Returns the tokens of texts. Throws Error if a text is a pair or needs another pooling than the
// model's.
std::vector<std::vector<int32_t>> plain_texts(engine::EmbedRequest request,
                                              const gguf::File& file) {
  std::vector<std::vector<int32_t>> texts;
  for (engine::EmbedText& text : request.texts) {
    if (text.n_first > 0)
      throw Error(ErrorCode::kUnsupported, "this model does not take pairs of texts");
    if (text.pooling && *text.pooling != engine::pooling_of_decoder(file))
      throw Error(ErrorCode::kUnsupported,
                  "pooling \"" + std::string(engine::pooling_name(*text.pooling)) +
                      "\" is not available: this model pools by \"" +
                      std::string(engine::pooling_name(engine::pooling_of_decoder(file))) + "\"");
    texts.push_back(std::move(text.tokens));
  }
  return texts;
}

}  // namespace

void ServedWriter::add_state(Json& health) const {
  const LoopState state = loop_.state();
  health["running"] = state.n_running;
  health["waiting"] = state.n_waiting;
  health["max_context"] = loop_.max_context();
  health["isa"] = loop_.isa();
  health["memory"] = memory_json(state.memory);
  health["budget_version"] = state.budget_version;
  health["held"] = state.memory.held();
  health["cached"] = state.memory.cached();
  health["wanted"] = state.memory.wanted;
  health["asking"] = state.memory.asking;
  health["pending_prompt_tokens"] = state.backlog.n_prompt;
  health["pending_decode_tokens"] = state.backlog.n_decode;
  health["busy_ratio"] = state.rates.busy;
  health["prompt_tokens_per_second"] = state.rates.prompt_tokens;
  health["decode_tokens_per_second"] = state.rates.decoded_tokens;
}

void ServedWriter::complete(http::Exchange& exchange) {
  AnswerRequest request = parse_completion(exchange.request().body);
  if (!request.images.empty()) {
    const vision::Rule* const rule = loop_.picture_rule();
    if (rule == nullptr)
      throw Error(ErrorCode::kUnsupported, "this runner has no projector for images");
    const auto start = std::chrono::steady_clock::now();
    request.options.pictures = pictures_of(*rule, request.images, request.options.salt);
    request.images.clear();
    request.pictures_prepared = std::chrono::steady_clock::now() - start;
  }
  if (request.constraint) request.options.guide = loop_.guide_for(*request.constraint);
  const std::shared_ptr<RequestStream> stream = loop_.submit(std::move(request));
  exchange.on_client_gone([stream] { stream->cancel(); });
  std::optional<Chunk> chunk = stream->next();  // throws before the response has begun
  if (!chunk && !stream->end().error.empty())
    throw Error(ErrorCode::kOutOfMemory, stream->end().error);
  // Sends the last chunk and the end together, because each message wakes up the server.
  std::string last;
  bool has_begun = false;
  try {
    for (; chunk; chunk = stream->next()) {
      last = piece_line(*chunk, loop_.tokenizer());
      if (stream->is_over()) break;
      const bool reaches =
          has_begun ? exchange.write(last) : exchange.begin_stream(200, kLines, {}, last);
      has_begun = true;
      last.clear();
      if (!reaches) stream->cancel();
    }
    last += end_line(stream->end());
  } catch (const std::exception& error) {  // an error of the engine ends the stream
    last += error_line(error.what());
  }
  if (has_begun) {
    exchange.finish(last);
  } else {
    exchange.respond({.status = 200, .content_type = kLines, .headers = {}, .body = last});
  }
}

void ServedWriter::embed(http::Exchange& exchange) {
  engine::EmbedRequest request = parse_embed(exchange.request().body);
  // All texts of a request have the same adapters.
  engine::AdapterFiles adapters =
      request.texts.empty() ? engine::AdapterFiles{} : request.texts.front().adapters;
  engine::TextSender sender = {.client = request.client, .is_bulk = request.is_bulk};
  auto texts = plain_texts(std::move(request), loop_.file());
  std::stop_source stop;
  exchange.on_client_gone([stop]() mutable { stop.request_stop(); });
  const std::optional<Vectors> vectors =
      loop_.embed(std::move(texts), stop.get_token(), std::move(adapters), std::move(sender));
  if (vectors)
    exchange.respond({.status = 200,
                      .content_type = "application/octet-stream",
                      .headers = {},
                      .body = embed_answer(*vectors)});
  else
    exchange.respond(error_response(503, "cancelled"));
}

}  // namespace billow::runner
