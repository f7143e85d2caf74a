#include <string>
#include <utility>

#include "api/fields.h"
#include "api/ollama/models.h"
#include "api/ollama/progress.h"
#include "api/ollama/requested_name.h"
#include "api/ollama/transfer_steps.h"
#include "base/error.h"
#include "base/json.h"
#include "http/status.h"
#include "registry/client.h"

namespace billow::api::ollama {
namespace {

using http::Method;

// The fields of a transfer request.
struct TransferRequest {
  store::Name name;
  bool insecure = false;
  bool streams = true;
};

constexpr const char* kInvalidName = "invalid model name";

// `if_missing`: the text of the error if the request has no name.
TransferRequest decode(const Fields& fields, const char* if_missing) {
  const bool insecure = fields.flag("insecure").value_or(false);
  const bool streams = fields.flag("stream").value_or(true);
  const std::string model = requested_model(fields);
  if (model.empty()) throw http::StatusError(400, if_missing);
  return {.name = parse_new(model, kInvalidName), .insecure = insecure, .streams = streams};
}

// Clients of Ollama expect 500 for all errors of a transfer.
void run_transfer(Progress& progress, const std::function<void()>& work) {
  progress.run([&] {
    try {
      work();
    } catch (const Error& error) {
      throw http::StatusError(500, error.what());
    }
  });
}

void pull(registry::Client& client, Call& call) {
  const TransferRequest request =
      decode(Fields::parse(call.take_body().text, "PullRequest"), kInvalidName);
  client.check_writable();  // before the stream begins, so that the client gets a 403
  Progress progress(call, request.streams);
  call.set_model(store::display_name(request.name));
  run_transfer(progress, [&] {
    const store::Name spelled =
        client.pull(request.name, request.insecure, listener_of(progress), call.stop());
    call.set_model(store::display_name(spelled));
  });
}

void push(registry::Client& client, Call& call) {
  const Fields fields = Fields::parse(call.take_body().text, "PushRequest");
  const TransferRequest request = decode(fields, "model is required");
  Progress progress(call, request.streams);
  call.set_model(store::display_name(request.name));
  run_transfer(progress, [&] {
    client.push(request.name, request.insecure, listener_of(progress), call.stop());
  });
}

}  // namespace

registry::Listener listener_of(Progress& progress) {
  return [&progress](const registry::Step& step) {
    if (step.layer == nullptr) return progress.report_status(step.status);
    progress.report(Json{{"status", step.status},
                         {"digest", step.layer->digest.text()},
                         {"total", step.layer->size_bytes},
                         {"completed", step.n_completed}});
  };
}

std::vector<Route> transfer_routes(registry::Client& client) {
  return {
      {.methods = {Method::kPost},
       .pattern = "/api/pull",
       .handler = [&client](Call& call) { pull(client, call); },
       .writes_store = true},
      {.methods = {Method::kPost},
       .pattern = "/api/push",
       .handler = [&client](Call& call) { push(client, call); },
       .writes_store = true},  // it sends models to addresses that the client names
  };
}

}  // namespace billow::api::ollama
