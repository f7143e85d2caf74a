#include "store/create.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/regular_file.h"
#include "base/text.h"
#include "gguf/writer.h"
#include "store/adapter_file.h"
#include "store/create_check.h"
#include "store/create_config.h"
#include "store/gguf_facts.h"
#include "store/json_text.h"
#include "store/modelfile.h"
#include "store/parameters.h"
#include "store/split_files.h"

namespace billow::store {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidInput, message);
}
[[noreturn]] void not_yet(const std::string& message) {
  throw Error(ErrorCode::kUnsupported, message);
}

// The defaults of an architecture, used if the request and the base model do not define the prompt
// format.
struct Default {
  std::string_view architecture;
  bool is_prefix;
  const char* renderer;
  const char* parser;
  const char* stop;
};
constexpr std::array kDefaults{
    Default{"gemma4", false, "gemma4", "gemma4", "<turn|>"},
    Default{"laguna", false, "laguna", "laguna", nullptr},
    Default{"nemotron_h", true, "nemotron-3-nano", "nemotron-3-nano", nullptr},
};

const Default* find_default(std::string_view architecture) {
  const auto at = std::ranges::find_if(kDefaults, [&](const Default& known) {
    return known.is_prefix ? architecture.starts_with(known.architecture)
                           : architecture == known.architecture;
  });
  return at == kDefaults.end() ? nullptr : &*at;
}

// Returns the object of options; empty if the request has none.
Json parameters_of(const CreateRequest& request) {
  if (request.parameters_json.empty()) return Json::object();
  Json params = parse_json(request.parameters_json, "parameters");
  if (params.is_null()) return Json::object();
  check_options(params);
  return params;
}

// Files that may be unused after the creation. The destructor removes the files that no model
// needs.
class Leftovers {
 public:
  Leftovers(Store& store, const CreateRequest& request) : store_(store) {
    if (request.keep_files) return;
    const std::vector<NamedBlob> none;
    for (const auto* blobs :
         {request.files ? &*request.files : &none, &request.adapters, &request.draft_files})
      for (const NamedBlob& blob : *blobs) blobs_.push_back(Digest::parse(blob.digest).value());
  }
  ~Leftovers() { store_.remove_unused(blobs_); }
  // Adds an intermediate file.
  void add(const Digest& digest) { blobs_.push_back(digest); }
  Leftovers(const Leftovers&) = delete;
  Leftovers& operator=(const Leftovers&) = delete;

 private:
  Store& store_;
  std::vector<Digest> blobs_;
};

// The creation of one model.
class Creation {
 public:
  Creation(Store& store, const CreateHooks& hooks, Leftovers& leftovers)
      : store_(store), hooks_(hooks), leftovers_(leftovers), hold_(store) {}

  void begin_from(const std::string& from);
  void begin_from_files(const std::vector<NamedBlob>& files);
  // Replaces the projectors, after another begin.
  void replace_projectors(const std::vector<NamedBlob>& files);
  // Starts from files of the web, which are fetched first.
  void begin_from_web(const std::vector<WebFile>& files);
  // Starts from the files of a split, which are joined into one file.
  void begin_from_split(std::vector<NamedBlob> files);
  // Starts from safetensors files and their descriptions.
  void begin_from_conversion(const CreateRequest& request);
  // Quantizes the model's weights to the type.
  void quantize(const std::string& type);
  void add_adapter(const NamedBlob& blob);
  void add_adapters(const std::vector<NamedBlob>& blobs);
  void convert_adapter(const std::string& folder, const std::vector<const NamedBlob*>& blobs);
  // Sets the draft model, which replaces the draft of the base model.
  void set_draft(const NamedBlob& blob);
  // Returns the weights of a stored model under the model's name.
  NamedBlob weights_of(const std::string& model) const;
  void apply(const CreateRequest& request);
  Name finish(const Name& name);

 private:
  struct Part {
    Layer layer;
    bool created = false;
  };

  void report(const std::string& status) const {
    if (hooks_.progress) hooks_.progress(status);
  }
  bool has(std::string_view media_type) const {
    return std::ranges::any_of(
        parts_, [&](const Part& part) { return part.layer.media_type == media_type; });
  }
  // Holds the blob and returns its path. Throws Error if the blob is missing.
  std::string hold_blob(const NamedBlob& blob);
  GgufFacts parse_gguf(const NamedBlob& blob);
  void keep(const Layer& layer);
  void add_blob(std::string_view media_type, const NamedBlob& blob);
  void add_text(std::string_view media_type, std::string_view text);
  void replace(std::string_view media_type, std::string_view text);
  // Merges parameters. New values replace old values, unless `keep_old`.
  void merge_params(const Json& params, bool keep_old = false);
  void choose_prompt(const CreateRequest& request);
  void warn_of_no_template(const std::string& model) const;
  // Writes a layer. If the creation fails, the layer is removed.
  using Write = std::function<void(const ByteSink&)>;
  Part made(std::string_view media_type, const Write& write);
  Part converted(std::string_view media_type, const Conversion& conversion);
  GgufFacts facts_in(const Part& part) const;

  Store& store_;
  const CreateHooks& hooks_;
  Leftovers& leftovers_;
  Store::Hold hold_;
  std::vector<Part> parts_;
  uint64_t n_text_bytes_ = 0;
  Config config_;
  GgufFacts facts_;  // of the weights, if there are any
};

void Creation::keep(const Layer& layer) {
  hold_.add(layer.digest);
  if (!store_.has_blob(layer.digest))
    throw Error(ErrorCode::kNotFound, "blob " + layer.digest.text() + " does not exist");
  parts_.push_back({layer, false});
}

void Creation::add_text(std::string_view media_type, std::string_view text) {
  if (text.size() > kMaxTextBytes - n_text_bytes_) {
    throw Error(ErrorCode::kTooLarge, "the texts of the model have more than " +
                                          std::to_string(kMaxTextBytes >> 20) + " MiB");
  }
  n_text_bytes_ += text.size();
  hold_.add(digest_of(text));
  Part part;
  part.layer = store_.add_layer(media_type, text, &part.created);
  if (part.created) leftovers_.add(part.layer.digest);  // another text may replace it
  parts_.push_back(std::move(part));
}

void Creation::replace(std::string_view media_type, std::string_view text) {
  std::erase_if(parts_, [&](const Part& part) { return part.layer.media_type == media_type; });
  add_text(media_type, text);
}

void Creation::begin_from(const std::string& from) {
  const auto name = parse_name(from);
  if (!name) refuse("invalid model name");
  auto base = load_model(store_, *name);
  if (!base && hooks_.pull) {
    try {
      hooks_.pull(*name);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound) throw;
      throw Error(error.code(), "model '" + from + "' not found: " + error.what());
    }
    base = load_model(store_, *name);
  }
  if (!base) throw Error(ErrorCode::kNotFound, "model '" + from + "' not found");
  for (Layer layer : base->stored.manifest.layers) {
    layer.from = display_name(base->stored.name);
    keep(layer);
  }
  config_ = base->config;
  if (base->weights_facts) {
    facts_ = *base->weights_facts;
    if (config_.file_type == "unknown") config_.file_type.clear();
    describe(facts_, config_);
  }
}

std::string Creation::hold_blob(const NamedBlob& blob) {
  const Digest digest = Digest::parse(blob.digest).value();
  hold_.add(digest);
  if (!store_.has_blob(digest))
    throw Error(ErrorCode::kNotFound,
                blob.path + ": blob " + digest.text() + " does not exist; upload it first");
  return store_.blob_path(digest);
}

GgufFacts Creation::parse_gguf(const NamedBlob& blob) {
  const std::string path = hold_blob(blob);
  if (!begins_as_gguf(path)) {
    if (is_safetensors(blob)) not_yet("safetensors can only be a model's weights: " + blob.path);
    const bool has_suffix = blob.path.ends_with(".gguf");
    refuse(blob.path + (has_suffix ? ": supplied file was not in GGUF format" : ": unknown type"));
  }
  report("parsing GGUF");
  try {
    return facts_of(gguf::File::open_header(path, gguf::StringArrays::kSkipped));
  } catch (const Error& error) {
    throw with_name_of_file(error, path, blob.path);
  }
}

void Creation::add_blob(std::string_view media_type, const NamedBlob& blob) {
  const Digest digest = Digest::parse(blob.digest).value();
  const auto status = file_status(store_.blob_path(digest));
  if (!status) throw Error(ErrorCode::kNotFound, "blob " + digest.text() + " does not exist");
  parts_.push_back({{.media_type = std::string(media_type),
                     .digest = digest,
                     .size_bytes = status->size_bytes,
                     .from = "",
                     .name = ""},
                    false});
}

void Creation::begin_from_split(std::vector<NamedBlob> files) {
  std::ranges::sort(files, {}, &NamedBlob::path);
  std::vector<std::string> paths;
  for (const NamedBlob& blob : files) {
    if (split_prefix(blob.path) != split_prefix(files.front().path))
      refuse(files.front().path + " and " + blob.path + ": these are parts of different models");
    paths.push_back(hold_blob(blob));
  }
  report("joining " + std::to_string(files.size()) + " files");
  Part part;
  try {
    const gguf::File split = gguf::File::open_split_headers(paths);
    part = made(kModelLayer, [&](const ByteSink& sink) { joined_split(split).write_to(sink); });
  } catch (const Error& error) {
    for (size_t i = 0; i < paths.size(); ++i)
      if (std::string_view(error.what()).starts_with(paths[i]))
        throw with_name_of_file(error, paths[i], files[i].path);
    throw;
  }
  facts_ = facts_in(part);
  describe(facts_, config_);
  parts_.push_back(std::move(part));
}

void Creation::begin_from_files(const std::vector<NamedBlob>& files) {
  std::vector<NamedBlob> split;
  std::ranges::copy_if(files, std::back_inserter(split),
                       [](const NamedBlob& blob) { return is_part_of_split(blob.path); });
  if (!split.empty()) begin_from_split(std::move(split));
  std::vector<std::pair<const NamedBlob*, GgufFacts>> others;
  for (const NamedBlob& blob : files) {
    if (is_part_of_split(blob.path)) continue;
    GgufFacts facts = parse_gguf(blob);
    if (facts.is_projector() || facts.kind == "adapter") {
      others.emplace_back(&blob, std::move(facts));
      continue;
    }
    if (has(kModelLayer)) not_yet("a model of several weight files is not supported yet");
    add_blob(kModelLayer, blob);
    facts_ = std::move(facts);
    describe(facts_, config_);
  }
  for (const auto& [blob, facts] : others) {
    add_blob(facts.is_projector() ? kProjectorLayer : kAdapterLayer, *blob);
    describe(facts, config_);
  }
}

void Creation::replace_projectors(const std::vector<NamedBlob>& files) {
  std::erase_if(parts_, [](const Part& part) { return part.layer.media_type == kProjectorLayer; });
  for (const NamedBlob& blob : files) {
    const GgufFacts facts = parse_gguf(blob);
    if (!facts.is_projector())
      refuse(blob.path + ": only a projector can be added to another model, and this is none");
    add_blob(kProjectorLayer, blob);
    describe(facts, config_);
  }
}

void Creation::begin_from_web(const std::vector<WebFile>& files) {
  std::vector<NamedBlob> fetched;
  for (const WebFile& file : files) {
    report("pulling " + file.name);
    const Part part = made(kModelLayer, [&](const ByteSink& sink) { hooks_.fetch(file, sink); });
    fetched.push_back({file.name, part.layer.digest.text()});
  }
  begin_from_files(fetched);
  const std::string from = public_address(files.front().url);
  for (Part& part : parts_)
    if (part.layer.media_type == kModelLayer) part.layer.from = from;
}

void Creation::begin_from_conversion(const CreateRequest& request) {
  if (!hooks_.convert) not_yet("conversion of safetensors is not supported here");
  Conversion conversion{.model = display_name(parse_name(request.model).value()),
                        .files = {},
                        .weight_type = makes_weights_of(request, hooks_) ? request.quantize : ""};
  for (const NamedBlob& blob : *request.files) {
    conversion.files.push_back({blob.path, hold_blob(blob)});
  }
  std::optional<Part> projector;
  if (hooks_.has_projector && hooks_.has_projector(conversion)) {
    report("converting projector");
    conversion.part = Conversion::Part::kProjector;
    projector = converted(kProjectorLayer, conversion);
    conversion.part = Conversion::Part::kModelWithProjector;
  }
  report("converting model");
  Part part = converted(kModelLayer, conversion);
  report("verifying conversion");
  facts_ = facts_in(part);
  describe(facts_, config_);
  parts_.push_back(std::move(part));
  if (!projector) return;
  describe(facts_in(*projector), config_);
  parts_.push_back(*std::move(projector));
}

Creation::Part Creation::made(std::string_view media_type, const Write& write) {
  Part part;
  const Write checked = [&](const ByteSink& sink) {
    write([&](std::span<const std::byte> bytes) {
      if (hooks_.check) hooks_.check();
      sink(bytes);
    });
  };
  part.layer = store_.add_made_layer(media_type, checked, hold_, &part.created);
  if (part.created) leftovers_.add(part.layer.digest);
  return part;
}

Creation::Part Creation::converted(std::string_view media_type, const Conversion& conversion) {
  return made(media_type, [&](const ByteSink& sink) { hooks_.convert(conversion, sink); });
}

GgufFacts Creation::facts_in(const Part& part) const {
  return facts_of(
      gguf::File::open_header(store_.blob_path(part.layer.digest), gguf::StringArrays::kSkipped));
}

void Creation::quantize(const std::string& type) {
  const auto weights = std::ranges::find(parts_, kModelLayer, [](const Part& part) {
    return std::string_view(part.layer.media_type);
  });
  if (weights == parts_.end()) refuse("the model has no weights that can be quantized");
  const std::string from = facts_.quantization;
  if (equal_ignoring_case(from, type)) return;
  // If a file names no type, the quantizer looks at the types of its tensors.
  constexpr std::string_view kSources[] = {"F32", "F16", "BF16", "unknown"};
  if (std::ranges::find(kSources, from) == std::end(kSources))
    refuse("quantization is only supported for F16, F32 and BF16 models: this one is in " + from);
  report("quantizing " + from + " model to " + type);
  const Digest old = weights->layer.digest;
  if (weights->created) leftovers_.add(old);
  Part part;
  try {
    part = made(kModelLayer, [&](const ByteSink& sink) {
      hooks_.quantize({.path = store_.blob_path(old), .type = type}, sink);
    });
  } catch (const Error& error) {
    throw with_name_of_file(error, store_.blob_path(old), "the model");
  }
  part.layer.from = weights->layer.from;
  facts_ = facts_in(part);
  config_.file_type = facts_.quantization;
  *weights = std::move(part);
}

void Creation::add_adapter(const NamedBlob& blob) {
  check_adapter(blob.path, parse_gguf(blob), facts_);
  if (blob.scale == 1.0f) return add_blob(kAdapterLayer, blob);
  const gguf::File file = gguf::File::open_split_headers(std::vector{hold_blob(blob)});
  parts_.push_back(made(kAdapterLayer, [&](const ByteSink& sink) {
    write_scaled_adapter(blob.path, file, blob.scale, sink);
  }));
}

// Safetensors and JSON files form adapters that are converted, one in each folder. Adapters keep
// the order of their first files.
void Creation::add_adapters(const std::vector<NamedBlob>& blobs) {
  const auto folder_of = [](const NamedBlob& blob) {
    return blob.path.substr(0, blob.path.rfind('/') + 1);  // npos + 1 is 0
  };
  const auto is_source = [](const NamedBlob& blob) {
    return blob.path.ends_with(".json") || is_safetensors(blob);
  };
  std::set<std::string> converted;
  for (const NamedBlob& blob : blobs) {
    if (!is_source(blob)) {
      add_adapter(blob);
      continue;
    }
    const std::string folder = folder_of(blob);
    if (!converted.insert(folder).second) continue;
    std::vector<const NamedBlob*> files;
    for (const NamedBlob& other : blobs)
      if (is_source(other) && folder_of(other) == folder) files.push_back(&other);
    convert_adapter(folder, files);
  }
}

void Creation::convert_adapter(const std::string& folder,
                               const std::vector<const NamedBlob*>& blobs) {
  if (!hooks_.convert) not_yet("conversion of safetensors is not supported here");
  const auto weights = std::ranges::find(parts_, kModelLayer, [](const Part& part) {
    return std::string_view(part.layer.media_type);
  });
  if (weights == parts_.end()) refuse("an adapter needs a model: the request has none");
  Conversion conversion{.model = blobs.front()->path,
                        .files = {},
                        .weight_type = "F32",
                        .base = store_.blob_path(weights->layer.digest)};
  for (const NamedBlob* blob : blobs) {
    conversion.files.push_back({blob->path.substr(folder.size()), hold_blob(*blob)});
    if (is_safetensors(*blob)) conversion.model = blob->path;
    if (blob->scale != 1.0f) conversion.scale = blob->scale;
  }
  report("converting adapter");
  Part part = converted(kAdapterLayer, conversion);
  check_adapter(conversion.model, facts_in(part), facts_);
  parts_.push_back(std::move(part));
}

NamedBlob Creation::weights_of(const std::string& model) const {
  const std::optional<Name> name = parse_name(model);
  const std::optional<StoredModel> stored = name ? store_.find(*name) : std::nullopt;
  if (!stored) throw Error(ErrorCode::kNotFound, "DRAFT " + model + ": no such file or model");
  const auto is_weights = [](const Layer& layer) { return layer.media_type == kModelLayer; };
  const auto& layers = stored->manifest.layers;
  if (std::ranges::count_if(layers, is_weights) != 1)
    refuse("DRAFT " + model + ": a draft model needs weights in one file");
  return {.path = model, .digest = std::ranges::find_if(layers, is_weights)->digest.text()};
}

void Creation::set_draft(const NamedBlob& blob) {
  const GgufFacts draft = parse_gguf(blob);
  if (draft.kind != "model" || draft.is_projector())
    refuse(blob.path + ": DRAFT needs a GGUF file of a model");
  const auto weights = std::ranges::find(parts_, kModelLayer, [](const Part& part) {
    return std::string_view(part.layer.media_type);
  });
  if (weights == parts_.end()) refuse("a draft model needs a model: the request has none");
  if (hooks_.check_draft) {
    try {
      hooks_.check_draft(hold_blob(blob), store_.blob_path(weights->layer.digest));
    } catch (const Error& error) {
      throw Error(error.code(), blob.path + ": " + error.what());
    }
  }
  std::erase_if(parts_, [](const Part& part) { return part.layer.media_type == kDraftLayer; });
  add_blob(kDraftLayer, blob);
  config_.draft_json = compact({{"model_format", "gguf"}, {"architecture", draft.architecture}});
}

void Creation::merge_params(const Json& params, bool keep_old) {
  Json merged = Json::object();
  for (const Part& part : parts_) {
    if (part.layer.media_type != kParamsLayer) continue;
    const Json old = parse_json(store_.read_blob(part.layer.digest), "parameters");
    if (old.is_object()) merged.update(old);
  }
  for (const auto& [name, value] : params.items()) {
    if (!value.is_null() && !(keep_old && merged.contains(name))) merged[name] = value;
  }
  if (!params.empty()) replace(kParamsLayer, compact(merged));
}

// Chooses the prompt format, if the request and the base model do not define it.
void Creation::choose_prompt(const CreateRequest& request) {
  if (!request.template_text.empty() || has(kTemplateLayer) || has(kPromptLayer)) return;
  if (!config_.renderer.empty() || !config_.parser.empty()) return;
  if (const Default* known = find_default(facts_.architecture)) {
    config_.renderer = known->renderer;
    config_.parser = known->parser;
    if (known->stop) merge_params({{"stop", Json::array({known->stop})}}, true);
    return;
  }
  if (facts_.chat_template.empty() || !hooks_.detect_template) return;
  const auto detected = hooks_.detect_template(facts_.chat_template);
  if (!detected) return;
  report("using autodetected template " + detected->name);
  add_text(kTemplateLayer, detected->text);
  if (!detected->stop.empty()) merge_params({{"stop", detected->stop}}, true);
}

void Creation::warn_of_no_template(const std::string& model) const {
  const bool is_asked = has(kModelLayer) && !facts_.has_pooling;
  if (!is_asked || has(kTemplateLayer) || has(kPromptLayer) || !facts_.chat_template.empty())
    return;
  log::warn(model + ": " + std::string(kNoTemplateWarning));
}

void Creation::apply(const CreateRequest& request) {
  if (!request.renderer.empty()) config_.renderer = request.renderer;
  if (!request.parser.empty()) config_.parser = request.parser;
  if (!request.requires_version.empty()) config_.requires_version = request.requires_version;
  merge_info(request.info_json, config_);
  choose_prompt(request);
  if (!request.template_text.empty()) {
    std::erase_if(parts_, [](const Part& part) { return part.layer.media_type == kPromptLayer; });
    replace(kTemplateLayer, request.template_text);
    config_.template_from = kTemplateOfUser;
  }
  warn_of_no_template(request.model);
  if (!request.system.empty()) replace(kSystemLayer, request.system);
  for (const std::string& license : request.licenses) add_text(kLicenseLayer, license);
  merge_params(parameters_of(request));
  if (request.messages) {
    std::erase_if(parts_, [](const Part& part) { return part.layer.media_type == kMessagesLayer; });
    if (!request.messages->empty()) add_text(kMessagesLayer, to_text(*request.messages));
  }
}

Name Creation::finish(const Name& name) {
  Manifest manifest;
  config_.diff_ids.clear();
  for (const Part& part : parts_) {
    manifest.layers.push_back(part.layer);
    config_.diff_ids.push_back(part.layer.digest.text());
  }
  add_text(kConfigType, to_text(config_));
  manifest.config = parts_.back().layer;
  for (const Part& part : parts_) {
    report((part.created ? "creating new layer " : "using existing layer ") +
           part.layer.digest.text());
  }
  report("writing manifest");
  Name spelled = store_.put(name, manifest);
  report("success");
  return spelled;
}

void check_template(const std::string& text, const CreateHooks& hooks) {
  if (text.empty() || !hooks.check_template) return;
  try {
    hooks.check_template(text);
  } catch (const Error& error) {
    refuse(std::string("template error: ") + error.what());
  }
}

}  // namespace

Name create_model(Store& store, const CreateRequest& request, const CreateHooks& hooks) {
  const auto name = parse_name(request.model);
  if (!name) refuse("invalid model name");
  check_create(request, hooks);
  check_template(request.template_text, hooks);
  parameters_of(request);  // finds errors before files are read
  Config unused;
  merge_info(request.info_json, unused);  // finds errors early, too
  Leftovers leftovers(store, request);
  Creation creation(store, hooks, leftovers);
  const std::vector<WebFile> web_files =
      hooks.web_files ? hooks.web_files(request.from) : std::vector<WebFile>{};
  if (!web_files.empty()) {
    creation.begin_from_web(web_files);
  } else if (!request.from.empty()) {
    creation.begin_from(request.from);
  } else if (is_converted(request)) {
    creation.begin_from_conversion(request);
  } else {
    creation.begin_from_files(*request.files);
  }
  if (!request.from.empty() && request.files && !request.files->empty())
    creation.replace_projectors(*request.files);
  if (!request.quantize.empty() && !makes_weights_of(request, hooks))
    creation.quantize(request.quantize);
  creation.add_adapters(request.adapters);
  if (!request.draft_files.empty()) creation.set_draft(request.draft_files.front());
  if (!request.draft.empty()) creation.set_draft(creation.weights_of(request.draft));
  creation.apply(request);
  return creation.finish(*name);
}

}  // namespace billow::store
