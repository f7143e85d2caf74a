#include "convert/projector_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "convert/projector_tensors.h"
#include "convert/tensor_name.h"
#include "convert/vocabulary.h"

namespace billow::convert {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kProcessor = "preprocessor_config.json";
constexpr const char* kProcessors = "processor_config.json";

const Document* object_in(const Document& object, std::string_view name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_object() ? &*at : nullptr;
}

std::string text_in(const Document& object, std::string_view name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

// Returns the document, or an empty object.
Document document_or_empty(const Sources& sources, const char* name) {
  auto document = sources.document(name);
  if (!document) return Document::object();
  if (!document->is_object())
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: not a JSON object", name));
  return *std::move(document);
}

std::string class_of(const Document& config) {
  const auto names = config.find("architectures");
  const bool is_named =
      names != config.end() && names->is_array() && !names->empty() && names->front().is_string();
  return is_named ? names->front().get<std::string>() : "";
}

// Returns how pictures are prepared. The newer of the two files has it in an object.
ModelConfig read_processor(const Sources& sources) {
  Document all = document_or_empty(sources, kProcessor);
  const Document newer = document_or_empty(sources, kProcessors);
  if (const Document* inside = object_in(newer, "image_processor")) all.update(*inside);
  if (all.empty()) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{} is missing: it says how pictures are prepared; copy it from the "
                            "published model, or convert the text model alone (--no-mmproj)",
                            kProcessor));
  }
  return ModelConfig(all, kProcessor);
}

ModelConfig read_vision(const Document& config, std::string_view defaults) {
  Document vision = Document::parse(defaults);
  for (const auto& [name, value] : object_in(config, "vision_config")->items())
    if (!value.is_null()) vision[name] = value;
  return ModelConfig(vision, "config.json, vision_config");
}

std::vector<float> colors(const ModelConfig& processor, const char* name, float unchanged) {
  const bool is_used = processor.flag("do_normalize", true);
  const auto values = processor.numbers(name);
  if (!is_used) return std::vector<float>(3, unchanged);
  constexpr double kMax = 1000;
  const auto is_odd = [](double value) { return !(std::abs(value) <= kMax); };
  if (!values || values->size() != 3 || std::ranges::any_of(*values, is_odd))
    processor.refuse(name, "must be a list of 3 numbers up to 1000");
  return {values->begin(), values->end()};
}

// Refuses or notes what the file cannot express, because readers know it by the family.
void check_processor(const ProjectorFamily& family, const ProjectorModel& model) {
  constexpr std::string_view kFilters[] = {"nearest", "Lanczos", "bilinear",
                                           "bicubic", "box",     "Hamming"};
  const ModelConfig& processor = model.processor;
  for (const char* name : {"do_resize", "do_rescale"})
    if (!processor.flag(name, true)) processor.refuse(name, "must be true");
  const auto factor = processor.number({"rescale_factor"});
  if (factor && std::abs(*factor * 255 - 1) > 1e-4)
    processor.refuse("rescale_factor", "must be 1/255; other values are not supported");
  const auto filter = processor.count({"resample"});
  if (filter && *filter != family.resample && *filter < std::size(kFilters)) {
    model.note(fmt::format("pictures are resized with the filter {}, not {} as {} says",
                           kFilters[family.resample], kFilters[*filter], kProcessor));
  }
}

void check_vision(const ProjectorFamily& family, const ModelConfig& vision) {
  const auto activation = vision.text({"hidden_act", "hidden_activation"});
  const std::string all = fmt::format(" {} ", family.activations);
  if (activation && all.find(fmt::format(" {} ", *activation)) == std::string::npos) {
    vision.refuse_unknown(fmt::format("\"hidden_act\": '{}' is not supported (known: {})",
                                      *activation, family.activations));
  }
  for (const char* name : {"num_channels", "in_channels", "in_chans"})
    if (vision.count({name}).value_or(3) != 3) vision.refuse(name, "must be 3");
}

void check_sizes(const ProjectorModel& model, const ProjectorSizes& sizes) {
  constexpr uint32_t kMaxLayers = 512;
  constexpr uint32_t kMaxImage = 1 << 14;
  if (sizes.image_size > kMaxImage) model.vision.refuse("image_size", "is more than 16384");
  if (sizes.n_layers > kMaxLayers) model.vision.refuse("num_hidden_layers", "is more than 512");
  if (sizes.n_embd % sizes.n_heads != 0)
    model.vision.refuse("num_attention_heads",
                        fmt::format("does not divide the width of {}", sizes.n_embd));
}

void write_keys(const ProjectorFamily& family, const ProjectorModel& model,
                const ProjectorSizes& sizes, KeyWriter& keys) {
  keys.flag("has_vision_encoder", true);
  keys.count("vision.projection_dim", model.text.n_embd());
  keys.count("vision.image_size", sizes.image_size);
  keys.count("vision.patch_size", sizes.patch_size);
  keys.count("vision.embedding_length", sizes.n_embd);
  keys.count("vision.feed_forward_length", sizes.n_ff);
  keys.count("vision.block_count", sizes.n_layers);
  keys.count("vision.attention.head_count", sizes.n_heads);
  keys.numbers("vision.image_mean", colors(model.processor, "image_mean", 0));
  keys.numbers("vision.image_std", colors(model.processor, "image_std", 1));
  keys.text(family.type_key, family.projector);
  keys.number("vision.attention.layer_norm_epsilon", sizes.norm_epsilon);
  family.keys(model, sizes, keys);
}

// Adds the embedding of [IMG_BREAK]. It is a word of the text for Billow, but llama.cpp wants it
// here.
void add_break(const Sources& sources, const ProjectorModel& model, Weights& weights,
               std::vector<PlannedTensor>& plan) {
  constexpr std::string_view kWord = "[IMG_BREAK]";
  for (const std::string& name : weights.names()) {
    if (without_part(name) != "model.embed_tokens.weight") continue;
    const std::vector<Piece> pieces =
        read_language_vocabulary(sources, n_rows_of(weights, name)).pieces;
    const auto word = std::ranges::find(pieces, kWord, &Piece::text);
    if (word == pieces.end()) break;
    const SafeTensor* table = weights.find(name);
    require_known_type(*table, name);
    if (table->shape[1] != model.text.n_embd())
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("tensor '{}' is not as wide as the text model", name));
    PlannedTensor row;
    row.name = "v.token_embd.img_break";
    row.source = table;
    row.first_row = static_cast<uint64_t>(word - pieces.begin());
    row.n_rows = 1;
    row.row_len = table->shape[1];
    row.type = quant::Type::kF32;
    plan.push_back(std::move(row));
    return;
  }
  model.note(fmt::format("the vocabulary has no {}: llama.cpp cannot use the projector", kWord));
}

std::string known_classes() {
  std::string known;
  for (const ProjectorFamily* family : projector_families())
    for (const std::string_view name : family->classes)
      known += (known.empty() ? "" : ", ") + std::string(name);
  return known;
}

}  // namespace

const ProjectorFamily* find_projector_family(const Sources& sources) {
  const Document config = document_or_empty(sources, kConfig);
  const Document* vision = object_in(config, "vision_config");
  if (vision == nullptr) return nullptr;
  return find_projector_family(class_of(config), text_in(*vision, "model_type"));
}

std::vector<PlannedTensor> describe_projector(const Sources& sources, Weights& weights,
                                              quant::Type matrix_type, const Listener& listener,
                                              gguf::Writer& writer) {
  const ProjectorFamily* family = find_projector_family(sources);
  const Document config = document_or_empty(sources, kConfig);
  if (family == nullptr && object_in(config, "vision_config") == nullptr)
    throw Error(ErrorCode::kInvalidInput, "config.json: the model has no \"vision_config\"");
  if (family == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("config.json: the part for pictures of '{}' cannot be converted (known "
                            "classes: {})",
                            class_of(config), known_classes()));
  }
  if (!has_picture_tensors(weights))
    throw Error(ErrorCode::kInvalidInput, "there are no tensors of a part for pictures");
  const ProjectorModel model = {.whole = ModelConfig(config),
                                .text = ModelConfig(sources),
                                .vision = read_vision(config, family->defaults),
                                .processor = read_processor(sources),
                                .note = [&](const std::string& line) {
                                  if (listener.note) listener.note(line);
                                }};
  check_vision(*family, model.vision);
  check_processor(*family, model);
  const ProjectorSizes sizes = family->sizes(model);
  check_sizes(model, sizes);
  writer.set_string("general.architecture", "clip");
  writer.set_string("general.type", "mmproj");
  KeyWriter keys(writer, "clip");
  write_keys(*family, model, sizes, keys);
  std::vector<PlannedTensor> plan =
      plan_projector(*family, model, sizes, model.text.n_embd(), weights, matrix_type);
  if (family->has_break) add_break(sources, model, weights, plan);
  return plan;
}

}  // namespace billow::convert
