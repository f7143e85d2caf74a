// A runner as its server sees it: routes over a model. The model is loaded on a thread of its own,
// so that routes answer from the beginning. Owns the model; any number of handlers at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "engine/embed/batcher.h"
#include "engine/embed/faulty_model.h"
#include "engine/embed/load.h"
#include "engine/embed/model.h"
#include "engine/engine.h"
#include "gguf/file.h"
#include "http/server.h"
#include "runner/engine_loop.h"
#include "runner/served_model.h"

namespace billow::runner {

// How files of models that only embed are served.
struct EmbedOptions {
  // Which files those are, and what loads them. Without the first all are served as those that
  // write.
  std::function<bool(const gguf::File& file)> is_embedding = engine::is_embedding_file;
  std::function<std::vector<std::unique_ptr<engine::EmbedModel>>(
      gguf::File file, const engine::EngineOptions& options, const engine::EmbedSettings& settings)>
      load = engine::load_embed_models;
  engine::EmbedFaults faults = {};
  engine::EmbedBatcherOptions batcher = {};
};

// Loads a model, on a thread of its own. `on_load`: with how many bytes of all are there, from any
// thread; 0 of all: their number is not known. Throws what the model cannot be loaded for.
using OnLoad = std::function<void(size_t n_loaded, size_t n_to_load)>;
using LoadModel = std::function<std::unique_ptr<ServedModel>(const OnLoad& on_load)>;

// Of a file, for Billow's own engine.
LoadModel own_model(std::string path, engine::EngineOptions engine, LoopOptions loop = {},
                    EmbedOptions embed = {});

// Routes, all with JSON unless said otherwise; an error is {"error":"..."} with its status, 503 for
// all but /health until the model is loaded, and where it could not be:
//   GET  /health      {"status":"loading"|"ready"|"failed","pid","resident"}; 200 when ready, else
//                     503. Numbers of memory are bytes. And
//                     while it loads: "loaded" of "to_load" (0: not known yet);
//                     where it failed: "error", "out_of_memory" if that was it;
//                     when ready: "running", "waiting", "max_context", "isa", "memory":{...},
//                     "budget_version" of the budget that it goes by, "held" of it in all,
//                     "cached" of that, "wanted" above it by what runs, "asking" if some of that
//                     stands still until it knows; of the last ten seconds
//                     "busy_ratio", "prompt_tokens_per_second", "decode_tokens_per_second"; of
//                     a model that only embeds "embed_pending_tokens", "figures" that it counts
//                     (base/figure.h), and "degraded": why its last passes failed
//   POST /completion  as runner/protocol.h says; answers application/x-ndjson. What is refused
//                     before anything was evaluated has a status of its own. Closing the
//                     connection cancels. 501 where the model only embeds.
//   POST /embed       as runner/protocol.h says; answers application/octet-stream. Closing the
//                     connection cancels. 503 with Retry-After: too many texts wait.
//   POST /tokenize    {"content","add_special"?,"parse_special"?} -> {"tokens":[...]}
//   POST /detokenize  {"tokens":[...]} -> {"content"}, U+FFFD in place of what is no UTF-8
//   POST /prefixes    {"root","max"} -> {"prefixes":[{"tokens","digests":["..."]}]}: what is known
//                     and was of use last, at most so many; a digest of 16 digits for each block,
//                     kv/prefix_digest.h, under the root and the KV's format, with a blank between.
//   POST /budget      {"bytes":N,"version"?,"ceiling"?} -> {}: another memory budget. /health shows
//                     its version once it is in force. What needs a budget above the ceiling is not
//                     to ask for it.
class Service {
 public:
  // The body of an error: for ServerOptions::shape_error.
  static http::Response error_response(int status, std::string_view path, std::string_view text);

  explicit Service(LoadModel load);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  std::vector<http::Route> routes();  // use the service: it must outlive their server
  // Waits until the model is loaded. Throws what loading threw.
  void wait_until_loaded();
  // Why the engine cannot go on; empty: it can.
  std::string failure() const;

 private:
  ServedModel* ready(http::Exchange& exchange);
  Json health() const;
  void report_health(http::Exchange& exchange);
  void complete(http::Exchange& exchange);
  void embed(http::Exchange& exchange);
  void tokenize(http::Exchange& exchange);
  void detokenize(http::Exchange& exchange);
  void list_prefixes(http::Exchange& exchange);
  void set_budget(http::Exchange& exchange);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<ServedModel> model_;
  std::exception_ptr error_;
  std::atomic<size_t> n_loaded_{0};  // bytes
  std::atomic<size_t> n_to_load_{0};
  std::thread loader_;
};

}  // namespace billow::runner
