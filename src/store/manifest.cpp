#include "store/manifest.h"

#include <array>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/one_line.h"
#include "store/json_text.h"

namespace billow::store {
namespace {

// The string fields of the config, in the order of writing. `always`: written even if empty.
struct TextField {
  const char* key;
  std::string Config::* member;
  bool always;
};
constexpr std::array<TextField, 11> kTextFields{{
    {"model_format", &Config::model_format, true},
    {"model_family", &Config::model_family, true},
    {"model_type", &Config::model_type, true},
    {"file_type", &Config::file_type, true},
    {"renderer", &Config::renderer, false},
    {"parser", &Config::parser, false},
    {"requires", &Config::requires_version, false},
    {"remote_host", &Config::remote_host, false},
    {"remote_model", &Config::remote_model, false},
    {"base_name", &Config::base_name, false},
    {"template_from", &Config::template_from, false},
}};

constexpr size_t kMaxShownBytes = 100;  // of an invalid digest

Layer read_layer(const Json& json, const std::string& origin) {
  Layer layer;
  layer.media_type = string_field(json, "mediaType", origin);
  const std::string digest = string_field(json, "digest", origin);
  const auto parsed = Digest::parse(digest);
  if (!parsed) {
    throw Error(ErrorCode::kInvalidInput,
                origin + ": \"" + one_line(digest, kMaxShownBytes) + "\" is not a digest");
  }
  layer.digest = *parsed;
  layer.size_bytes = count_field(json, "size", origin);
  layer.from = string_field(json, "from", origin);
  layer.name = string_field(json, "name", origin);
  return layer;
}

Json layer_json(const Layer& layer) {
  Json json = {
      {"mediaType", layer.media_type}, {"digest", layer.digest.text()}, {"size", layer.size_bytes}};
  if (!layer.from.empty()) json["from"] = layer.from;
  if (!layer.name.empty()) json["name"] = layer.name;
  return json;
}

void check_total(const Manifest& manifest, const std::string& origin) {
  uint64_t left = std::numeric_limits<int64_t>::max();
  const auto take = [&](const Layer& layer) {
    if (layer.size_bytes > left) {
      throw Error(ErrorCode::kInvalidInput, origin + ": the sizes of its layers are too large");
    }
    left -= layer.size_bytes;
  };
  take(manifest.config);
  for (const Layer& layer : manifest.layers) take(layer);
}

}  // namespace

uint64_t Manifest::total_bytes() const noexcept {
  uint64_t total = config.size_bytes;
  for (const Layer& layer : layers) total += layer.size_bytes;
  return total;
}

std::vector<Digest> Manifest::digests() const {
  std::vector<Digest> all;
  for (const Layer& layer : layers) all.push_back(layer.digest);
  all.push_back(config.digest);
  return all;
}

Manifest parse_manifest(std::string_view text, const std::string& origin) {
  const Json json = parse_json(text, origin);
  if (count_field(json, "schemaVersion", origin) != 2) {
    throw Error(ErrorCode::kInvalidInput, origin + ": not a manifest of schema version 2");
  }
  Manifest manifest;
  manifest.media_type = string_field(json, "mediaType", origin);
  if (!json.contains("config") || !json["config"].is_object()) {
    throw Error(ErrorCode::kInvalidInput, origin + ": the manifest has no config");
  }
  manifest.config = read_layer(json["config"], origin);
  if (json.contains("layers") && !json["layers"].is_null()) {
    if (!json["layers"].is_array()) {
      throw Error(ErrorCode::kInvalidInput, origin + ": \"layers\" must be an array");
    }
    if (json["layers"].size() > kMaxLayers) {
      throw Error(ErrorCode::kInvalidInput,
                  origin + ": the manifest has " + std::to_string(json["layers"].size()) +
                      " layers; a model has at most " + std::to_string(kMaxLayers));
    }
    for (const Json& layer : json["layers"]) manifest.layers.push_back(read_layer(layer, origin));
  }
  check_total(manifest, origin);
  return manifest;
}

std::string to_text(const Manifest& manifest) {
  Json layers = Json::array();
  for (const Layer& layer : manifest.layers) layers.push_back(layer_json(layer));
  return compact({{"schemaVersion", 2},
                  {"mediaType", manifest.media_type},
                  {"config", layer_json(manifest.config)},
                  {"layers", std::move(layers)}});
}

Config parse_config(std::string_view text, const std::string& origin) {
  const Json json = parse_json(text, origin);
  Config config;
  for (const TextField& field : kTextFields) {
    config.*field.member = string_field(json, field.key, origin);
  }
  config.model_families = strings_field(json, "model_families", origin);
  config.capabilities = strings_field(json, "capabilities", origin);
  config.context_length = count_field(json, "context_length", origin);
  config.embedding_length = count_field(json, "embedding_length", origin);
  if (const auto draft = json.find("draft"); draft != json.end() && draft->is_object()) {
    config.draft_json = compact(*draft);
  }
  if (const auto rootfs = json.find("rootfs"); rootfs != json.end() && rootfs->is_object()) {
    config.diff_ids = strings_field(*rootfs, "diff_ids", origin);
  }
  return config;
}

std::string to_text(const Config& config) {
  Json json = Json::object();
  for (const TextField& field : kTextFields) {
    const std::string& value = config.*field.member;
    if (field.always || !value.empty()) json[field.key] = value;
    if (field.member == &Config::model_family) {
      json["model_families"] = config.model_families.empty() ? Json() : Json(config.model_families);
    }
  }
  if (!config.capabilities.empty()) json["capabilities"] = config.capabilities;
  if (config.context_length) json["context_length"] = config.context_length;
  if (config.embedding_length) json["embedding_length"] = config.embedding_length;
  if (!config.draft_json.empty()) json["draft"] = parse_json(config.draft_json, "draft");
  json["architecture"] = "amd64";
  json["os"] = "linux";
  json["rootfs"] = {{"type", "layers"}, {"diff_ids", config.diff_ids}};
  return compact(json);
}

}  // namespace billow::store
