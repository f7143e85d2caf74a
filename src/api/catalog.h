// The stored models as requests need them: names looked up, templates parsed, vocabularies loaded,
// costs known. What was looked up is kept while its files are the same, and so is what is wrong
// with a broken model. A request for one model never waits for the files of another. Any thread.
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
#include "output/format.h"
#include "prompt/capabilities.h"
#include "prompt/chat_template.h"
#include "prompt/go_template.h"
#include "scheduler/model_facts.h"
#include "store/model.h"
#include "tokenizer/tokenizer.h"

namespace billow::api {

// What the file of a model says, shared by all models made from it.
struct Weights {
  tokenizer::Tokenizer tokenizer;
  scheduler::ModelFacts facts;
  std::optional<prompt::ChatTemplate> jinja;  // absent: none, or one that does not compile
  std::string rerank_template{};  // with {query} and {document}; empty: the file has none
};

// A model ready to be asked. Immutable.
struct ServedModel {
  store::Model stored;
  std::string name;         // as shown: "llama3.2:1b"
  std::string full_name;    // "registry.ollama.ai/library/llama3.2:1b"
  std::string key;          // of its runner
  std::string label;        // what listings show of it while it is loaded: see store/show.h
  std::string projector{};  // path of the file that makes the model see; empty: none
  std::string draft{};      // path of the file of a draft model; empty: none that can be used
  std::shared_ptr<const Weights> weights;
  // With its adapters and its draft model; absent: it has none.
  std::optional<scheduler::ModelFacts> with_others{};
  store::PromptTraits::Source template_source = store::PromptTraits::Source::kNone;
  std::optional<prompt::GoTemplate> go;  // where it is that of the model
  std::vector<std::string> capabilities;
  Options options;        // that its Modelfile sets
  output::Format format;  // of what it writes

  bool can(std::string_view capability) const;
  // What runs it: for its key and its jobs.
  scheduler::EngineChoice engine() const;
  // What requests name: llama-server has its adapters from its start on.
  std::vector<std::string> adapters_of_request() const {
    return weights->facts.engine == scheduler::Engine::kOwn ? stored.adapters
                                                            : std::vector<std::string>();
  }
  // What it takes and can do, with its adapters and its draft model.
  const scheduler::ModelFacts& facts() const { return with_others ? *with_others : weights->facts; }
  size_t max_context() const { return weights->facts.max_context; }
};

struct CatalogOptions {
  prompt::GoTemplateUse go_templates = prompt::GoTemplateUse::kAuto;
  size_t n_kept = 16;  // models that are kept ready
  // So long a request waits for its model's files.
  std::chrono::milliseconds timeout = std::chrono::seconds(90);
  // So long a broken model is not looked at again, as long as its files are the same.
  std::chrono::milliseconds failure_time = std::chrono::seconds(10);
};

class Catalog {
 public:
  // The store outlives the catalog.
  Catalog(const store::Store& store, scheduler::DescribeModel describe,
          const CatalogOptions& options = {});

  // The model that a client means by `name`; null where there is none. Throws http::StatusError:
  // 400 "invalid model name", 403 for a name of a cloud, 500 where the model is broken or of a kind
  // that cannot be run, naming what is wrong, 503 where its files do not answer within `patience`,
  // or cancel() was called, 499 where `stop` is set meanwhile.
  std::shared_ptr<const ServedModel> find(std::string_view name, std::stop_token stop = {});
  std::shared_ptr<const ServedModel> find(std::string_view name, std::stop_token stop,
                                          std::chrono::milliseconds timeout);

  // Ends all waits, and the programs that describe models. Nothing can be looked up any more.
  void cancel() { lookups_.cancel(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Found = std::shared_ptr<const ServedModel>;
  // The files of a model as they were when it was read.
  struct Version {
    std::string manifest_path;
    std::optional<store::FileStatus> manifest;
    std::string weights_path;  // empty: not known
    std::optional<store::FileStatus> weights;
  };
  struct Entry {
    std::string wanted;  // the name as clients write it
    Version version;
    Found model;
  };
  struct Failure {
    Version version;
    int status = 0;
    std::string text;
    Clock::time_point until;
  };
  Found kept(const std::string& wanted, std::stop_token stop);
  // The rest runs on threads of `lookups_`.
  Found look_up(const store::Name& name, const std::string& wanted, std::stop_token stop);
  Found load(const store::Name& spelled, Version& version, std::stop_token stop);
  void take_draft(ServedModel& model, const store::Model& stored, scheduler::EngineChoice& wanted,
                  const std::stop_token& stop);
  std::shared_ptr<const Weights> weights_of(const std::string& path, const std::string& jinja,
                                            const scheduler::EngineChoice& wanted,
                                            std::stop_token stop);
  void keep(Entry entry);
  void rethrow_failure(const std::string& manifest_path);
  void remember_failure(const Version& version, int status, const std::string& text);

  const store::Store& store_;
  const scheduler::DescribeModel describe_;
  const CatalogOptions options_;
  std::mutex mutex_;          // never held while a file is touched
  std::list<Entry> entries_;  // the latest used first
  // Loaded files by path, engine and projector, as long as somebody uses them.
  std::unordered_map<std::string, std::weak_ptr<const Weights>> weights_;
  std::unordered_map<std::string, Failure> failures_;  // by the manifest's path
  Lookups lookups_;                                    // uses all of the above
};

}  // namespace billow::api
