// Lists the stored models. The details of a model are read once and cached by its digest, because
// its files do not change. Thread-safe. REQUIRES: the store outlives this object.
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

  // Returns {"models":[...]}, newest first. Omits models that cannot be read or do not answer, and
  // logs them.
  Json json();

 private:
  // The details that all names of a model share; null if the model cannot be read.
  using Facts = std::shared_ptr<const Json>;
  Facts read(const store::StoredModel& stored) const;
  Facts cached(const store::Digest& digest);

  struct Item {
    store::StoredModel stored;
    Facts facts;
  };
  std::optional<Item> item(const store::Name& name);

  const std::shared_ptr<StoredModels> models_;
  const prompt::GoTemplateUse go_templates_;
  std::mutex mutex_;
  std::map<store::Digest, Facts> cached_;  // of the models in the latest list
};

}  // namespace billow::api::ollama
