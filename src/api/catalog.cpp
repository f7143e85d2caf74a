#include "api/catalog.h"

#include <algorithm>
#include <future>
#include <utility>

#include "api/model_traits.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "gguf/file.h"
#include "http/status.h"
#include "scheduler/messages.h"
#include "store/folder.h"
#include "store/show.h"

namespace billow::api {
namespace {

using http::StatusError;

// Absent for a template that does not compile: traits_of() says so in the log.
std::optional<prompt::ChatTemplate> compiled(const std::string& source) {
  if (source.empty()) return std::nullopt;
  try {
    return prompt::ChatTemplate(source);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string manifest_path(const store::Store& store, const store::Name& name) {
  return store.folder() + "/manifests/" + store::manifest_path(name);
}

// The file's vocabulary and, from the program that would run it, its facts, at the same time.
Weights read_weights(const std::string& path, const std::string& jinja,
                     const scheduler::DescribeModel& describe) {
  std::future<scheduler::ModelFacts> facts =
      std::async(std::launch::async, [&] { return describe(path); });
  tokenizer::Tokenizer tokenizer = tokenizer::Tokenizer::load(gguf::File::open(path));
  return {std::move(tokenizer), facts.get(), compiled(jinja)};
}

}  // namespace

bool ServedModel::can(std::string_view capability) const {
  return std::ranges::find(capabilities, capability) != capabilities.end();
}

Catalog::Catalog(const store::Store& store, scheduler::DescribeModel describe,
                 const CatalogOptions& options)
    : store_(store), describe_(std::move(describe)), options_(options) {}

std::shared_ptr<const ServedModel> Catalog::find(std::string_view name) {
  const std::string wanted(trimmed(name));
  if (auto model = kept(wanted)) return model;
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
  const std::scoped_lock lock(loading_);
  if (auto model = kept(wanted)) return model;  // another request has loaded it meanwhile
  return load(*parsed, wanted);
}

std::shared_ptr<const ServedModel> Catalog::kept(const std::string& wanted) {
  const std::scoped_lock lock(mutex_);
  const auto at = std::ranges::find(entries_, wanted, &Entry::wanted);
  if (at == entries_.end()) return nullptr;
  const std::optional<store::FileStatus> now = store::file_status(at->manifest_path);
  if (!now || now->modified != at->status.modified || now->size_bytes != at->status.size_bytes) {
    entries_.erase(at);
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, at);
  return at->model;
}

std::shared_ptr<const ServedModel> Catalog::load(const store::Name& name,
                                                 const std::string& wanted) {
  const store::Name spelled = store_.resolve(name);
  const std::string path = manifest_path(store_, spelled);
  const std::optional<store::FileStatus> status = store::file_status(path);
  std::optional<store::Model> stored;
  if (status) stored = store::load_model(store_, spelled);
  if (!stored) return nullptr;
  auto model = std::make_shared<ServedModel>();
  model->name = store::display_name(stored->stored.name);
  model->full_name = store::full_name(stored->stored.name);
  if (std::ranges::find(stored->config.capabilities, "image") != stored->config.capabilities.end())
    throw StatusError(400, "image generation models are not currently supported");
  if (!stored->config.remote_host.empty() || stored->weights.empty())
    throw StatusError(403, "ollama cloud is disabled: remote model is unavailable");
  if (!stored->adapters.empty())
    throw StatusError(500, "model '" + model->name + "' has an adapter, which is not supported");
  model->key = scheduler::runner_key({.path = stored->weights});
  const std::string jinja = stored->weights_facts ? stored->weights_facts->chat_template : "";
  model->weights = weights_of(stored->weights, jinja);
  const store::PromptTraits traits = traits_of(*stored, options_.go_templates);
  model->template_source = traits.source;
  if (traits.source == store::PromptTraits::Source::kModel) model->go.emplace(traits.text);
  if (store::lacks_template(*stored, traits))
    log::warn(model->name + ": " + std::string(store::kNoTemplateWarning));
  model->capabilities = store::capabilities(*stored, traits);
  model->label = store::loaded_label(*stored);
  model->stored = std::move(*stored);
  keep({wanted, path, *status, model});
  return model;
}

std::shared_ptr<const Weights> Catalog::weights_of(const std::string& path,
                                                   const std::string& jinja) {
  {
    const std::scoped_lock lock(mutex_);
    const auto at = weights_.find(path);
    if (at != weights_.end())
      if (auto weights = at->second.lock()) return weights;
  }
  try {
    auto weights = std::make_shared<const Weights>(read_weights(path, jinja, describe_));
    const std::scoped_lock lock(mutex_);
    weights_[path] = weights;
    return weights;
  } catch (const Error& error) {
    throw StatusError(500, error.what());
  }
}

void Catalog::keep(Entry entry) {
  const std::scoped_lock lock(mutex_);
  entries_.push_front(std::move(entry));
  if (entries_.size() > options_.n_kept) entries_.pop_back();
  std::erase_if(weights_, [](const auto& item) { return item.second.expired(); });
}

}  // namespace billow::api
