// For tests: puts small models into a store, and checks that a store is consistent. One thread at a
// time.
#pragma once

#include <string>
#include <string_view>

#include "store/store.h"

namespace billow::store {

inline Name named(std::string_view text) { return parse_name(text).value(); }

// Returns a manifest of `weights`, a system text that all samples have, and a config. Adds its
// blobs to the store.
inline Manifest add_sample(Store& store, const std::string& weights) {
  Manifest manifest;
  manifest.layers.push_back(store.add_layer(kModelLayer, weights));
  manifest.layers.push_back(store.add_layer(kSystemLayer, "shared by all"));
  Config config;
  config.model_format = "gguf";
  config.model_family = "of " + weights;
  manifest.config = store.add_layer(kConfigType, to_text(config));
  return manifest;
}

inline Name put_sample(Store& store, const std::string& name, const std::string& weights) {
  return store.put(named(name), add_sample(store, weights));
}

// Returns the weights of a model of put_sample(), or "" if it does not exist.
inline std::string sample_weights(const Store& store, const std::string& name) {
  const auto model = store.find(named(name));
  return model ? store.read_blob(model->manifest.layers.at(0).digest) : "";
}

// Returns the name of a model that lacks a blob or has a blob with a wrong digest; "" if there is
// no such model.
inline std::string unsound_model(const Store& store) {
  for (const StoredModel& model : store.list()) {
    for (const Digest& digest : model.manifest.digests()) {
      if (!store.has_blob(digest)) return display_name(model.name) + " lacks " + digest.text();
      if (digest_of_file(store.blob_path(digest)) != digest) return display_name(model.name);
    }
  }
  return "";
}

}  // namespace billow::store
