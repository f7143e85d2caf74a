#include "store/show.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <ctime>
#include <iterator>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "gguf/tensor_type.h"
#include "store/json_text.h"
#include "store/modelfile.h"
#include "store/parameters.h"

namespace billow::store {
namespace {

// The number that is shortest in print and is `value` again as a float.
double shortest_as_float(double value) {
  char text[64];
  const auto written = std::to_chars(text, std::end(text), static_cast<float>(value));
  double shortest = value;
  std::from_chars(text, written.ptr, shortest);
  return shortest;
}

// Whole numbers without a fraction, as they are printed elsewhere; null for what JSON does not
// have.
Json number_json(double value, bool is_float) {
  if (!std::isfinite(value)) return nullptr;
  if (is_float) value = shortest_as_float(value);
  if (std::abs(value) < 1e15 && value == std::floor(value)) return static_cast<int64_t>(value);
  return value;
}

Json value_json(const gguf::Value& value, bool verbose);

Json array_json(const gguf::Array& array, bool verbose) {
  if (array.n > kMostShownElements && !verbose) return nullptr;
  Json json = Json::array();
  for (const std::string_view text : array.strings) json.push_back(utf8::sanitized(text));
  for (const gguf::Array& inner : array.arrays) json.push_back(array_json(inner, verbose));
  const size_t n_bytes = gguf::value_type_bytes(array.element_type);
  for (uint64_t i = 0; n_bytes > 0 && i < array.n; ++i) {
    const std::byte* element = array.bytes.data() + i * n_bytes;
    json.push_back(value_json(gguf::decode_scalar(array.element_type, element), verbose));
  }
  return json;
}

Json value_json(const gguf::Value& value, bool verbose) {
  if (value.type == gguf::ValueType::kBool) return gguf::as_bool(value).value_or(false);
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value.data)) return *number;
  if (const auto* number = std::get_if<double>(&value.data)) {
    return number_json(*number, value.type == gguf::ValueType::kF32);
  }
  if (const auto text = gguf::as_string(value)) return utf8::sanitized(*text);
  return array_json(std::get<gguf::Array>(value.data), verbose);
}

// Nothing to see, though a character.
bool is_invisible(char32_t c) noexcept {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x80, 0xA0},     {0xAD, 0xAD},     {0x1680, 0x1680},   {0x180E, 0x180E},   {0x2000, 0x200F},
      {0x2028, 0x202F}, {0x205F, 0x206F}, {0x3000, 0x3000},   {0xE000, 0xF8FF},   {0xFEFF, 0xFEFF},
      {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}, {0xE0000, 0xE0FFF}, {0xF0000, 0x10FFFF}};
  for (const auto& [first, last] : kRanges) {
    if (c >= first && c <= last) return true;
  }
  return false;
}

std::string_view short_escape(char32_t c) noexcept {
  constexpr std::pair<char32_t, std::string_view> kEscapes[] = {
      {'"', "\\\""}, {'\\', "\\\\"}, {'\a', "\\a"}, {'\b', "\\b"}, {'\f', "\\f"},
      {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}, {'\v', "\\v"}};
  for (const auto& [character, escape] : kEscapes) {
    if (character == c) return escape;
  }
  return {};
}

Json params_of(const Model& model, const std::string& options_json) {
  Json params = parse_json(model.params_json, "parameters");
  if (options_json.empty()) return params;
  const Json options = parse_json(options_json, "options");
  if (options.is_null()) return params;
  check_options(options);
  for (const auto& [name, value] : options.items()) {
    if (!value.is_null()) params[name] = value;
  }
  return params;
}

std::string modelfile_text(const Model& model, const std::string& system, const Json& params) {
  Modelfile file;
  const auto add = [&](InstructionKind kind, const std::string& value, std::string key = "") {
    file.instructions.push_back({.kind = kind, .key = std::move(key), .value = value});
  };
  const auto add_given = [&](InstructionKind kind, const std::string& value) {
    if (!value.empty()) add(kind, value);
  };
  using enum InstructionKind;
  add(kFrom, model.weights.empty() ? display_name(model.stored.name) : model.weights);
  for (const std::string& adapter : model.adapters) add(kAdapter, adapter);
  add_given(kDraft, model.draft);
  for (const std::string& projector : model.projectors) add(kFrom, projector);
  add_given(kTemplate, model.template_text);
  add_given(kSystem, system);
  add_given(kRenderer, model.config.renderer);
  add_given(kParser, model.config.parser);
  add_given(kRequires, model.config.requires_version);
  for (const auto& [name, value] : params.items()) {
    for (const std::string& text : value_texts(value)) add(kParameter, text, name);
  }
  for (const std::string& license : model.licenses) add(kLicense, license);
  for (const Message& message : model.messages) add(kMessage, message.content, message.role);
  return "# Modelfile generated by \"ollama show\"\n"
         "# To build a new Modelfile based on this, replace FROM with:\n# FROM " +
         display_name(model.stored.name) + "\n\n" + to_text(file);
}

// What needs the GGUF files themselves.
void add_file_parts(const Model& model, bool verbose, Json& json) {
  json["model_info"] = Json::object();
  try {
    if (model.weights_facts) {
      const gguf::File file = gguf::File::open(model.weights);
      json["model_info"] = model_info(file, verbose);
      json["tensors"] = tensor_list(file);
    }
    if (model.projector_facts) {
      json["projector_info"] = model_info(gguf::File::open(model.projectors.front()), verbose);
    }
  } catch (const Error& error) {
    log::warn(error.what());
  }
}

}  // namespace

Json model_info(const gguf::File& file, bool verbose) {
  Json json = Json::object();
  uint64_t n_parameters = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) n_parameters += tensor.n_elements();
  for (const gguf::Entry& entry : file.metadata()) {
    if (entry.key == "general.name" || entry.key == "tokenizer.chat_template") continue;
    json[utf8::sanitized(entry.key)] = value_json(entry.value, verbose);
  }
  json["general.parameter_count"] = n_parameters;
  return json;
}

Json tensor_list(const gguf::File& file) {
  Json list = Json::array();
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    Json shape = Json::array();
    for (uint32_t i = 0; i < tensor.n_dims; ++i) shape.push_back(tensor.shape[i]);
    list.push_back({{"name", utf8::sanitized(tensor.name)},
                    {"type", gguf::tensor_type_name(tensor.type)},
                    {"shape", std::move(shape)}});
  }
  return list;
}

std::string parameters_text(const std::string& params_json) {
  std::string text;
  const Json params = parse_json(params_json, "parameters");
  for (const auto& [name, value] : params.items()) {
    const bool is_text =
        value.is_string() || (value.is_array() && !value.empty() && value.front().is_string());
    for (const std::string& line : value_texts(value)) {
      if (!text.empty()) text += '\n';
      text += fmt::format("{:<30} {}", name, is_text ? go_quoted(line) : line);
    }
  }
  return text;
}

std::string modelfile_text(const Model& model) {
  return modelfile_text(model, model.system, params_of(model, ""));
}

Json show_json(const Model& model, const PromptTraits& traits, const ShowOptions& options) {
  const Json params = params_of(model, options.options_json);
  const std::string& system = options.system.empty() ? model.system : options.system;
  std::string license;
  for (const std::string& one : model.licenses) license += (license.empty() ? "" : "\n") + one;
  std::string template_text = model.template_text;
  if (template_text.empty() && model.weights_facts) {
    template_text = model.weights_facts->chat_template;
  }
  Json json = Json::object();
  const auto add_text = [&](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = utf8::sanitized(text);
  };
  add_text("license", license);
  add_text("modelfile", modelfile_text(model, system, params));
  add_text("parameters", parameters_text(compact(params)));
  add_text("template", template_text);
  add_text("system", system);
  json["details"] = details_json(model.details);
  if (!model.messages.empty()) json["messages"] = parse_json(to_text(model.messages), "messages");
  add_text("remote_model", model.config.remote_model);
  add_text("remote_host", model.config.remote_host);
  add_file_parts(model, options.verbose, json);
  json["capabilities"] = capabilities(model, traits);
  json["modified_at"] = local_time_text(model.stored.modified);
  add_text("requires", model.config.requires_version);
  return json;
}

Json details_json(const Details& details) {
  Json json = {{"parent_model", ""},
               {"format", details.format},
               {"family", details.family},
               {"families", details.families.empty() ? Json() : Json(details.families)},
               {"parameter_size", details.parameter_size},
               {"quantization_level", details.quantization_level}};
  if (details.context_length) json["context_length"] = details.context_length;
  if (details.embedding_length) json["embedding_length"] = details.embedding_length;
  return json;
}

std::string local_time_text(Time time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const std::time_t clock = std::chrono::system_clock::to_time_t(seconds);
  std::tm local{};
  ::localtime_r(&clock, &local);
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", local.tm_year + 1900, local.tm_mon + 1,
                  local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec);
  if (const auto part = (time - seconds).count(); part != 0) {
    text += fmt::format(".{:09}", part);
    text.erase(text.find_last_not_of('0') + 1);
  }
  const long minutes = local.tm_gmtoff / 60;
  if (minutes == 0) return text + "Z";
  return text + fmt::format("{}{:02}:{:02}", minutes < 0 ? '-' : '+', std::abs(minutes) / 60,
                            std::abs(minutes) % 60);
}

std::string go_quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const utf8::CodePoint point = utf8::decode(text);
    const std::string_view bytes = text.substr(0, point.n_bytes);
    text.remove_prefix(point.n_bytes);
    const char32_t c = point.value;
    if (!point.valid) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes.front()));
    } else if (const std::string_view escape = short_escape(c); !escape.empty()) {
      out += escape;
    } else if (c < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else if (is_invisible(c)) {
      const auto number = static_cast<unsigned>(c);
      out += c < 0x10000 ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
    } else {
      out += bytes;
    }
  }
  return out + "\"";
}

}  // namespace billow::store
