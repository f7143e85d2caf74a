#include "runner/service.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "kv/prefix_digest.h"
#include "runner/response.h"
#include "runner/served_embedder.h"
#include "runner/served_writer.h"

namespace billow::runner {
namespace {

using http::Exchange;
using http::Method;

Json parse_object(const std::string& body) {
  Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) throw Error(ErrorCode::kInvalidInput, "the body must be a JSON object");
  return json;
}

// Returns a field of a body. `fits` checks its type, because the JSON library would convert and
// truncate numbers.
const Json& field(const Json& json, const char* name, const char* wanted,
                  const std::function<bool(const Json&)>& fits) {
  const auto found = json.find(name);
  if (found == json.end() || !fits(*found))
    throw Error(ErrorCode::kInvalidInput, std::string("field \"") + name + "\" must be " + wanted);
  return *found;
}

bool is_token(const Json& json) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
  return json.is_number_unsigned() && json.get<uint64_t>() <= kMax;
}

bool are_tokens(const Json& json) { return json.is_array() && std::ranges::all_of(json, is_token); }

bool are_paths(const Json& json) {
  return json.is_array() &&
         std::ranges::all_of(json, [](const Json& path) { return path.is_string(); });
}

const char* what(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

bool is_out_of_memory(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.code() == ErrorCode::kOutOfMemory;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

// Returns the resident memory of this process.
uint64_t resident_bytes() {
  uint64_t n_pages = 0;
  std::ifstream statm("/proc/self/statm");
  if (!(statm >> n_pages >> n_pages)) return 0;  // the second number
  return n_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

http::Response Service::error_response(int status, std::string_view, std::string_view text) {
  return runner::error_response(status, text);
}

LoadModel own_model(std::string path, engine::EngineOptions engine, LoopOptions loop,
                    EmbedOptions embed) {
  return [path = std::move(path), engine = std::move(engine), loop = std::move(loop),
          embed = std::move(embed)](const OnLoad& on_load) -> std::unique_ptr<ServedModel> {
    engine::EngineOptions options = engine;
    options.on_load = on_load;
    if (embed.is_embedding &&
        embed.is_embedding(gguf::File::open(path, gguf::StringArrays::kSkipped))) {
      return std::make_unique<ServedEmbedder>(
          with_faults(embed.load(gguf::File::open(path), options, embed.batcher.sizes),
                      embed.faults),
          embed.batcher);
    }
    return std::make_unique<ServedWriter>(std::make_unique<engine::Engine>(path, options), loop);
  };
}

Service::Service(LoadModel load) {
  loader_ = std::thread([this, load = std::move(load)] {
    std::unique_ptr<ServedModel> made;
    std::exception_ptr error;
    try {
      made = load([this](size_t n_loaded, size_t n_to_load) {
        n_loaded_.store(n_loaded, std::memory_order_relaxed);
        n_to_load_.store(n_to_load, std::memory_order_relaxed);
      });
    } catch (...) {
      error = std::current_exception();
    }
    const std::scoped_lock lock(mutex_);
    model_ = std::move(made);
    error_ = error;
    changed_.notify_all();
  });
}

Service::~Service() { loader_.join(); }

void Service::wait_until_loaded() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return model_ || error_; });
  if (error_) std::rethrow_exception(error_);
}

std::string Service::failure() const {
  const std::scoped_lock lock(mutex_);
  return model_ ? model_->failure() : "";
}

// Returns null if there is no model. Then the exchange already has a response.
ServedModel* Service::ready(Exchange& exchange) {
  std::string why;
  {
    const std::scoped_lock lock(mutex_);
    if (model_) return model_.get();
    why = error_ ? what(error_) : "the model is being loaded";
  }
  exchange.respond(runner::error_response(503, why));
  return nullptr;
}

std::vector<http::Route> Service::routes() {
  std::vector<http::Route> routes;
  const auto add = [&](Method method, const char* pattern, void (Service::*handler)(Exchange&)) {
    http::Route& route = routes.emplace_back();
    route.methods = {method};
    route.pattern = pattern;
    route.handler = [this, handler](Exchange& exchange) { (this->*handler)(exchange); };
  };
  add(Method::kGet, "/health", &Service::report_health);
  add(Method::kPost, "/completion", &Service::complete);
  add(Method::kPost, "/embed", &Service::embed);
  add(Method::kPost, "/tokenize", &Service::tokenize);
  add(Method::kPost, "/detokenize", &Service::detokenize);
  add(Method::kPost, "/prefixes", &Service::list_prefixes);
  add(Method::kPost, "/text", &Service::do_with_text);
  add(Method::kPost, "/budget", &Service::set_budget);
  return routes;
}

Json Service::health() const {
  Json out = {{"status", "loading"}, {"pid", ::getpid()}, {"resident", resident_bytes()}};
  const ServedModel* model = nullptr;
  std::exception_ptr error;
  {
    const std::scoped_lock lock(mutex_);
    model = model_.get();
    error = error_;
  }
  if (model != nullptr) {
    const std::string failure = model->failure();
    out["status"] = failure.empty() ? "ready" : "failed";
    if (!failure.empty()) out["error"] = utf8::sanitized(failure);
    model->add_state(out);
  } else if (error) {
    out["status"] = "failed";
    out["error"] = utf8::sanitized(what(error));
    if (is_out_of_memory(error)) out["out_of_memory"] = true;
  } else {
    out["loaded"] = n_loaded_.load(std::memory_order_relaxed);
    out["to_load"] = n_to_load_.load(std::memory_order_relaxed);
  }
  return out;
}

void Service::report_health(Exchange& exchange) {
  const Json out = health();
  exchange.respond(json_response(out["status"] == "ready" ? 200 : 503, out));
}

void Service::complete(Exchange& exchange) {
  if (ServedModel* model = ready(exchange)) model->complete(exchange);
}

void Service::embed(Exchange& exchange) {
  if (ServedModel* model = ready(exchange)) model->embed(exchange);
}

void Service::tokenize(Exchange& exchange) {
  const ServedModel* model = ready(exchange);
  if (model == nullptr) return;
  const Json json = parse_object(exchange.request().body);
  const auto is_text = [](const Json& value) { return value.is_string(); };
  const auto is_flag = [](const Json& value) { return value.is_boolean(); };
  const auto text = field(json, "content", "a string", is_text).get<std::string>();
  const auto flag = [&](const char* name) {
    return !json.contains(name) || field(json, name, "true or false", is_flag).get<bool>();
  };
  const std::vector<int32_t> tokens = model->tokenizer().encode(
      text, {.add_special = flag("add_special"), .parse_special = flag("parse_special")});
  exchange.respond(json_response(200, {{"tokens", tokens}}));
}

void Service::detokenize(Exchange& exchange) {
  const ServedModel* model = ready(exchange);
  if (model == nullptr) return;
  const Json json = parse_object(exchange.request().body);
  const auto tokens =
      field(json, "tokens", "an array of token ids", are_tokens).get<std::vector<int32_t>>();
  exchange.respond(
      json_response(200, {{"content", utf8::sanitized(model->tokenizer().decode(tokens))}}));
}

void Service::list_prefixes(Exchange& exchange) {
  ServedModel* model = ready(exchange);
  if (model == nullptr) return;
  const Json json = parse_object(exchange.request().body);
  const auto is_text = [](const Json& value) { return value.is_string(); };
  const auto is_count = [](const Json& value) { return value.is_number_unsigned(); };
  const auto root = field(json, "root", "a string", is_text).get<std::string>() + " " +
                    std::string(model->kv_format());
  Json prefixes = Json::array();
  for (const kv::KnownText& text :
       model->latest_prefixes(field(json, "max", "an unsigned integer", is_count).get<size_t>())) {
    Json digests = Json::array();
    const std::string salted =
        text.salt == 0 ? root : root + fmt::format(" salt={:016x}", text.salt);
    for (const uint64_t digest : kv::prefix_digests(salted, text.tokens))
      digests.push_back(fmt::format("{:016x}", digest));
    prefixes.push_back({{"tokens", text.tokens.size()}, {"digests", std::move(digests)}});
  }
  exchange.respond(json_response(200, {{"prefixes", std::move(prefixes)}}));
}

void Service::do_with_text(Exchange& exchange) {
  ServedModel* model = ready(exchange);
  if (model == nullptr) return;
  const Json json = parse_object(exchange.request().body);
  const auto is_action = [](const Json& value) { return value == "save" || value == "forget"; };
  const bool saves = field(json, "action", "\"save\" or \"forget\"", is_action) == "save";
  auto tokens =
      field(json, "tokens", "an array of token ids", are_tokens).get<std::vector<int32_t>>();
  engine::AdapterFiles adapters;
  if (json.contains("adapters"))
    for (const Json& path : field(json, "adapters", "an array of paths", are_paths))
      adapters.push_back({.path = path.get<std::string>()});
  uint64_t salt = 0;
  const auto is_salt = [](const Json& value) {
    return value.is_number_unsigned() && value.get<uint64_t>() <= kv::kMaxSalt;
  };
  if (json.contains("salt"))
    salt = field(json, "salt", "an unsigned integer of 63 bits", is_salt).get<uint64_t>();
  const std::optional<kv::TextKv> kv =
      model->do_with_text(saves ? TextAction::kSave : TextAction::kForget, std::move(tokens),
                          std::move(adapters), salt);
  exchange.respond(
      kv ? json_response(200, {{"tokens", kv->n_tokens}, {"bytes", kv->n_bytes}})
         : runner::error_response(501, "this model does not cache keys and values by texts"));
}

void Service::set_budget(Exchange& exchange) {
  ServedModel* model = ready(exchange);
  if (model == nullptr) return;
  const Json json = parse_object(exchange.request().body);
  const auto is_count = [](const Json& value) { return value.is_number_unsigned(); };
  const auto count = [&](const char* name, const char* wanted) {
    return field(json, name, wanted, is_count).get<uint64_t>();
  };
  MemoryBudget budget = {.bytes = count("bytes", "a number of bytes")};
  if (json.contains("version")) budget.version = count("version", "an unsigned integer");
  if (json.contains("ceiling")) budget.ceiling = count("ceiling", "a number of bytes");
  model->set_memory_budget(budget);
  exchange.respond(json_response(200, Json::object()));
}

}  // namespace billow::runner
