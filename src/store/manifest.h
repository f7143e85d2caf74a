// Manifests, which say what a model is made of, and config blobs, which describe it: read with
// every field checked, written always with the same bytes. Plain data; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/digest.h"

namespace billow::store {

inline constexpr std::string_view kManifestType =
    "application/vnd.docker.distribution.manifest.v2+json";
inline constexpr std::string_view kConfigType = "application/vnd.docker.container.image.v1+json";

// The media types of layers. Layers of others are kept and mean nothing here.
inline constexpr std::string_view kModelLayer = "application/vnd.ollama.image.model";
inline constexpr std::string_view kProjectorLayer = "application/vnd.ollama.image.projector";
inline constexpr std::string_view kAdapterLayer = "application/vnd.ollama.image.adapter";
inline constexpr std::string_view kDraftLayer = "application/vnd.ollama.image.draft";
inline constexpr std::string_view kTemplateLayer = "application/vnd.ollama.image.template";
inline constexpr std::string_view kPromptLayer = "application/vnd.ollama.image.prompt";
inline constexpr std::string_view kSystemLayer = "application/vnd.ollama.image.system";
inline constexpr std::string_view kParamsLayer = "application/vnd.ollama.image.params";
inline constexpr std::string_view kMessagesLayer = "application/vnd.ollama.image.messages";
inline constexpr std::string_view kLicenseLayer = "application/vnd.ollama.image.license";

struct Layer {
  std::string media_type;
  Digest digest;
  uint64_t size_bytes = 0;
  std::string from;  // the model or file that it came from, or empty
  std::string name;  // of a tensor or file of a safetensors model, or empty
};

struct Manifest {
  std::string media_type{kManifestType};
  Layer config;
  std::vector<Layer> layers;

  // Of all layers and the config. Never more than 2^63 - 1 in a manifest that was read.
  uint64_t total_bytes() const noexcept;
  // Every blob that it refers to, the config last.
  std::vector<Digest> digests() const;
};

// More than any model has: those of safetensors have a layer for each tensor.
inline constexpr size_t kMaxLayers = 16384;
inline constexpr uint64_t kMaxManifestBytes = uint64_t{8} << 20;  // of such a model, with room
inline constexpr uint64_t kMaxConfigBytes = uint64_t{8} << 20;

// Throws Error (kInvalidInput) that begins with `origin`, the file's path, when `text` is no
// manifest or has more than kMaxLayers layers.
Manifest parse_manifest(std::string_view text, const std::string& origin);
std::string to_text(const Manifest& manifest);

// Of Config::template_from.
inline constexpr std::string_view kTemplateOfUser = "user";

// Empty strings, empty lists and zeros are absent fields; older configs lack most.
struct Config {
  std::string model_format;  // "gguf", "safetensors"
  std::string model_family;  // the architecture
  std::vector<std::string> model_families;
  std::string model_type;  // how many parameters, for people: "3.2B"
  std::string file_type;   // "Q4_K_M"
  std::string renderer;
  std::string parser;
  std::string requires_version;
  std::string remote_host;
  std::string remote_model;
  std::vector<std::string> capabilities;
  uint64_t context_length = 0;
  uint64_t embedding_length = 0;
  std::string base_name;
  // kTemplateOfUser where a user gave the template: it is used whatever template the GGUF file has.
  // Billow's own; others disregard it.
  std::string template_from;
  std::string draft_json;  // the object of a draft model, as compact JSON
  std::vector<std::string> diff_ids;
};

// As parse_manifest.
Config parse_config(std::string_view text, const std::string& origin);
std::string to_text(const Config& config);

}  // namespace billow::store
