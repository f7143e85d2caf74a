#include "api/openai/responses_routes.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include "api/fields.h"
#include "api/openai/responses_answer.h"
#include "api/random_id.h"
#include "api/rendered_prompt.h"
#include "base/json.h"
#include "base/log.h"
#include "http/status.h"

namespace billow::api::openai {
namespace {

using Stores = std::shared_ptr<ResponseStores>;

void respond(Call& call, const std::string& json) {
  call.respond({.content_type = "application/json", .body = json + "\n"});
}

void report_left_out(Call& call, const std::vector<std::string>& types) {
  if (types.empty()) return;
  std::string list;
  for (const std::string& type : types) list += (list.empty() ? "" : ", ") + type;
  call.trace().mark("tools left out", {{"types", types}});
  call.add_header("X-Billow-Tools-Left-Out", list);
  log::debug(call.trace().route() + ": ignored tools that cannot be called here: " + list);
}

// Stores the conversation including the answer.
void store_response(ResponseStore& store, const ResponseRequest& request, const Json& response,
                    const Json& output) {
  StoredResponse stored{.json = to_text(response), .items = request.before};
  for (const Json& item : request.input) stored.items.push_back(store.item(item));
  stored.n_input = stored.items.size();
  for (const Json& item : output) stored.items.push_back(store.item(item));
  store.put(response["id"].get<std::string>(), std::move(stored));
}

void write_response(Call& call, Generator& generator, ResponseStore& store) {
  ResponseRequest request = decode_response(call.take_body().text, store);
  request.generation.live_events =
      request.stream && call.request().headers.get("X-Billow-Events") == "1";
  request.generation.is_bulk = is_bulk(call.request());
  report_unknown_fields(call, request.unknown_fields);
  report_left_out(call, request.left_out);
  AnswerHead head{.id = random_id("resp_", 24),
                  .created = static_cast<int64_t>(std::time(nullptr)),
                  .model = request.generation.model};
  const auto answer = response_answer(call, std::move(head), request,
                                      [&](const Json& response, const Json& output) {
                                        store_response(store, request, response, output);
                                      });
  run_for(*answer, [&] { generator.run(request.generation, *answer, call.stop(), call.trace()); });
}

void count_tokens(Call& call, Generator& generator, ResponseStore& store) {
  ResponseRequest request = decode_response(call.take_body().text, store);
  report_unknown_fields(call, request.unknown_fields);
  report_left_out(call, request.left_out);
  request.generation.render_only = true;
  request.generation.counts_only = true;
  RenderedPrompt prompt(call);
  generator.run(request.generation, prompt, call.stop(), call.trace());
  respond(call,
          to_text({{"object", "response.input_tokens"}, {"input_tokens", prompt.n_tokens()}}));
}

const std::string& id_of(const Call& call) { return call.request().parameters.at("id"); }

StoredResponse found(const Call& call, ResponseStore& store) {
  auto response = store.find(id_of(call));
  if (!response)
    throw http::StatusError(404, "response '" + id_of(call) +
                                     "' not found: it was never stored, or is no longer stored");
  return *std::move(response);
}

std::string query(const Call& call, std::string_view name) {
  const http::Parameters& query = call.request().query;
  const auto at = query.find(name);
  return at == query.end() ? "" : at->second;
}

void show(Call& call, ResponseStore& store) {
  if (query(call, "stream") == "true")
    throw http::StatusError(400, "a stored response cannot be streamed");
  respond(call, found(call, store).json);
}

void erase(Call& call, ResponseStore& store) {
  found(call, store);
  store.erase(id_of(call));
  respond(call, to_text({{"id", id_of(call)}, {"object", "response"}, {"deleted", true}}));
}

size_t limit_of(const Call& call) {
  constexpr size_t kMax = 100;
  const std::string text = query(call, "limit");
  size_t limit = 20;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), limit);
  const bool is_number = failed == std::errc() && end == text.data() + text.size();
  if (!text.empty() && (!is_number || limit < 1 || limit > kMax))
    throw http::StatusError(400, "limit must be a number from 1 to " + std::to_string(kMax));
  return limit;
}

void list_input(Call& call, ResponseStore& store) {
  StoredResponse response = found(call, store);
  const size_t limit = limit_of(call);
  ResponseItems& items = response.items;
  items.resize(response.n_input);
  if (query(call, "order") != "asc") std::ranges::reverse(items);
  if (const std::string after = query(call, "after"); !after.empty()) {
    const auto at =
        std::ranges::find_if(items, [&](const auto& item) { return item->id == after; });
    if (at == items.end())
      throw http::StatusError(400,
                              "after names the item '" + after + "', which is not in the list");
    items.erase(items.begin(), at + 1);
  }
  const bool has_more = items.size() > limit;
  items.resize(std::min(items.size(), limit));
  Json list;
  list["object"] = "list";
  list["data"] = Json::array();
  for (const auto& item : items) list["data"].push_back(Json::parse(item->json));
  list["first_id"] = items.empty() ? Json(nullptr) : Json(items.front()->id);
  list["last_id"] = items.empty() ? Json(nullptr) : Json(items.back()->id);
  list["has_more"] = has_more;
  respond(call, to_text(list));
}

// Returns the store of the caller's API key.
ResponseStore& store_of(ResponseStores& stores, const Call& call) {
  return stores.of(call.request().user);
}

}  // namespace

std::vector<Route> response_routes(Generator& generator, Stores stores) {
  using enum http::Method;
  return {
      {.methods = {kPost},
       .pattern = "/v1/responses",
       .handler = [&generator, stores](
                      Call& call) { write_response(call, generator, store_of(*stores, call)); },
       .is_traced = true},
      {.methods = {kPost},
       .pattern = "/v1/responses/input_tokens",
       .handler = [&generator,
                   stores](Call& call) { count_tokens(call, generator, store_of(*stores, call)); }},
      {.methods = {kGet},
       .pattern = "/v1/responses/:id",
       .handler = [stores](Call& call) { show(call, store_of(*stores, call)); }},
      {.methods = {kDelete},
       .pattern = "/v1/responses/:id",
       .handler = [stores](Call& call) { erase(call, store_of(*stores, call)); }},
      {.methods = {kGet},
       .pattern = "/v1/responses/:id/input_items",
       .handler = [stores](Call& call) { list_input(call, store_of(*stores, call)); }},
  };
}

}  // namespace billow::api::openai
