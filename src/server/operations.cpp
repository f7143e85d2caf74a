#include "server/operations.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "api/fields.h"
#include "base/json.h"
#include "http/sse.h"
#include "http/status.h"
#include "store/name.h"

namespace billow::server {
namespace {

using api::Call;
using http::Method;

void respond_json(Call& call, int status, const Json& json) {
  call.respond({.status = status,
                .content_type = "application/json; charset=utf-8",
                .headers = {},
                .body = api::to_text(json)});
}

void respond_metrics(Call& call, std::string text) {
  call.respond({.status = 200,
                .content_type = std::string(metrics::kTextType),
                .headers = {},
                .body = std::move(text)});
}

std::string query(const Call& call, std::string_view name) {
  const auto found = call.request().query.find(name);
  return found == call.request().query.end() ? std::string() : found->second;
}

void ready(Call& call, const Operations& operations) {
  const std::string model = query(call, "model");
  const std::vector<std::string> reasons =
      model.empty() ? operations.not_ready()
                    : operations.model_not_ready(model, query(call, "loadable") == "1");
  if (reasons.empty()) return respond_json(call, 200, {{"ready", true}});
  call.add_header("Retry-After", "1");
  respond_json(call, 503, {{"ready", false}, {"reasons", reasons}});
}

void list_traces(Call& call, const metrics::TraceStore& traces) {
  constexpr size_t kMaxListed = 100;
  respond_json(call, 200, traces.list(kMaxListed));
}

void show_trace(Call& call, const metrics::TraceStore& traces) {
  const std::string& id = call.request().parameters.at("id");
  const auto trace = traces.find(id);
  if (!trace)
    throw http::StatusError(
        404, "trace '" + id + "' not found: it is unknown or was evicted by " + "newer traces");
  const std::string format = query(call, "format");
  if (!format.empty() && format != "chrome" && format != "json")
    throw http::StatusError(400, "format must be \"json\" or \"chrome\"");
  respond_json(call, 200, format == "chrome" ? trace->to_chrome_json() : trace->to_json());
}

// Streams the events of the server until the client disconnects or the server ends. The first event
// is the memory, so that a client needs no other request for it.
void stream_events(Call& call, const Operations& operations) {
  constexpr std::chrono::seconds kKeepAlive{15};
  const std::unique_ptr<EventFeed::Reader> reader = operations.feed.read();
  if (reader == nullptr)
    throw http::StatusError(503, "too many programs read the events of this server: " +
                                     std::to_string(EventFeed::kMaxReaders) + " at most");
  call.add_header("Cache-Control", "no-store");
  call.add_header("X-Accel-Buffering", "no");  // nginx would hold events back
  const std::string first = http::sse_event(api::to_text(operations.memory()), "memory");
  if (!call.begin_stream(200, "text/event-stream", first)) return;
  while (const auto events = reader->next(call.stop(), kKeepAlive))
    if (!call.write(events->empty() ? ": \n\n" : *events)) return;
  if (!call.stop().stop_requested()) call.finish(http::sse_event("{}", "end"));
}

// Returns other names of the same model that clients may use.
std::vector<std::string> aliases_of(const std::string& name) {
  const std::optional<store::Name> parsed = store::parse_name(name);
  if (!parsed || store::short_name(*parsed) == name) return {};
  return {store::short_name(*parsed)};
}

}  // namespace

std::vector<api::Route> operation_routes(const Operations& operations) {
  std::vector<api::Route> routes;
  const auto add = [&](const char* pattern, api::CallHandler handler) {
    api::Route& route = routes.emplace_back();
    route.methods = {Method::kGet, Method::kHead};
    route.pattern = pattern;
    route.handler = std::move(handler);
    route.is_watched = true;
  };
  add("/healthz", [](Call& call) { call.respond(http::text_response(200, "ok\n")); });
  add("/readyz", [&](Call& call) { ready(call, operations); });
  add("/health", [&](Call& call) { ready(call, operations); });
  add("/metrics", [&](Call& call) {
    respond_metrics(call, operations.metrics.text(operations.load(), operations.aliases));
  });
  add("/metrics/load", [&](Call& call) {
    respond_metrics(call, operations.metrics.load_text(operations.load(), true));
  });
  add("/api/trace", [&](Call& call) { list_traces(call, operations.traces); });
  add("/api/memory", [&](Call& call) { respond_json(call, 200, operations.memory()); });
  add("/api/history", [&](Call& call) { respond_json(call, 200, operations.history()); });
  add("/api/server", [&](Call& call) { respond_json(call, 200, operations.server()); });
  add("/api/trace/:id", [&](Call& call) { show_trace(call, operations.traces); });
  api::Route& events = routes.emplace_back();
  events.methods = {Method::kGet};
  events.pattern = "/api/events";
  events.handler = [&](Call& call) { stream_events(call, operations); };
  events.is_watched = true;
  return routes;
}

metrics::Load load_of(const scheduler::SchedulerState& state) {
  metrics::Load load;
  load.n_waiting = state.n_waiting;
  load.draining = state.is_draining;
  uint64_t kv_used = 0;
  uint64_t kv_cached = 0;
  uint64_t kv_room = 0;
  for (const scheduler::LoadedModel& loaded : state.models) {
    const scheduler::RunnerHealth& health = loaded.health;
    const bool is_ready = loaded.model.phase == scheduler::Phase::kReady;
    load.n_waiting += health.n_waiting;
    load.n_running += health.n_running;
    load.backlog_seconds += health.backlog_seconds;
    load.busy_ratio = std::max(load.busy_ratio, health.busy_ratio);
    load.embed_pending_tokens += health.embed_pending_tokens;
    kv_used += health.kv_used_bytes;
    kv_cached += health.cached_bytes;
    kv_room += health.kv_room_bytes;
    if (health.kv_block_bytes > 0) load.n_kv_blocks += health.kv_room_bytes / health.kv_block_bytes;
    metrics::add_model(load, {.name = loaded.model.name,
                              .aliases = aliases_of(loaded.model.name),
                              .is_loaded = is_ready,
                              .n_running = health.n_running,
                              .n_waiting = loaded.model.n_waiting + health.n_waiting,
                              .held_bytes = loaded.model.held_bytes,
                              .figures = health.figures});
  }
  const auto ratio = [&](uint64_t part) {
    return kv_room == 0 ? 0.0
                        : std::min(1.0, static_cast<double>(part) / static_cast<double>(kv_room));
  };
  load.kv_used_ratio = ratio(kv_used);
  load.kv_cached_ratio = ratio(kv_cached);
  return load;
}

}  // namespace billow::server
