#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "api/anthropic/routes.h"
#include "api/catalog.h"
#include "api/llama/routes.h"
#include "api/local_embedder.h"
#include "api/local_generator.h"
#include "api/lookups.h"
#include "api/ollama/embedding.h"
#include "api/ollama/generation.h"
#include "api/ollama/models.h"
#include "api/ollama/plan.h"
#include "api/ollama/ps.h"
#include "api/openai/routes.h"
#include "api/tei/routes.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "base/log.h"
#include "http/access.h"
#include "http/status.h"
#include "keys/key_ring.h"
#include "server/calls.h"
#include "server/gate.h"
#include "server/operations.h"
#include "server/watching.h"
#include "server/web_routes.h"
#include "store/folder.h"
#include "store/store.h"
#include "web/asset.h"

namespace billow::server {
namespace {

// Max time that requests have to end after the drain has cancelled them. The rendering of a huge
// chat notices it late on a busy machine. Shorter than kEndTime of `billow serve`.
constexpr std::chrono::milliseconds kCancelTime{5'000};

// Sink for preloading. A preloaded model generates one token, so that the first request is fast.
class WarmUp : public api::Sink {
 public:
  bool delta(const api::Delta&) override { return true; }
  bool end(const api::Ending&) override { return true; }
  bool rendered(const std::string&, size_t) override { return true; }
};

void preload(api::Generator& generator, api::Embedder& embedder, const std::string& model,
             bool is_embedding, std::stop_token stop) {
  metrics::Trace trace(metrics::new_request_id(), "preload", "");
  if (is_embedding) {
    embedder.embed({.model = model, .inputs = {"warm"}, .keep_alive = scheduler::kForever}, stop,
                   trace);
    return;
  }
  WarmUp sink;
  api::GenerationRequest request{.kind = api::GenerationKind::kPrompt, .model = model};
  request.prompt = "warm";
  request.raw = true;
  request.options.num_predict = 1;
  request.keep_alive = scheduler::kForever;
  generator.run(request, sink, stop, trace);
}

// Max time to check the store at startup, and to look up a model for a readiness request.
constexpr std::chrono::milliseconds kProbeTimeout{10'000};
constexpr std::chrono::milliseconds kSampleEvery{2'000};
constexpr std::chrono::milliseconds kKeysEvery{1'000};
constexpr std::chrono::milliseconds kStoreTimeout{2'000};
constexpr std::chrono::milliseconds kPruneTimeout{10'000};

// Returns whether only this machine can reach the address.
bool is_own_machine(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::unique_ptr<TraceExporter> exporter_of(const Options& options) {
  const CollectorOptions& collector = options.collector;
  if (collector.url.empty()) return nullptr;
  const metrics::OtlpResource resource{.version = options.own_version, .host = options.node_name};
  return std::make_unique<TraceExporter>(resource, "the collector at " + collector.url,
                                         sender_to(collector, options.own_version));
}

void append(std::vector<api::Route>& routes, std::vector<api::Route> more) {
  std::ranges::move(more, std::back_inserter(routes));
}

}  // namespace

class Server::Parts {
 public:
  explicit Parts(Options options)
      : options_(std::move(options)),
        keys_(options_.api_keys.empty() ? nullptr
                                        : std::make_unique<keys::KeyRing>(
                                              options_.api_keys, std::chrono::steady_clock::now())),
        store_(options_.models),
        registry_(store_, options_.registry),
        metrics_(options_.own_version, options_.isa),
        traces_(options_.n_traces),
        scheduler_(
            options_.models_loaded,
            [this](const scheduler::Launch& launch) { return start_runner(launch); },
            [this](const scheduler::ModelNews& news) { publish_news(news, feed_, history_); }),
        catalog_(store_, options_.describe, {.go_templates = options_.go_templates}),
        slots_(options_.models_loaded.n_parallel),
        slot_files_(options_.slot_files),
        picture_addresses_(options_.picture_addresses),
        generator_(catalog_, scheduler_, metrics_, latest_contexts_, slots_, picture_addresses_,
                   options_.generation,
                   [this](const metrics::Trace& trace, const std::string& model,
                          const Json& event) { publish_context(trace, model, event); }),
        embedder_(catalog_, scheduler_, metrics_, latest_contexts_,
                  {.num_ctx = options_.generation.num_ctx,
                   .max_context = options_.generation.max_context}),
        exporter_(exporter_of(options_)),
        context_{metrics_,           traces_,     feed_,          options_.node_name,
                 options_.read_only, keys_.get(), exporter_.get()},
        operations_{
            .not_ready = [this] { return not_ready(); },
            .model_not_ready = [this](const std::string& model,
                                      bool loadable) { return model_not_ready(model, loadable); },
            .load = [this] { return load(); },
            .metrics = metrics_,
            .traces = traces_,
            .memory = [this] { return memory_json(scheduler_.state()); },
            .history = [this] { return history_.json(); },
            .feed = feed_,
            .server = [this] { return server_json(); },
            .aliases = options_.metrics_aliases},
        origins_(options_.origins),
        names_(http::machine_names()) {
    check_store();
    if (options_.prune && !options_.read_only) prune();
    for (const std::string& model : options_.preload) cold_.emplace_back(model, "being loaded");
    observer_.emplace(feed_, history_,
                      Observer::Sources{.state = [this] { return scheduler_.state(); },
                                        .sample = [this] { return sample(); }});
    feed_.on_read([this] { observer_->wake(); });
    std::vector<api::Route> made = routes();
    for (const api::Route& route : made) patterns_.push_back(route.pattern);
    http_.emplace(http_options(), http_routes(context_, std::move(made)));
    if (keys_) key_watch_ = std::jthread([this](std::stop_token stop) { watch_keys(stop); });
    if (!options_.preload.empty())
      preloader_ = std::jthread([this](std::stop_token stop) { load_all(stop); });
  }

  ~Parts() { stop(); }

  uint16_t port() const { return http_->port(); }
  bool is_on_network() const { return !options_.host.empty() && !is_own_machine(options_.host); }
  const std::vector<std::string>& patterns() const { return patterns_; }
  bool has_web_page() const { return options_.web_page && !web::embedded_assets().empty(); }

  bool drain(std::chrono::milliseconds delay, std::chrono::milliseconds timeout) {
    {
      std::unique_lock lock(mutex_);
      draining_ = true;
      stopped_changed_.wait_for(lock, delay, [this] { return stopped_; });
      if (stopped_) return false;
    }
    end_preloading();
    feed_.close();  // otherwise its readers would delay the drain
    const auto until = std::chrono::steady_clock::now() + timeout;
    const bool answered = http_->drain(timeout, kCancelTime);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    scheduler_.drain(std::max(left, std::chrono::milliseconds(0)));
    return answered;
  }

  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = draining_ = true;
      stopped_changed_.notify_all();
    }
    feed_.close();
    catalog_.cancel();
    lookups_.cancel();
    end_preloading();
    if (http_) http_->stop();
  }

  std::vector<std::string> not_ready() const {
    std::vector<std::string> reasons;
    if (options_.read_only) {
      std::string reason = store_reason();
      if (!reason.empty()) reasons.push_back(std::move(reason));
    }
    for (const std::string& model : scheduler_.state().crashing)
      reasons.push_back("model '" + model + "' keeps crashing");
    const std::scoped_lock lock(mutex_);
    if (draining_) reasons.emplace_back("the server is draining");
    for (const auto& [model, why] : cold_)
      reasons.push_back(fmt::format("model '{}': {}", model, why));
    return reasons;
  }

 private:
  // Threads may call drain() and stop() at the same time. Both return after preloading has ended.
  void end_preloading() {
    const std::scoped_lock lock(preloader_mutex_);
    preloader_ = {};
  }

  // Returns why the store cannot be used, or an empty text.
  std::string store_reason() const {
    try {
      const auto is_there = lookups_.get<bool>(
          "the folder of the model store", {.timeout = kStoreTimeout},
          [folder = options_.models](std::stop_token) { return store::is_folder(folder); });
      return *is_there ? "" : "no model store at " + options_.models;
    } catch (const http::StatusError& error) {
      return error.what();
    }
  }

  // Throws Error if this user may not read the store, because then the server could serve nothing.
  void check_store() {
    try {
      lookups_.get<bool>("the model store", {.timeout = kProbeTimeout}, [this](std::stop_token) {
        store_.check_readable();
        return true;
      });
    } catch (const http::StatusError& error) {
      log::debug(std::string(error.what()) + "; the server starts anyway");
    }
  }

  // Removes unused blobs. If this fails or takes too long, the server starts anyway.
  void prune() {
    try {
      const auto pruned =
          lookups_.get<store::Pruned>("removing unused blobs", {.timeout = kPruneTimeout},
                                      [this](std::stop_token) { return store_.prune(); });
      if (pruned->n_blobs + pruned->n_partial + pruned->n_downloads == 0) return;
      log::info(fmt::format(
          "the store had {} unused blobs, {} unfinished files and {} old downloads: removed {}",
          pruned->n_blobs, pruned->n_partial, pruned->n_downloads,
          format_byte_size(pruned->n_bytes)));
    } catch (const std::exception& error) {
      log::warn(fmt::format("cannot remove unused blobs: {}", error.what()));
    }
  }

  std::unique_ptr<scheduler::Runner> start_runner(const scheduler::Launch& launch) {
    bool is_first = false;
    {
      const std::scoped_lock lock(mutex_);
      is_first = started_.insert(launch.key).second;
    }
    metrics_.model_load(launch.name, is_first ? "first" : "again");
    return options_.start_runner(launch);
  }

  http::ServerOptions http_options() {
    http::ServerOptions http;
    http.host = options_.host;
    http.port = options_.port;
    http.socket_path = options_.socket_path;
    http.socket_mode = options_.socket_mode;
    http.max_connections = options_.max_connections;
    http.max_body_bytes = options_.max_body_bytes;
    http.header_timeout = options_.header_timeout;
    http.body_timeout = options_.body_timeout;
    http.max_bodies_bytes = options_.max_bodies_bytes;
    http.shape_error = [](int status, std::string_view path, std::string_view text) {
      return shape_error(status, path, text);
    };
    http.on_unhandled = [this](const http::UnhandledAnswer& answer) {
      return record_unhandled(context_, answer);
    };
    http.admit = [this](const http::Request& request, http::BindKind bind, std::string_view route) {
      return admit(request, bind, route);
    };
    return http;
  }

  // Checks the origin of a web page or the host name, then the API key.
  http::Verdict admit(const http::Request& request, http::BindKind bind, std::string_view route) {
    http::Verdict verdict = http::check_access(origins_, names_, bind, request);
    if (!keys_ || verdict.answer || !verdict.refusal.empty()) return verdict;
    http::Verdict by_key = check_key(*keys_, request, route);
    for (const http::Headers::Field& field : verdict.headers)
      by_key.headers.add(field.name, field.value);
    return by_key;
  }

  // Reads the file of keys again after each change of the file.
  void watch_keys(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    while (!stopped.wait_for(lock, stop, kKeysEvery, [&] { return stop.stop_requested(); }))
      keys_->refresh(std::chrono::steady_clock::now());
  }

  std::vector<api::Route> routes() {
    std::vector<api::Route> routes = operation_routes(operations_);
    append(routes, api::ollama::generation_routes(generator_));
    append(routes, api::ollama::embedding_routes(embedder_));
    append(routes, api::ollama::store_routes(store_, registry_,
                                             {.version = options_.version,
                                              .go_templates = options_.go_templates,
                                              .program = options_.program,
                                              .web_page = has_web_page()}));
    append(routes, api::ollama::ps_routes(
                       {[this] { return scheduler_.state(); },
                        [this](const std::string& key) { return latest_contexts_.of(key); },
                        [this](const std::string& key, const std::string& root, size_t n_max) {
                          return scheduler_.prefixes(key, root, n_max);
                        }}));
    append(routes,
           api::ollama::plan_routes({.generator = generator_, .catalog = catalog_, .state = [this] {
                                       return scheduler_.state();
                                     }}));
    append(routes, api::openai::routes(generator_, embedder_, store_));
    append(routes, api::anthropic::routes(generator_));
    append(routes, api::tei::routes(embedder_, catalog_, generator_, store_));
    append(routes,
           api::llama::routes({.generator = generator_,
                               .catalog = catalog_,
                               .store = store_,
                               .state = [this] { return scheduler_.state(); },
                               .slots = slots_,
                               .slot_files = slot_files_,
                               .do_with_text =
                                   [this](const std::string& key, scheduler::TextAction action,
                                          const scheduler::CachedText& text) {
                                     return scheduler_.do_with_text(key, action, text);
                                   },
                               .version = options_.own_version,
                               .max_context = options_.generation.max_context}));
    append(routes, api::llama::aliases(routes));
    if (options_.web_page) append(routes, web_routes());
    return routes;
  }

  Sample sample() const {
    const metrics::Load now = load_of(scheduler_.state());
    const metrics::Metrics::Tokens totals = metrics_.totals();
    Sample sample{.time = std::chrono::system_clock::now(),
                  .n_running = now.n_running,
                  .n_waiting = now.n_waiting,
                  .busy_ratio = now.busy_ratio,
                  .n_prompt = totals.n_prompt,
                  .n_generated = totals.n_generated};
    for (const metrics::Load::ModelLoad& model : now.models)
      sample.held.emplace_back(model.name, model.held_bytes);
    return sample;
  }

  // `event` is a transition or a compaction of a request's context.
  void publish_context(const metrics::Trace& trace, const std::string& model, const Json& event) {
    if (!feed_.has_readers()) return;
    Json json = event;
    json.erase("text");
    json["time"] = unix_ms(WallClock::now());
    json["id"] = trace.id();
    json["model"] = model;
    feed_.publish("context", json);
  }

  Json server_json() const {
    return {{"version", options_.own_version},
            {"node", options_.node_name},
            {"read_only", options_.read_only},
            {"on_network", is_on_network()},
            {"api_keys", keys_ != nullptr}};
  }

  metrics::Load load() const {
    metrics::Load load = load_of(scheduler_.state());
    load.ready = not_ready().empty();
    const EventFeed::Counts events = feed_.counts();
    load.n_event_readers = events.n_readers;
    load.n_events_sent = events.n_sent;
    load.n_events_missed = events.n_missed;
    if (keys_) report_keys(*keys_, load);
    if (exporter_) load.spans = exporter_->counts();
    load.n_max_models = options_.models_loaded.n_max_loaded == 0
                            ? scheduler::kAutoMaxLoaded
                            : options_.models_loaded.n_max_loaded;
    const std::scoped_lock lock(mutex_);
    load.draining = draining_;
    return load;
  }

  std::vector<std::string> model_not_ready(const std::string& name, bool loadable) {
    std::shared_ptr<const api::ServedModel> model;
    try {
      model = catalog_.find(name, {}, kProbeTimeout);
    } catch (const http::StatusError& error) {
      if (error.status() != 503) throw;
      return {error.what()};
    }
    if (!model) return {"model '" + name + "' not found"};
    const scheduler::SchedulerState state = scheduler_.state();
    for (const scheduler::LoadedModel& loaded : state.models)
      if (loaded.model.key == model->key && loaded.model.phase == scheduler::Phase::kReady)
        return {};
    if (!loadable) return {"model '" + name + "' is not loaded"};
    const scheduler::ModelCost cost = scheduler::cost_of(model->facts(), 0);
    const uint64_t needed = saturating_add(cost.weight_bytes, cost.scratch_bytes);
    if (needed > state.budget_bytes) return {scheduler::memory_refusal(needed, state.budget_bytes)};
    return {};
  }

  void load_all(std::stop_token stop) {
    for (const std::string& name : options_.preload) {
      std::string why;
      try {
        const std::shared_ptr<const api::ServedModel> model = catalog_.find(name, stop);
        if (!model) throw http::StatusError(404, "not found");
        preload(generator_, embedder_, name, !model->can("completion"), stop);
      } catch (const std::exception& error) {
        why = error.what();
        log::warn(fmt::format("cannot preload model '{}': {}", name, why));
      }
      // A name that was given twice has two entries. This attempt counts for both.
      const std::scoped_lock lock(mutex_);
      std::erase_if(cold_, [&](const auto& entry) { return entry.first == name; });
      if (!why.empty()) cold_.emplace_back(name, why);
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable stopped_changed_;
  bool draining_ = false;
  bool stopped_ = false;
  std::set<std::string> started_;  // model keys of runners that were started before

  const Options options_;
  const std::unique_ptr<keys::KeyRing> keys_;  // null: no key is needed
  store::Store store_;
  registry::Client registry_;
  metrics::Metrics metrics_;
  metrics::TraceStore traces_;
  EventFeed feed_;
  History history_{kSampleEvery};
  scheduler::Scheduler scheduler_;
  mutable api::Lookups lookups_;
  api::Catalog catalog_;
  api::LatestContexts latest_contexts_;
  api::Slots slots_;
  api::SlotFiles slot_files_;
  api::PictureAddresses picture_addresses_;
  api::LocalGenerator generator_;
  api::LocalEmbedder embedder_;
  const std::unique_ptr<TraceExporter> exporter_;  // null: traces are not exported
  CallContext context_;
  const Operations operations_;
  const http::AllowedOrigins origins_;
  const http::MachineNames names_;

  std::vector<std::pair<std::string, std::string>>
      cold_;  // preloads that are pending or failed, each with its reason

  std::vector<std::string> patterns_;  // of the routes
  std::optional<Observer> observer_;
  std::optional<http::Server> http_;  // its handlers use all members above
  std::mutex preloader_mutex_;
  std::jthread preloader_;
  std::jthread key_watch_;
};

Server::Server(Options options) : parts_(std::make_unique<Parts>(std::move(options))) {}
Server::~Server() = default;
uint16_t Server::port() const { return parts_->port(); }
bool Server::has_web_page() const { return parts_->has_web_page(); }
bool Server::is_on_network() const { return parts_->is_on_network(); }
bool Server::drain(std::chrono::milliseconds delay, std::chrono::milliseconds timeout) {
  return parts_->drain(delay, timeout);
}
void Server::stop() { parts_->stop(); }
std::vector<std::string> Server::routes() const { return parts_->patterns(); }
std::vector<std::string> Server::not_ready() const { return parts_->not_ready(); }

}  // namespace billow::server
