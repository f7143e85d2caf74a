// Manifests list the blobs of a model, and config blobs describe the model. Parsing checks every
// field. Writing always produces the same bytes. Plain data; thread-safe.
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

// The media types of layers. Layers of other types are kept but not used.
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
  std::string from;  // source model or file, or empty
  std::string name;  // tensor or file of a safetensors model, or empty
};

struct Manifest {
  std::string media_type{kManifestType};
  Layer config;
  std::vector<Layer> layers;

  // Returns the bytes of all layers and the config. At most 2^63 - 1 in a parsed manifest.
  uint64_t total_bytes() const noexcept;
  // Returns every referenced blob, the config last.
  std::vector<Digest> digests() const;
};

// More than any model has. Models of safetensors have one layer for each tensor.
inline constexpr size_t kMaxLayers = 16384;
inline constexpr uint64_t kMaxManifestBytes = uint64_t{8}
                                              << 20;  // enough for a model with kMaxLayers layers
inline constexpr uint64_t kMaxConfigBytes = uint64_t{8} << 20;

// Parses a manifest. Throws Error (kInvalidInput) if `text` is not a manifest or has more than
// kMaxLayers layers. The error text begins with `origin`, the file's path.
Manifest parse_manifest(std::string_view text, const std::string& origin);
std::string to_text(const Manifest& manifest);

// A value of Config::template_from.
inline constexpr std::string_view kTemplateOfUser = "user";

// The config blob of a model. Empty strings, empty lists and zeros are missing fields. Older
// configs lack many fields.
struct Config {
  std::string model_format;  // "gguf", "safetensors"
  std::string model_family;  // the architecture
  std::vector<std::string> model_families;
  std::string model_type;  // readable parameter count: "3.2B"
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
  // kTemplateOfUser if a user set the template. Then this template is used even if the GGUF file
  // has one. Only Billow uses this field; other programs ignore it.
  std::string template_from;
  std::string draft_json;  // JSON object of a draft model, compact
  std::vector<std::string> diff_ids;
};

// See parse_manifest().
Config parse_config(std::string_view text, const std::string& origin);
std::string to_text(const Config& config);

}  // namespace billow::store
