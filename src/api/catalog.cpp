#include "api/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <stdexcept>
#include <utility>
#include <variant>

#include "api/model_traits.h"
#include "api/request_options.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "gguf/file.h"
#include "http/status.h"
#include "scheduler/messages.h"
#include "store/folder.h"
#include "store/show.h"
#include "vision/projector_file.h"

namespace billow::api {
namespace {

using http::StatusError;

// Returns nothing for a template that does not compile; traits_of() logs it. Throws Error only for
// kOutOfMemory, because the template may be correct then.
std::optional<prompt::ChatTemplate> compiled(const std::string& source) {
  if (source.empty()) return std::nullopt;
  try {
    return prompt::ChatTemplate(source);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    return std::nullopt;
  }
}

std::string manifest_path(const store::Store& store, const store::Name& name) {
  return store.folder() + "/manifests/" + store::manifest_path(name);
}

// Reads the file's vocabulary and, in parallel, gets its facts from the program that would run it.
std::optional<ModelPictures> pictures_of(const scheduler::ModelFacts& facts,
                                         const std::string& projector) {
  if (facts.pictures) return ModelPictures(*facts.pictures);
  if (!facts.encodes_pictures) return std::nullopt;
  return ModelPictures(vision::rule_at(projector));
}

Weights read_weights(const std::string& path, const std::string& jinja,
                     const scheduler::DescribeModel& describe,
                     const scheduler::EngineChoice& wanted, std::stop_token stop) {
  std::stop_source enough;
  const std::stop_callback forward(stop, [&] { enough.request_stop(); });
  std::future<scheduler::ModelFacts> facts =
      std::async(std::launch::async, [&] { return describe(path, wanted, enough.get_token()); });
  try {
    const gguf::File header = gguf::File::open_header(path);
    tokenizer::Tokenizer tokenizer = tokenizer::Tokenizer::load(header);
    const auto rerank = header.get_string("tokenizer.chat_template.rerank");
    scheduler::ModelFacts found = facts.get();
    const std::optional<ModelPictures> pictures = pictures_of(found, wanted.projector);
    return {std::move(tokenizer), std::move(found), pictures, compiled(jinja),
            std::string(rerank.value_or(""))};
  } catch (...) {
    enough.request_stop();
    throw;
  }
}

// Runners of Billow's own engine have no such options.
std::vector<std::string> key_options(const scheduler::EngineChoice& choice) {
  std::vector<std::string> options;
  if (choice.engine == scheduler::Engine::kLlama) options.emplace_back("engine=llama");
  if (choice.n_gpu_layers) options.push_back(fmt::format("num_gpu={}", *choice.n_gpu_layers));
  return options;
}

bool same(const std::optional<store::FileStatus>& a, const std::optional<store::FileStatus>& b) {
  if (!a || !b) return !a && !b;
  return a->modified == b->modified && a->size_bytes == b->size_bytes;
}

// How long a cached model waits for the state of its manifest. After a timeout it is served as it
// is.
constexpr std::chrono::milliseconds kStateTimeout{5'000};
constexpr size_t kMaxFailures = 1024;

// Applies the model's renderer: it selects the template in the model's file, which takes precedence
// over all others. Throws http::StatusError (500) for unknown names, and if the file has no
// template.
void apply_renderer(ServedModel& model, const store::Config& config) {
  if (!config.parser.empty() && !output::is_parser(config.parser))
    throw StatusError(500, "unknown parser \"" + config.parser + "\"");
  if (config.renderer.empty()) return;
  if (!output::is_renderer(config.renderer))
    throw StatusError(500, "unknown renderer \"" + config.renderer + "\"");
  if (!model.weights->jinja) {
    if (model.go) return;
    throw StatusError(500,
                      "renderer \"" + config.renderer +
                          "\" needs the chat template of the model's file, which has none; give "
                          "the model a TEMPLATE");
  }
  model.template_source = store::PromptTraits::Source::kFile;
  model.go.reset();
}

// Returns how the model writes thinking and tool calls.
output::Format format_of(const ServedModel& model, const store::Model& stored,
                         const std::string& jinja) {
  const tokenizer::Tokenizer& tokenizer = model.weights->tokenizer;
  const bool is_jinja = model.template_source == store::PromptTraits::Source::kFile;
  const auto is_control = [&tokenizer](std::string_view text) {
    const tokenizer::TokenId id = tokenizer.find(text);
    if (!tokenizer.has(id)) return false;
    const tokenizer::TokenType type = tokenizer.type(id);
    return type == tokenizer::TokenType::kControl || type == tokenizer::TokenType::kUserDefined;
  };
  output::Format format =
      output::recognise({.parser = stored.config.parser,
                         .jinja = is_jinja ? std::string_view(jinja) : std::string_view(),
                         .go = model.go ? &*model.go : nullptr,
                         .architecture = model.weights->facts.architecture,
                         .is_control = is_control});
  // Small models often forget the marker of a call. So a whole answer that calls declared tools
  // counts as calls even without the marker.
  const auto* calls =
      format.calls.size() == 1 ? std::get_if<output::JsonCalls>(&format.calls.front()) : nullptr;
  if (calls != nullptr && !calls->open.empty()) format.calls.emplace_back(output::JsonCalls{});
  return format;
}

}  // namespace

bool ServedModel::can(std::string_view capability) const {
  return std::ranges::find(capabilities, capability) != capabilities.end();
}

scheduler::EngineChoice ServedModel::engine() const {
  const scheduler::Engine engine = weights->facts.engine;
  if (engine != scheduler::Engine::kLlama)
    return {.engine = engine,
            .projector = weights->facts.encodes_pictures ? projector : std::string(),
            .draft = draft};
  // llama-server reads no projector within a model's file.
  return {.engine = engine,
          .n_gpu_layers = options.num_gpu,
          .adapters = stored.adapters,
          .projector = projector == stored.weights ? std::string() : projector};
}

Catalog::Catalog(const store::Store& store, scheduler::DescribeModel describe,
                 const CatalogOptions& options)
    : store_(store), describe_(std::move(describe)), options_(options) {}

Catalog::Found Catalog::find(std::string_view name, std::stop_token stop) {
  return find(name, std::move(stop), options_.timeout);
}

Catalog::Found Catalog::find(std::string_view name, std::stop_token stop,
                             std::chrono::milliseconds timeout) {
  const std::string wanted(trimmed(name));
  if (Found model = cached(wanted, stop)) return model;
  const store::SourcedName sourced = [&] {
    try {
      return store::split_source(wanted);
    } catch (const Error& error) {
      throw StatusError(400, error.what());
    }
  }();
  const std::optional<store::Name> parsed = store::parse_name(sourced.name);
  if (!parsed) throw StatusError(400, "invalid model name");
  if (sourced.source == store::Source::kCloud)
    throw StatusError(403, "ollama cloud is disabled: remote model is unavailable");
  return *lookups_.get<Found>("model '" + store::display_name(*parsed) + "'",
                              {.timeout = timeout, .stop = std::move(stop)},
                              [this, parsed = *parsed, wanted](std::stop_token ending) {
                                return look_up(parsed, wanted, std::move(ending));
                              });
}

Catalog::Found Catalog::cached(const std::string& wanted, std::stop_token stop) {
  Entry entry;
  {
    const std::scoped_lock lock(mutex_);
    const auto at = std::ranges::find(entries_, wanted, &Entry::wanted);
    if (at == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, at);
    entry = *at;
  }
  const std::string& path = entry.version.manifest_path;
  try {
    const auto now = lookups_.get<std::optional<store::FileStatus>>(
        "the state of " + path, {.timeout = kStateTimeout, .stop = std::move(stop)},
        [path](std::stop_token) { return store::file_status(path); });
    if (*now && same(*now, entry.version.manifest) && Clock::now() < entry.until)
      return entry.model;
  } catch (const StatusError&) {
    return entry.model;  // the model existed, and its runner needs no manifest
  }
  const std::scoped_lock lock(mutex_);
  std::erase_if(entries_, [&](const Entry& other) { return other.model == entry.model; });
  return nullptr;
}

Catalog::Found Catalog::look_up(const store::Name& name, const std::string& wanted,
                                std::stop_token stop) {
  const store::Name spelled = store_.resolve(name);
  Version version;
  version.manifest_path = manifest_path(store_, spelled);
  version.manifest = store::file_status(version.manifest_path);
  if (!version.manifest) return nullptr;
  rethrow_failure(version.manifest_path);
  try {
    Found model = load_current(spelled, version, std::move(stop));
    const Clock::time_point until =
        version.is_complete ? Clock::time_point::max() : Clock::now() + options_.failure_time;
    if (model) add_to_cache({wanted, version, model, until});
    return model;
  } catch (const StatusError& error) {
    if (error.status() != 503) remember_failure(version, error.status(), error.what());
    throw;
  } catch (const Error& error) {
    // Memory may become free soon, so the error is not cached and the next request tries again.
    if (error.code() == ErrorCode::kOutOfMemory) throw StatusError(503, error.what());
    remember_failure(version, 500, error.what());
    throw StatusError(500, error.what());
  }
}

void Catalog::rethrow_failure(const std::string& manifest_path) {
  Failure failure;
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(failures_, [&](const auto& item) { return item.second.until <= Clock::now(); });
    const auto at = failures_.find(manifest_path);
    if (at == failures_.end()) return;
    failure = at->second;
  }
  const Version& version = failure.version;
  if (!same(store::file_status(version.manifest_path), version.manifest)) return;
  if (!version.weights_path.empty() &&
      !same(store::file_status(version.weights_path), version.weights))
    return;
  throw StatusError(failure.status, failure.text);
}

void Catalog::remember_failure(const Version& version, int status, const std::string& text) {
  const std::scoped_lock lock(mutex_);
  if (failures_.size() >= kMaxFailures) failures_.clear();
  failures_[version.manifest_path] = {version, status, text, Clock::now() + options_.failure_time};
}

Catalog::Found Catalog::load_current(const store::Name& spelled, Version& version,
                                     std::stop_token stop) {
  try {
    return load(spelled, version, stop);
  } catch (const std::runtime_error&) {  // an Error or a StatusError
    const auto now = store::file_status(version.manifest_path);
    if (stop.stop_requested() || same(now, version.manifest)) throw;
    version.manifest = now;
  }
  return version.manifest ? load(spelled, version, std::move(stop)) : nullptr;
}

Catalog::Found Catalog::load(const store::Name& spelled, Version& version, std::stop_token stop) {
  std::optional<store::Model> stored = store::load_model(store_, spelled);
  if (!stored) return nullptr;
  version.weights_path = stored->weights;
  version.weights = store::file_status(stored->weights);
  version.is_complete = store::has_all_facts(*stored);
  auto model = std::make_shared<ServedModel>();
  model->name = store::display_name(stored->stored.name);
  model->full_name = store::full_name(stored->stored.name);
  if (std::ranges::find(stored->config.capabilities, "image") != stored->config.capabilities.end())
    throw StatusError(400, "image generation models are not currently supported");
  if (!stored->config.remote_host.empty() || stored->weights.empty())
    throw StatusError(403, "ollama cloud is disabled: remote model is unavailable");
  const std::string jinja = stored->weights_facts ? stored->weights_facts->chat_template : "";
  model->options = options_of_text(stored->params_json);
  if (stored->projector_facts && stored->projector_facts->has_vision)
    model->projector = stored->projectors.front();
  else if (stored->projectors.empty() && stored->weights_facts && stored->weights_facts->has_vision)
    model->projector = stored->weights;  // it may be within the model's file
  scheduler::EngineChoice wanted = {
      .engine = model->options.engine.value_or(scheduler::Engine::kAuto),
      .projector = model->projector};
  model->weights = weights_of(stored->weights, jinja, wanted, stop);
  wanted.engine = model->weights->facts.engine;
  if (!stored->draft.empty()) take_draft(*model, *stored, wanted, stop);
  if (!stored->adapters.empty()) {
    wanted.adapters = stored->adapters;
    model->with_others = describe_(stored->weights, wanted, std::move(stop));
  }
  model->stored.weights = stored->weights;  // engine() reads these
  model->stored.adapters = stored->adapters;
  // Models of one base share a runner of Billow's own engine, even with different adapters.
  const scheduler::EngineChoice choice = model->engine();
  scheduler::RunnerParts parts{
      .path = stored->weights, .adapters = choice.adapters, .options = key_options(choice)};
  if (!choice.projector.empty()) parts.projectors.push_back(choice.projector);
  if (!choice.draft.empty()) parts.drafts.push_back(choice.draft);
  model->key = scheduler::runner_key(parts);
  const store::PromptTraits traits = traits_of(*stored, options_.go_templates);
  model->template_source = traits.source;
  if (traits.source == store::PromptTraits::Source::kModel) model->go.emplace(traits.text);
  apply_renderer(*model, stored->config);
  if (store::lacks_template(*stored, traits))
    log::warn(model->name + ": " + std::string(store::kNoTemplateWarning));
  model->capabilities = store::capabilities(*stored, traits);
  model->label = store::loaded_label(*stored);
  model->format = format_of(*model, *stored, jinja);
  if (model->template_source == store::PromptTraits::Source::kFile)
    model->rules = rules_of_jinja(*model->weights->jinja, jinja);
  else if (model->go)
    model->rules = rules_of_text(model->go->source());
  model->stored = std::move(*stored);
  return model;
}

// A draft model only makes answers faster. If it is not usable, the model is served without it.
void Catalog::take_draft(ServedModel& model, const store::Model& stored,
                         scheduler::EngineChoice& wanted, const std::stop_token& stop) {
  if (wanted.engine != scheduler::Engine::kOwn)
    return log::warn(model.name +
                     ": its draft model is not used because llama-server runs the model");
  wanted.draft = stored.draft;
  try {
    model.with_others = describe_(stored.weights, wanted, stop);
    model.draft = stored.draft;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    wanted.draft.clear();
    log::warn(model.name + ": its draft model is not used: " + error.what());
  }
}

std::shared_ptr<const Weights> Catalog::weights_of(const std::string& path,
                                                   const std::string& jinja,
                                                   const scheduler::EngineChoice& wanted,
                                                   std::stop_token stop) {
  // Only the part before the line end is shown in messages; a path may contain anything.
  const std::string key =
      path + "\n" + std::string(scheduler::engine_name(wanted.engine)) + "\n" + wanted.projector;
  {
    const std::scoped_lock lock(mutex_);
    const auto at = weights_.find(key);
    if (at != weights_.end())
      if (auto weights = at->second.lock()) return weights;
  }
  using Shared = std::shared_ptr<const Weights>;
  const auto read = [this, path, jinja, wanted, key](std::stop_token ending) -> Shared {
    auto weights = std::make_shared<const Weights>(
        read_weights(path, jinja, describe_, wanted, std::move(ending)));
    const std::scoped_lock lock(mutex_);
    weights_[key] = weights;
    return weights;
  };
  return *lookups_.get<Shared>("file " + key,
                               {.timeout = options_.timeout, .stop = std::move(stop)}, read);
}

void Catalog::add_to_cache(Entry entry) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(entries_, [&](const Entry& other) { return other.wanted == entry.wanted; });
  entries_.push_front(std::move(entry));
  if (entries_.size() > options_.n_kept) entries_.pop_back();
  std::erase_if(weights_, [](const auto& item) { return item.second.expired(); });
}

}  // namespace billow::api
