#include "api/anthropic/routes.h"

#include <memory>
#include <utility>

#include "api/anthropic/messages_codec.h"
#include "api/fields.h"
#include "api/random_id.h"
#include "api/rendered_prompt.h"
#include "base/json.h"

namespace billow::api::anthropic {
namespace {

void write_message(Call& call, Generator& generator) {
  call.add_header("request-id", call.trace().id());
  MessagesRequest request = decode_message(call.take_body().text);
  report_unknown_fields(call, request.unknown_fields);
  GenerationRequest& generation = request.generation;
  generation.live_events = request.stream && call.request().headers.get("X-Billow-Events") == "1";
  generation.is_bulk = is_bulk(call.request());
  MessageHead head{.id = random_id("msg_", 24), .model = generation.model};
  const auto answer = message_answer(call, std::move(head), request);
  run_for(*answer, [&] { generator.run(generation, *answer, call.stop(), call.trace()); });
}

void count_tokens(Call& call, Generator& generator) {
  call.add_header("request-id", call.trace().id());
  const MessagesRequest request = decode_count(call.take_body().text);
  report_unknown_fields(call, request.unknown_fields);
  RenderedPrompt prompt(call);
  generator.run(request.generation, prompt, call.stop(), call.trace());
  call.respond({.content_type = "application/json",
                .body = to_text({{"input_tokens", prompt.n_tokens()}}) + "\n"});
}

}  // namespace

std::vector<Route> routes(Generator& generator) {
  return {
      {.methods = {http::Method::kPost},
       .pattern = "/v1/messages",
       .handler = [&generator](Call& call) { write_message(call, generator); },
       .is_traced = true},
      {.methods = {http::Method::kPost},
       .pattern = "/v1/messages/count_tokens",
       .handler = [&generator](Call& call) { count_tokens(call, generator); }},
  };
}

}  // namespace billow::api::anthropic
