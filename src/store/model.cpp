#include "store/model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "store/json_text.h"

namespace billow::store {
namespace {

// Returns the facts of a GGUF file; nullopt if the file is not readable as GGUF.
std::optional<GgufFacts> read_facts(const std::string& path) {
  if (path.empty()) return std::nullopt;
  try {
    return facts_of(gguf::File::open_header(path, gguf::StringArrays::kSkipped));
  } catch (const Error& error) {
    log::warn(error.what());
    return std::nullopt;
  }
}

bool is_unknown(const std::string& text) { return text.empty() || text == "unknown"; }

Details details_of(const Config& config) {
  return {.parent_model = "",
          .format = config.model_format,
          .family = config.model_family,
          .families = config.model_families,
          .parameter_size = config.model_type,
          .quantization_level = config.file_type,
          .context_length = config.context_length,
          .embedding_length = config.embedding_length};
}

bool says_too_little(const Details& details) {
  return is_unknown(details.quantization_level) || details.parameter_size.empty() ||
         details.family.empty() || details.context_length == 0 || details.embedding_length == 0;
}

void fill_in(Details& details, const GgufFacts& facts) {
  if (details.format.empty()) details.format = "gguf";
  if (details.family.empty()) details.family = facts.architecture;
  if (details.families.empty() && !details.family.empty()) details.families = {details.family};
  if (details.parameter_size.empty()) details.parameter_size = human_count(facts.n_parameters);
  if (is_unknown(details.quantization_level)) details.quantization_level = facts.quantization;
  if (!details.context_length) details.context_length = facts.context_length;
  if (!details.embedding_length) details.embedding_length = facts.embedding_length;
}

// Copies the content of layers into a model. Reads each text once; the total size of texts is
// limited.
class LayerReader {
 public:
  LayerReader(const Store& store, Model& model) : store_(store), model_(model) {}
  void take(const Layer& layer);

 private:
  std::string path(const Layer& layer) const { return store_.blob_path(layer.digest); }
  std::string text(const Layer& layer) {
    std::string bytes = store_.read_blob(layer.digest, n_bytes_left_);
    n_bytes_left_ -= bytes.size();
    return bytes;
  }

  const Store& store_;
  Model& model_;
  uint64_t n_bytes_left_ = kMaxTextBytes;
  std::set<std::pair<std::string, Digest>> taken_;
};

void LayerReader::take(const Layer& layer) {
  const std::string& type = layer.media_type;
  if (!taken_.emplace(type, layer.digest).second) return;
  if (type == kModelLayer) {
    if (!model_.weights.empty()) return;
    model_.weights = path(layer);
    model_.details.parent_model = layer.from;
  } else if (type == kProjectorLayer) {
    model_.projectors.push_back(path(layer));
  } else if (type == kAdapterLayer) {
    model_.adapters.push_back(path(layer));
  } else if (type == kDraftLayer) {
    model_.draft = path(layer);
  } else if (type == kTemplateLayer || type == kPromptLayer) {
    if (type == kTemplateLayer || model_.template_text.empty()) model_.template_text = text(layer);
  } else if (type == kSystemLayer) {
    model_.system = text(layer);
  } else if (type == kLicenseLayer) {
    model_.licenses.push_back(text(layer));
  } else if (type == kParamsLayer) {
    const Json params = parse_json(text(layer), path(layer));
    if (!params.is_object() && !params.is_null()) {
      throw Error(ErrorCode::kInvalidInput, path(layer) + ": the parameters are not a JSON object");
    }
    if (params.is_object()) model_.params_json = compact(params);
  } else if (type == kMessagesLayer) {
    model_.messages = parse_messages(text(layer), path(layer));
  }
}

Model loaded(const Store& store, StoredModel stored) {
  Model model;
  model.stored = std::move(stored);
  const Digest& config = model.stored.manifest.config.digest;
  model.config = parse_config(store.read_blob(config, kMaxConfigBytes), store.blob_path(config));
  model.details = details_of(model.config);
  LayerReader reader(store, model);
  for (const Layer& layer : model.stored.manifest.layers) reader.take(layer);
  model.weights_facts = read_facts(model.weights);
  if (!model.projectors.empty()) model.projector_facts = read_facts(model.projectors.front());
  if (model.weights_facts) fill_in(model.details, *model.weights_facts);
  return model;
}

}  // namespace

std::vector<Message> parse_messages(std::string_view text, const std::string& origin) {
  const Json json = parse_json(text, origin);
  std::vector<Message> messages;
  if (json.is_null()) return messages;
  if (!json.is_array()) throw Error(ErrorCode::kInvalidInput, origin + ": messages must be a list");
  for (const Json& message : json) {
    Message& added = messages.emplace_back(
        Message{string_field(message, "role", origin), string_field(message, "content", origin)});
    if (message.contains("thinking")) added.thinking = string_field(message, "thinking", origin);
    const auto images = message.find("images");
    if (images == message.end() || images->is_null()) continue;
    for (const Json& image : images->is_array() ? *images : Json::array({*images})) {
      std::optional<std::string> bytes =
          image.is_string() ? base64_decoded(image.get_ref<const std::string&>()) : std::nullopt;
      if (!bytes)
        throw Error(ErrorCode::kInvalidInput, origin + ": images must be a list of base64 texts");
      added.images.push_back(*std::move(bytes));
    }
  }
  return messages;
}

std::string to_text(const std::vector<Message>& messages) {
  Json json = Json::array();
  for (const Message& message : messages) {
    Json& added = json.emplace_back(Json{{"role", message.role}, {"content", message.content}});
    if (!message.thinking.empty()) added["thinking"] = message.thinking;
    for (const std::string& image : message.images)
      added["images"].push_back(base64_encoded(image));
  }
  return compact(json);
}

std::optional<Model> load_model(const Store& store, const Name& name) {
  constexpr int kMaxLoads = 3;
  std::optional<StoredModel> stored = store.find(name);
  for (int n_loads = 1; stored; ++n_loads) {
    const Digest digest = stored->digest;
    std::optional<Model> model;
    std::optional<Error> failure;
    try {
      model = loaded(store, *std::move(stored));
      if (has_all_facts(*model)) return model;
    } catch (const Error& error) {
      failure = error;
    }
    stored = store.find(name);
    if (stored && (stored->digest == digest || n_loads == kMaxLoads)) {
      if (failure) throw Error(*failure);
      return model;
    }
  }
  return std::nullopt;
}

bool has_all_facts(const Model& model) {
  return (model.weights.empty() || model.weights_facts) &&
         (model.projectors.empty() || model.projector_facts);
}

Details details_of(const Store& store, const StoredModel& stored) {
  const Digest& config = stored.manifest.config.digest;
  Details details =
      details_of(parse_config(store.read_blob(config, kMaxConfigBytes), store.blob_path(config)));
  const auto weights = std::ranges::find(stored.manifest.layers, kModelLayer, &Layer::media_type);
  if (weights == stored.manifest.layers.end()) return details;
  details.parent_model = weights->from;
  if (!says_too_little(details)) return details;
  if (const auto facts = read_facts(store.blob_path(weights->digest))) fill_in(details, *facts);
  return details;
}

bool lacks_template(const Model& model, const PromptTraits& traits) {
  return traits.source == PromptTraits::Source::kNone && model.weights_facts &&
         !model.weights_facts->has_pooling;
}

std::vector<std::string> capabilities(const Model& model, const PromptTraits& traits) {
  std::vector<std::string> found;
  const auto add = [&](const char* capability, bool has) {
    if (has && std::ranges::find(found, capability) == found.end()) found.emplace_back(capability);
  };
  for (const std::string& capability : model.config.capabilities) add(capability.c_str(), true);
  const GgufFacts none;
  const GgufFacts& weights = model.weights_facts ? *model.weights_facts : none;
  const GgufFacts& projector = model.projector_facts ? *model.projector_facts : none;
  const bool makes_images = std::ranges::find(found, "image") != found.end();
  const bool is_of_file = traits.source == PromptTraits::Source::kFile;
  add("tools", is_of_file && traits.tools);
  add("thinking", is_of_file && traits.thinking);
  add("completion", model.weights_facts ? !weights.has_pooling : !makes_images);
  add("embedding", weights.has_pooling);
  add("vision", weights.has_vision || projector.has_vision);
  add("audio", weights.has_audio || projector.has_audio);
  add("tools", traits.tools);
  add("insert", traits.insert);
  const std::string& family = model.details.family;
  add("thinking", traits.thinking || family == "gptoss" || family == "gpt-oss");
  return found;
}

}  // namespace billow::store
