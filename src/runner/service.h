// A runner as its server sees it: routes over an engine loop. The model is loaded on a thread of
// its own, so that routes answer from the beginning. Owns the loop; any number of handlers at once.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "http/server.h"
#include "runner/engine_loop.h"

namespace billow::runner {

// Routes, all with JSON unless said otherwise; an error is {"error":"..."} with its status, 503 for
// all but /health until the model is loaded, and where it could not be:
//   GET  /health      {"status":"loading"|"ready"|"failed","error"?,"pid","running","waiting",
//                      "max_context","memory":{...}}; 200 when ready, else 503
//   POST /completion  as runner/protocol.h says; answers application/x-ndjson. What is refused
//                     before the first token has a status of its own. Closing the connection
//                     cancels.
//   POST /tokenize    {"content","add_special"?,"parse_special"?} -> {"tokens":[...]}
//   POST /detokenize  {"tokens":[...]} -> {"content"}, U+FFFD in place of what is no UTF-8
//   POST /budget      {"bytes":N} -> {}: another memory budget
class Service {
 public:
  // The body of an error: for ServerOptions::shape_error.
  static http::Response error_response(int status, std::string_view path, std::string_view text);

  Service(std::string path, engine::EngineOptions engine);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  std::vector<http::Route> routes();  // use the service: it must outlive their server
  // Waits until the model is loaded. Throws what loading threw.
  void wait_until_loaded();

 private:
  EngineLoop* ready(http::Exchange& exchange);
  void health(http::Exchange& exchange);
  void complete(http::Exchange& exchange);
  void tokenize(http::Exchange& exchange);
  void detokenize(http::Exchange& exchange);
  void set_budget(http::Exchange& exchange);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<EngineLoop> loop_;
  std::exception_ptr error_;
  std::thread loader_;
};

}  // namespace billow::runner
