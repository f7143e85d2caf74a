// Looks up stored models for requests: resolves the name, parses the templates, loads the
// vocabulary and computes the cost. The catalog caches models, and the errors of broken models,
// until their files change. A request for one model never waits for the files of another.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/generation.h"
#include "api/lookups.h"
#include "api/model_pictures.h"
#include "api/template_rules.h"
#include "output/format.h"
#include "prompt/capabilities.h"
#include "prompt/chat_template.h"
#include "prompt/go_template.h"
#include "scheduler/model_facts.h"
#include "store/model.h"
#include "tokenizer/tokenizer.h"

namespace billow::api {

// The contents of a model file. All models made from this file share it.
struct Weights {
  tokenizer::Tokenizer tokenizer;
  scheduler::ModelFacts facts;
  std::optional<ModelPictures> pictures;      // absent: the model takes no pictures
  std::optional<prompt::ChatTemplate> jinja;  // absent if there is none, or if it does not compile
  std::string rerank_template{};  // has {query} and {document}; empty if the file has none
};

// A model that can answer requests. Immutable.
struct ServedModel {
  store::Model stored;
  std::string name;         // displayed: "llama3.2:1b"
  std::string full_name;    // "registry.ollama.ai/library/llama3.2:1b"
  std::string key;          // identifies its runner
  std::string label;        // shown in lists of loaded models: see store/show.h
  std::string projector{};  // path of the projector file for images; empty: none
  std::string draft{};      // path of a draft model's file; empty: no usable one
  std::shared_ptr<const Weights> weights;
  // Facts that include its adapters and draft model; absent if it has neither.
  std::optional<scheduler::ModelFacts> with_others{};
  store::PromptTraits::Source template_source = store::PromptTraits::Source::kNone;
  std::optional<prompt::GoTemplate> go;  // if template_source is kModel
  TemplateRules rules{};                 // of the template that renders its conversations
  std::vector<std::string> capabilities;
  Options options;        // set by its Modelfile
  output::Format format;  // of its output

  bool can(std::string_view capability) const;
  // Returns what runs the model; part of its key and of its jobs.
  scheduler::EngineChoice engine() const;
  // Returns the adapters that each request must name. llama-server loads its adapters at startup,
  // so requests to it name none.
  std::vector<std::string> adapters_of_request() const {
    return weights->facts.engine == scheduler::Engine::kOwn ? stored.adapters
                                                            : std::vector<std::string>();
  }
  // Returns the model's memory needs and abilities, including its adapters and draft model.
  const scheduler::ModelFacts& facts() const { return with_others ? *with_others : weights->facts; }
  size_t max_context() const { return weights->facts.max_context; }
};

struct CatalogOptions {
  prompt::GoTemplateUse go_templates = prompt::GoTemplateUse::kAuto;
  size_t n_kept = 16;  // max number of cached models
  // Max wait of a request for its model's files.
  std::chrono::milliseconds timeout = std::chrono::seconds(90);
  // How long the catalog caches the error of a broken model whose files do not change, and a model
  // that lacks features because one of its files could not be read.
  std::chrono::milliseconds failure_time = std::chrono::seconds(10);
};

class Catalog {
 public:
  // REQUIRES: the store outlives the catalog.
  Catalog(const store::Store& store, scheduler::DescribeModel describe,
          const CatalogOptions& options = {});

  // Returns the model that `name` means for a client, or null if there is none. Throws
  // http::StatusError:
  // - 400 "invalid model name", or a model that generates images
  // - 403 for the name of a cloud model
  // - 500 with the reason if the model is broken or of an unsupported kind
  // - 503 if its files do not answer within `timeout`, memory is short, or cancel() was called
  // - 499 if `stop` is set while the caller waits
  std::shared_ptr<const ServedModel> find(std::string_view name, std::stop_token stop = {});
  std::shared_ptr<const ServedModel> find(std::string_view name, std::stop_token stop,
                                          std::chrono::milliseconds timeout);

  // Ends all waits and the programs that describe models. All later lookups fail.
  void cancel() { lookups_.cancel(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Found = std::shared_ptr<const ServedModel>;
  // The files of a model at the time when the catalog read them.
  struct Version {
    std::string manifest_path;
    std::optional<store::FileStatus> manifest;
    std::string weights_path;  // empty: unknown
    std::optional<store::FileStatus> weights;
    bool is_complete = true;  // false: a file of the model could not be read
  };
  struct Entry {
    std::string wanted;  // the name as written by clients
    Version version;
    Found model;
    Clock::time_point until;  // then the model is read again
  };
  struct Failure {
    Version version;
    int status = 0;
    std::string text;
    Clock::time_point until;
  };
  Found cached(const std::string& wanted, std::stop_token stop);
  // The functions below run on threads of `lookups_`.
  Found look_up(const store::Name& name, const std::string& wanted, std::stop_token stop);
  // Loads the model. If a new version replaces it and its files are removed in the meantime, starts
  // over once.
  Found load_current(const store::Name& spelled, Version& version, std::stop_token stop);
  Found load(const store::Name& spelled, Version& version, std::stop_token stop);
  void take_draft(ServedModel& model, const store::Model& stored, scheduler::EngineChoice& wanted,
                  const std::stop_token& stop);
  std::shared_ptr<const Weights> weights_of(const std::string& path, const std::string& jinja,
                                            const scheduler::EngineChoice& wanted,
                                            std::stop_token stop);
  void add_to_cache(Entry entry);
  void rethrow_failure(const std::string& manifest_path);
  void remember_failure(const Version& version, int status, const std::string& text);

  const store::Store& store_;
  const scheduler::DescribeModel describe_;
  const CatalogOptions options_;
  std::mutex mutex_;          // never held during file access
  std::list<Entry> entries_;  // most recently used first
  // Loaded files that are still in use, by path, engine and projector.
  std::unordered_map<std::string, std::weak_ptr<const Weights>> weights_;
  std::unordered_map<std::string, Failure> failures_;  // by path of the manifest
  Lookups lookups_;                                    // uses all members above
};

}  // namespace billow::api
