#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/fields.h"
#include "api/ollama/errors.h"
#include "api/ollama/models.h"
#include "api/ollama/progress.h"
#include "api/ollama/requested_name.h"
#include "base/error.h"
#include "base/json.h"
#include "http/status.h"
#include "store/model.h"

namespace billow::api::ollama {
namespace {

using http::Method;

store::Name requested_name(const Fields& fields) {
  auto name = store::parse_name(requested_model(fields));
  if (!name) throw http::StatusError(400, "invalid model name");
  return std::move(*name);
}

// With all that its manifest refers to.
std::optional<store::StoredModel> find_whole(const store::Store& store, const store::Name& name) {
  try {
    auto stored = store.find(name);
    if (!stored) return std::nullopt;
    const auto digests = stored->manifest.digests();
    const bool is_whole = std::ranges::all_of(
        digests, [&](const store::Digest& digest) { return store.has_blob(digest); });
    return is_whole ? std::move(stored) : std::nullopt;
  } catch (const Error&) {  // a broken manifest is as good as none
    return std::nullopt;
  }
}

void report_layer(Progress& progress, const store::Layer& layer) {
  progress.report(Json{{"status", "pulling " + layer.digest.hex().substr(0, 12)},
                       {"digest", layer.digest.text()},
                       {"total", layer.size_bytes},
                       {"completed", layer.size_bytes}});
}

void pull(const store::Store& store, Call& call) {
  const Fields fields = Fields::parse(call.take_body().text, "PullRequest");
  fields.flag("insecure");
  Progress progress(call, fields.flag("stream").value_or(true));
  const store::Name name = requested_name(fields);
  const auto stored = find_whole(store, name);
  if (!stored) {
    throw http::StatusError(501, "pulling models is not supported yet: create '" +
                                     store::display_name(name) +
                                     "' from a GGUF file, or copy it into the store");
  }
  call.set_model(store::display_name(stored->name));
  progress.run([&] {
    progress.report_status("pulling manifest");
    for (const store::Layer& layer : stored->manifest.layers) report_layer(progress, layer);
    report_layer(progress, stored->manifest.config);
    progress.report_status("verifying sha256 digest");
    progress.report_status("writing manifest");
    progress.report_status("success");
  });
}

void push(Call& call) {
  const Fields fields = Fields::parse(call.take_body().text, "PushRequest");
  requested_name(fields);
  throw http::StatusError(501, "pushing models is not supported yet");
}

}  // namespace

std::vector<Route> transfer_routes(store::Store& store) {
  return {
      {.methods = {Method::kPost},
       .pattern = "/api/pull",
       .handler = [&store](Call& call) { pull(store, call); },
       .writes_store = true},
      {.methods = {Method::kPost}, .pattern = "/api/push", .handler = push},
  };
}

}  // namespace billow::api::ollama
