// The stored models as requests need them: names looked up, templates parsed, vocabularies loaded,
// costs known. What was looked up is kept while its files are the same. Any thread.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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
};

// A model ready to be asked. Immutable.
struct ServedModel {
  store::Model stored;
  std::string name;       // as shown: "llama3.2:1b"
  std::string full_name;  // "registry.ollama.ai/library/llama3.2:1b"
  std::string key;        // of its runner
  std::string label;      // what listings show of it while it is loaded: see store/show.h
  std::shared_ptr<const Weights> weights;
  store::PromptTraits::Source template_source = store::PromptTraits::Source::kNone;
  std::optional<prompt::GoTemplate> go;  // where it is that of the model
  std::vector<std::string> capabilities;

  bool can(std::string_view capability) const;
  size_t max_context() const { return weights->facts.max_context; }
};

struct CatalogOptions {
  prompt::GoTemplateUse go_templates = prompt::GoTemplateUse::kAuto;
  size_t n_kept = 16;  // models that are kept ready
};

class Catalog {
 public:
  // The store outlives the catalog.
  Catalog(const store::Store& store, scheduler::DescribeModel describe,
          const CatalogOptions& options = {});

  // The model that a client means by `name`; null where there is none. Throws http::StatusError:
  // 400 "invalid model name", 403 for a name of a cloud, 500 where the model is broken or of a kind
  // that cannot be run, naming what is wrong.
  std::shared_ptr<const ServedModel> find(std::string_view name);

 private:
  struct Entry {
    std::string wanted;         // the name as clients write it
    std::string manifest_path;  // and what it was when it was read
    store::FileStatus status;
    std::shared_ptr<const ServedModel> model;
  };
  std::shared_ptr<const ServedModel> kept(const std::string& wanted);
  std::shared_ptr<const ServedModel> load(const store::Name& name, const std::string& wanted);
  std::shared_ptr<const Weights> weights_of(const std::string& path, const std::string& jinja);
  void keep(Entry entry);

  const store::Store& store_;
  const scheduler::DescribeModel describe_;
  const CatalogOptions options_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the latest used first
  // Loaded files, as long as somebody uses them.
  std::unordered_map<std::string, std::weak_ptr<const Weights>> weights_;
  std::mutex loading_;  // one file at a time: others want the same one, as a rule
};

}  // namespace billow::api
