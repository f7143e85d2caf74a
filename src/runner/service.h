// The HTTP service of a runner: routes over one model. A background thread loads the model, so that
// routes respond from the start. Owns the model. Thread-safe.
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

// How to serve files of embedding models.
struct EmbedOptions {
  // Detects and loads embedding models. If is_embedding is empty, every file is served as a
  // generating model.
  std::function<bool(const gguf::File& file)> is_embedding = engine::is_embedding_file;
  std::function<std::vector<std::unique_ptr<engine::EmbedModel>>(
      gguf::File file, const engine::EngineOptions& options, const engine::EmbedSettings& settings)>
      load = engine::load_embed_models;
  engine::EmbedFaults faults = {};
  engine::EmbedBatcherOptions batcher = {};
};

// Loads a model on the calling thread. Calls `on_load` from any thread with the loaded bytes and
// all bytes; n_to_load is 0 while it is unknown. Throws the error of a failed load.
using OnLoad = std::function<void(size_t n_loaded, size_t n_to_load)>;
using LoadModel = std::function<std::unique_ptr<ServedModel>(const OnLoad& on_load)>;

// Returns a loader for a file, for Billow's own engine.
LoadModel own_model(std::string path, engine::EngineOptions engine, LoopOptions loop = {},
                    EmbedOptions embed = {});

// Routes. Bodies are JSON except where noted. An error is {"error":"..."} with its status. While
// the model loads, or if loading failed, every route except /health responds with 503.
//   GET  /health      {"status":"loading"|"ready"|"failed","pid","resident"}; 200 if ready, else
//                     503. Memory is in bytes. Further fields:
//                     while loading: "loaded" of "to_load" (0: unknown);
//                     after a failure: "error", and "out_of_memory" if that was the cause;
//                     when ready: "running", "waiting", "max_context", "isa", "memory":{...},
//                     "budget_version" of the budget in effect, "held" bytes in total,
//                     "cached" bytes of these, "wanted" bytes above the budget, "asking" if
//                     requests are paused until the server decides; over the last ten seconds
//                     "busy_ratio", "prompt_tokens_per_second", "decode_tokens_per_second";
//                     "pending_prompt_tokens" and "pending_decode_tokens" of all requests; for
//                     an embedding model "embed_pending_tokens", its "figures" (base/figure.h),
//                     "embed_passes": the latest passes as [number, Unix time of the end in ms,
//                     texts, tokens, ms], oldest first, and "degraded": why its last passes failed
//   POST /completion  see runner/protocol.h; responds with application/x-ndjson. A request that is
//                     rejected before its evaluation gets its specific status. Closing the
//                     connection cancels the request. 501 if the model only embeds.
//   POST /embed       see runner/protocol.h; responds with application/octet-stream. Closing the
//                     connection cancels the request. 503 with Retry-After: too many texts wait.
//   POST /tokenize    {"content","add_special"?,"parse_special"?} -> {"tokens":[...]}
//   POST /detokenize  {"tokens":[...]} -> {"content"}; U+FFFD replaces invalid UTF-8
//   POST /prefixes    {"root","max"} -> {"prefixes":[{"tokens","digests":["..."]}]}: at most "max"
//                     cached prefixes, the last used ones. Each block has a digest of 16 digits
//                     (kv/prefix_digest.h). The root is "root", a blank and the KV's format.
//   POST /text        {"action":"save"|"forget","tokens":[...],"adapters"?:["/path"],"salt"?:7} ->
//                     {"tokens","bytes"}. "save" writes cached KV to disk and returns how much of
//                     the text is on disk. "forget" removes the end of the text that no other text
//                     shares from the prefix cache, and returns the size of this end. 501 if the
//                     model does not cache KV by texts.
//   POST /budget      {"bytes":N,"version"?,"ceiling"?} -> {}: sets another memory budget. /health
//                     shows its version after it takes effect. The runner must not ask for a
//                     budget above the ceiling.
class Service {
 public:
  // Returns the response of an error, for ServerOptions::shape_error.
  static http::Response error_response(int status, std::string_view path, std::string_view text);

  explicit Service(LoadModel load);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  std::vector<http::Route> routes();  // they use the service: it must outlive their server
  // Waits until the model is loaded. Throws the error of a failed load.
  void wait_until_loaded();
  // Returns why the engine has failed, or an empty text.
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
  void do_with_text(http::Exchange& exchange);
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
