#include "convert/sampling_defaults.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>

#include "base/json.h"
#include "convert/json_document.h"

namespace billow::convert {
namespace {

struct Setting {
  std::string_view name;  // in generation_config.json
  std::string_view key;   // general.sampling.KEY
  bool is_whole = false;
};
// The order of llama.cpp's converter.
constexpr Setting kSettings[] = {{"top_k", "top_k", true},
                                 {"top_p", "top_p"},
                                 {"min_p", "min_p"},
                                 {"xtc_probability", "xtc_probability"},
                                 {"xtc_threshold", "xtc_threshold"},
                                 {"temperature", "temp"},
                                 {"penalty_last_n", "penalty_last_n", true},
                                 {"penalty_repeat", "penalty_repeat"},
                                 {"repetition_penalty", "penalty_repeat"},
                                 {"mirostat", "mirostat", true},
                                 {"mirostat_tau", "mirostat_tau"},
                                 {"mirostat_eta", "mirostat_eta"}};

}  // namespace

void write_sampling_defaults(const Sources& sources, gguf::Writer& writer) {
  constexpr const char* kFile = "generation_config.json";
  const auto document = sources.document(kFile);
  if (!document) return;
  const DocumentFields fields(*document, kFile);
  const bool has_penalty = fields.find("penalty_repeat") != nullptr;
  for (const Setting& setting : kSettings) {
    const auto value = fields.number(setting.name);
    if (!value || (setting.name == "repetition_penalty" && has_penalty)) continue;
    const std::string key = fmt::format("general.sampling.{}", setting.key);
    if (!std::isfinite(*value)) fields.refuse(setting.name, "is not a number");
    if (!setting.is_whole) {
      writer.set_float(key, static_cast<float>(*value));
      continue;
    }
    if (std::trunc(*value) != *value || std::abs(*value) > std::numeric_limits<int32_t>::max())
      fields.refuse(setting.name, "must be a whole number below 2^31");
    writer.set_int(key, static_cast<int32_t>(*value));
  }
}

}  // namespace billow::convert
