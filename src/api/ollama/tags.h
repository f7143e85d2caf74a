// The list of stored models. What a listing says of a model is read off its files once and kept
// under its digest, as files do not change. Refers to the store; any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "base/json_fwd.h"
#include "prompt/capabilities.h"
#include "store/store.h"

namespace billow::api::ollama {

class Tags {
 public:
  Tags(const store::Store& store, prompt::GoTemplateUse go_templates)
      : store_(store), go_templates_(go_templates) {}

  // {"models":[...]}, newest first. A model that cannot be read is left out, with a line in the
  // log.
  Json json();

 private:
  // What is the same for every name of the model; null when it cannot be read.
  using Facts = std::shared_ptr<const Json>;
  Facts read(const store::StoredModel& stored) const;

  const store::Store& store_;
  const prompt::GoTemplateUse go_templates_;
  std::mutex mutex_;
  std::map<store::Digest, Facts> known_;  // of the models of the last list
};

}  // namespace billow::api::ollama
