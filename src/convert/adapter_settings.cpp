#include "convert/adapter_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "convert/json_document.h"

namespace billow::convert {
namespace {

constexpr const char* kFile = "adapter_config.json";

// Fields that change the effect of an adapter and that GGUF adapters cannot express. Absent, null,
// false and empty values are allowed.
struct Unsupported {
  const char* field;
  const char* what;
};
constexpr std::array kUnsupported{
    Unsupported{"use_dora", "DoRA"},
    Unsupported{"use_qalora", "QALoRA"},
    Unsupported{"use_bdlora", "BD-LoRA"},
    Unsupported{"lora_bias", "a bias in addition to the two matrices"},
    Unsupported{"modules_to_save", "modules that are kept whole"},
    Unsupported{"target_parameters", "adapters of parameters outside of linear layers"},
    Unsupported{"trainable_token_indices", "single tokens that were trained"},
    Unsupported{"layer_replication", "layers that are repeated"},
    Unsupported{"alora_invocation_tokens", "an adapter that begins at certain tokens (aLoRA)"},
    Unsupported{"arrow_config", "a choice between adapters (Arrow)"},
    Unsupported{"kasa_config", "KaSA"},
    Unsupported{"velora_config", "VeLoRA"},
    Unsupported{"monteclora_config", "MonteCLoRA"},
};

[[noreturn]] void refuse(const char* field, const std::string& what) {
  throw Error(ErrorCode::kUnsupported, fmt::format("{}: \"{}\": {}", kFile, field, what));
}

bool is_set(const Document& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_array() || value.is_object() || value.is_string()) return !value.empty();
  return !value.is_null();
}

double checked_alpha(const DocumentFields& fields, const char* field, double alpha) {
  constexpr double kMaxAlpha = 1e6;
  if (!std::isfinite(alpha) || std::abs(alpha) > kMaxAlpha)
    fields.refuse(field, "must be a number of at most a million");
  return alpha;
}

// Returns whether `name` is a module name or the end of one. peft treats these names as regular
// expressions. The converter does not run regular expressions from untrusted files.
bool is_plain_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

std::vector<std::pair<std::string, double>> alphas_of(const DocumentFields& fields,
                                                      std::string_view text) {
  constexpr const char* kField = "alpha_pattern";
  const Document* found = fields.find(kField);
  if (found == nullptr) return {};
  if (!found->is_object()) fields.refuse(kField, "must be an object");
  std::vector<std::pair<std::string, double>> all;
  for (std::string& name : names_in_order(text, kField)) {
    const Document& value = found->at(name);
    if (!is_plain_name(name))
      refuse(kField, "a regular expression is not supported; write out the modules' names");
    if (!value.is_number()) fields.refuse(kField, "must have numbers for values");
    const double alpha = checked_alpha(fields, kField, value.get<double>());
    all.emplace_back(std::move(name), alpha);
  }
  return all;
}

bool is_end_of(std::string_view end, std::string_view module) {
  if (!module.ends_with(end)) return false;
  return module.size() == end.size() || module[module.size() - end.size() - 1] == '.';
}

}  // namespace

double AdapterSettings::alpha_of(std::string_view module, uint64_t rank) const {
  const auto found = std::ranges::find_if(
      alphas, [&](const auto& pattern) { return is_end_of(pattern.first, module); });
  const double own = found == alphas.end() ? alpha : found->second;
  return scales_by_root ? own * std::sqrt(static_cast<double>(rank)) : own;
}

AdapterSettings read_adapter_settings(const Sources& sources) {
  const std::optional<std::string> text = sources.text(kFile);
  if (!text) throw Error(ErrorCode::kNotFound, fmt::format("{} is missing", kFile));
  const Document document = parse_document(*text, kFile);
  const DocumentFields fields(document, kFile);
  const std::string kind = fields.text("peft_type").value_or("");
  if (kind != "LORA")
    refuse("peft_type", fmt::format("'{}' is not supported; it must be LORA", kind));
  for (const Unsupported& field : kUnsupported) {
    const Document* value = fields.find(field.field);
    if (value != nullptr && is_set(*value))
      refuse(field.field,
             fmt::format("{} cannot be converted; merge the adapter into the model", field.what));
  }
  const std::string bias = fields.text("bias").value_or("none");
  if (bias != "none")
    refuse("bias",
           fmt::format("'{}': biases cannot be converted; merge the adapter into the model", bias));
  AdapterSettings settings;
  const std::optional<double> alpha = fields.number("lora_alpha");
  if (!alpha) fields.refuse("lora_alpha", "is missing");
  settings.alpha = checked_alpha(fields, "lora_alpha", *alpha);
  settings.alphas = alphas_of(fields, *text);
  settings.scales_by_root = fields.flag("use_rslora").value_or(false);
  settings.stores_turned = fields.flag("fan_in_fan_out").value_or(false);
  return settings;
}

}  // namespace billow::convert
