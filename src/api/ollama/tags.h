// The list of stored models. What a listing says of a model is read off its files once and kept
// under its digest, as files do not change. Refers to the store; any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "api/stored_models.h"
#include "base/json_fwd.h"
#include "prompt/capabilities.h"
#include "store/store.h"

namespace billow::api::ollama {

class Tags {
 public:
  Tags(std::shared_ptr<StoredModels> models, prompt::GoTemplateUse go_templates)
      : models_(std::move(models)), go_templates_(go_templates) {}

  // {"models":[...]}, newest first. A model that cannot be read or does not answer is left out,
  // with a line in the log.
  Json json();

 private:
  // What is the same for every name of the model; null when it cannot be read.
  using Facts = std::shared_ptr<const Json>;
  Facts read(const store::StoredModel& stored) const;
  Facts known(const store::Digest& digest);

  struct Item {
    store::StoredModel stored;
    Facts facts;
  };
  std::optional<Item> item(const store::Name& name);

  const std::shared_ptr<StoredModels> models_;
  const prompt::GoTemplateUse go_templates_;
  std::mutex mutex_;
  std::map<store::Digest, Facts> known_;  // of the models of the last list
};

}  // namespace billow::api::ollama
