#include "cli/fleet/survey.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/one_line.h"
#include "base/text.h"
#include "cli/client/api_client.h"
#include "cli/client/show_text.h"
#include "cli/client/vector_recipe.h"
#include "http/client.h"
#include "store/name.h"

namespace billow::cli {
namespace {

constexpr size_t kMaxThreads = 32;
constexpr uint64_t kMaxAnswerBytes = 64 << 20;
constexpr size_t kMaxErrorBytes = 200;
constexpr const char* kPrefixes = "/api/ps?prefixes=1000";

// Longer than two blocks of 64 tokens with any tokenizer, and the same on every host.
std::string probe_text() {
  std::string text = "billow fleet check compares the prefixes of this text.";
  for (int i = 1; i <= 100; ++i) text += " " + std::to_string(i);
  return text;
}

// Asks one host. Throws Error if the host does not answer, or not as a Billow server does.
class Asker {
 public:
  Asker(const FleetHost& host, std::chrono::milliseconds timeout)
      : client_({.host = host.endpoint.host, .port = host.endpoint.port},
                {.connect_timeout = std::min(timeout, std::chrono::milliseconds(10'000)),
                 .idle_timeout = timeout,
                 .max_body_bytes = kMaxAnswerBytes,
                 .headers = key_headers(host)}) {}

  http::Response get(const char* target) { return client_.send({.target = target}); }

  Json json(const char* target) {
    const http::Response response = get(target);
    if (response.status == 401 || response.status == 403)
      throw Error(ErrorCode::kPermissionDenied,
                  std::string("GET ") + target + ": " + said_by(response.body));
    if (response.status != 200) refuse(target, "status " + std::to_string(response.status));
    return parsed(target, response.body);
  }

  http::Response post(const char* target, const Json& body) {
    http::Call call{.method = http::Method::kPost, .target = target, .body = body.dump()};
    call.headers.set("Content-Type", "application/json");
    return client_.send(call);
  }

  static Json parsed(const char* target, const std::string& body) {
    Json json = Json::parse(body, nullptr, false);
    if (!json.is_object()) refuse(target, "no JSON object");
    return json;
  }

 private:
  [[noreturn]] static void refuse(const char* target, const std::string& what) {
    throw Error(ErrorCode::kInvalidInput,
                std::string("GET ") + target + ": " + what + "; is it a Billow server?");
  }

  http::Client client_;
};

std::vector<Json> models_of(const Json& reply) {
  if (!reply.contains("models") || !reply["models"].is_array()) return {};
  return {reply["models"].begin(), reply["models"].end()};
}

void ask_state(Asker& asker, HostReport& report) {
  const Json server = asker.json("/api/server");
  report.version = text_field(server, "version");
  report.node = text_field(server, "node");
  report.is_read_only = server.value("read_only", Json(false)) == Json(true);
  const http::Response ready = asker.get("/readyz");
  report.is_ready = ready.status == 200;
  if (!report.is_ready)
    report.reasons = texts_field(Asker::parsed("/readyz", ready.body), "reasons");
  const std::string load = asker.get("/metrics/load").body;
  const auto count = [&](const char* name) {
    const double value = series_value(load, name);
    return value > 0.0 ? static_cast<uint64_t>(std::min(value, 1e15)) : 0;  // 0 for NaN, too
  };
  report.is_draining = count("billow_draining") != 0;
  report.n_waiting = count("billow_requests_waiting");
  report.n_running = count("billow_requests_running");
  report.busy_ratio = series_value(load, "billow_busy_ratio");
  report.kv_used_ratio = series_value(load, "billow_kv_used_ratio");
  report.n_prompt_tokens = count("billow_prompt_tokens_total");
  report.n_cached_tokens = count("billow_prompt_cached_tokens_total");
  for (const Json& model : models_of(asker.json("/api/ps")))
    report.loaded.push_back(fleet_model_name(text_field(model, "name")));
}

void ask_models(Asker& asker, const std::vector<std::string>& models, HostReport& report) {
  for (const Json& model : models_of(asker.json("/api/tags")))
    report.digests[fleet_model_name(text_field(model, "name"))] = text_field(model, "digest");
  for (const std::string& model : models) {
    const http::Response shown = asker.post("/api/show", {{"model", model}});
    if (shown.status != 200) continue;
    const auto weights = shown_weights(Asker::parsed("/api/show", shown.body));
    if (weights) report.fingerprints[model] = fingerprint({.weights = *weights});
  }
}

void probe(Asker& asker, const std::vector<std::string>& models, HostReport& report) {
  for (const std::string& model : models) {
    const http::Response answer = asker.post("/api/generate", {{"model", model},
                                                               {"prompt", probe_text()},
                                                               {"raw", true},
                                                               {"stream", false},
                                                               {"options", {{"num_predict", 1}}}});
    if (answer.status == 200) report.prefixes[model] = {};
  }
  for (const Json& model : models_of(asker.json(kPrefixes))) {
    const auto found = report.prefixes.find(fleet_model_name(text_field(model, "name")));
    if (found == report.prefixes.end() || !model.contains("prefixes")) continue;
    for (const Json& prefix : model["prefixes"])
      for (std::string& digest : texts_field(prefix, "digests"))
        found->second.push_back(std::move(digest));
  }
}

HostReport ask(const FleetHost& host, const std::vector<std::string>& models,
               const Survey& survey) {
  HostReport report{.name = host.name, .url = host.endpoint.url()};
  try {
    Asker asker(host, survey.timeout);
    ask_state(asker, report);
    if (survey.asks_models) ask_models(asker, models, report);
    if (survey.probes) {
      Asker patient(host, survey.probe_timeout);
      probe(patient, models, report);
    }
  } catch (const std::exception& error) {
    report.error = one_line(error.what(), kMaxErrorBytes);
  }
  return report;
}

}  // namespace

std::vector<HostReport> ask_hosts(const Fleet& fleet, const Survey& survey) {
  std::vector<HostReport> reports(fleet.hosts.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < reports.size(); i = next++)
      reports[i] =
          ask(fleet.hosts[i],
              i < survey.models.size() ? survey.models[i] : std::vector<std::string>{}, survey);
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < std::min(kMaxThreads, reports.size()); ++i) threads.emplace_back(work);
  }
  return reports;
}

double series_value(std::string_view metrics, std::string_view name) {
  while (!metrics.empty()) {
    const std::string_view line = metrics.substr(0, metrics.find('\n'));
    metrics.remove_prefix(std::min(line.size() + 1, metrics.size()));
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ') continue;
    double value = 0;
    const std::string_view digits = line.substr(name.size() + 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  }
  return 0;
}

std::string fleet_model_name(const std::string& name) {
  const std::optional<store::Name> parsed = store::parse_name(name);
  return lower_case(parsed ? store::short_name(*parsed) : name);
}

}  // namespace billow::cli
