// Lists the stored models. The details of a model are read once and cached by its digest, because
// its files do not change. If a file cannot be read, the next listing tries again. Thread-safe.
// REQUIRES: the store outlives this object.
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

  // Returns {"models":[...]}, newest first. Omits models whose manifests cannot be read or whose
  // files do not answer, and logs them. A model with a broken config has empty details.
  Json json();

 private:
  // The details that all names of a model share.
  using Facts = std::shared_ptr<const Json>;
  struct Item {
    store::StoredModel stored;
    Facts facts;
    bool is_complete = true;  // false: a file of the model could not be read
  };
  std::optional<Item> read(store::StoredModel stored) const;
  Facts cached(const store::Digest& digest);
  std::optional<Item> item(const store::Name& name);

  const std::shared_ptr<StoredModels> models_;
  const prompt::GoTemplateUse go_templates_;
  std::mutex mutex_;
  std::map<store::Digest, Facts> cached_;  // of the models in the latest list
};

}  // namespace billow::api::ollama
