#include "store/model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "store/json_text.h"

namespace billow::store {
namespace {

// The facts of the GGUF file, if it is one.
std::optional<GgufFacts> read_facts(const std::string& path) {
  if (path.empty()) return std::nullopt;
  try {
    return facts_of(gguf::File::open(path));
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

// Puts what one layer holds where it belongs.
void take_layer(const Store& store, const Layer& layer, Model& model) {
  const std::string& type = layer.media_type;
  const auto path = [&] { return store.blob_path(layer.digest); };
  const auto text = [&] { return store.read_blob(layer.digest); };
  if (type == kModelLayer) {
    if (!model.weights.empty()) return;
    model.weights = path();
    model.details.parent_model = layer.from;
  } else if (type == kProjectorLayer) {
    model.projectors.push_back(path());
  } else if (type == kAdapterLayer) {
    model.adapters.push_back(path());
  } else if (type == kDraftLayer) {
    model.draft = path();
  } else if (type == kTemplateLayer || type == kPromptLayer) {
    if (type == kTemplateLayer || model.template_text.empty()) model.template_text = text();
  } else if (type == kSystemLayer) {
    model.system = text();
  } else if (type == kLicenseLayer) {
    model.licenses.push_back(text());
  } else if (type == kParamsLayer) {
    const Json params = parse_json(text(), path());
    if (!params.is_object() && !params.is_null()) {
      throw Error(ErrorCode::kInvalidInput, path() + ": parameters that are no JSON object");
    }
    if (params.is_object()) model.params_json = compact(params);
  } else if (type == kMessagesLayer) {
    model.messages = parse_messages(text(), path());
  }
}

}  // namespace

std::vector<Message> parse_messages(std::string_view text, const std::string& origin) {
  const Json json = parse_json(text, origin);
  std::vector<Message> messages;
  if (json.is_null()) return messages;
  if (!json.is_array()) throw Error(ErrorCode::kInvalidInput, origin + ": messages must be a list");
  for (const Json& message : json) {
    messages.push_back(
        {string_field(message, "role", origin), string_field(message, "content", origin)});
  }
  return messages;
}

std::string to_text(const std::vector<Message>& messages) {
  Json json = Json::array();
  for (const Message& message : messages) {
    json.push_back({{"role", message.role}, {"content", message.content}});
  }
  return compact(json);
}

std::optional<Model> load_model(const Store& store, const Name& name) {
  auto stored = store.find(name);
  if (!stored) return std::nullopt;
  Model model;
  model.stored = std::move(*stored);
  const Digest& config = model.stored.manifest.config.digest;
  model.config = parse_config(store.read_blob(config), store.blob_path(config));
  model.details = details_of(model.config);
  for (const Layer& layer : model.stored.manifest.layers) take_layer(store, layer, model);
  model.weights_facts = read_facts(model.weights);
  if (!model.projectors.empty()) model.projector_facts = read_facts(model.projectors.front());
  if (model.weights_facts) fill_in(model.details, *model.weights_facts);
  return model;
}

Details details_of(const Store& store, const StoredModel& stored) {
  const Digest& config = stored.manifest.config.digest;
  Details details = details_of(parse_config(store.read_blob(config), store.blob_path(config)));
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
