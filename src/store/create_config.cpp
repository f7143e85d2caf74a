#include "store/create_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/json.h"
#include "store/json_text.h"

namespace billow::store {
namespace {

// The fields of "info", including their names in listings.
struct InfoText {
  const char* key;
  std::string Config::* member;
};
constexpr std::array kInfoTexts{
    InfoText{"model_format", &Config::model_format},
    InfoText{"model_family", &Config::model_family},
    InfoText{"model_type", &Config::model_type},
    InfoText{"parameter_size", &Config::model_type},
    InfoText{"file_type", &Config::file_type},
    InfoText{"quantization_level", &Config::file_type},
    InfoText{"base_name", &Config::base_name},
};

}  // namespace

void merge_info(const std::string& info_json, Config& config) {
  if (info_json.empty()) return;
  const Json info = parse_json(info_json, "info");
  if (info.is_null()) return;
  for (const InfoText& text : kInfoTexts) {
    const std::string value = string_field(info, text.key, "info");
    if (value.empty()) continue;
    config.*text.member = value;
    if (text.member == &Config::model_family) config.model_families = {value};
  }
  const auto families = strings_field(info, "model_families", "info");
  if (!families.empty()) config.model_families = families;
  const auto found = strings_field(info, "capabilities", "info");
  if (!found.empty()) config.capabilities = found;
  if (const uint64_t n = count_field(info, "context_length", "info")) config.context_length = n;
  if (const uint64_t n = count_field(info, "embedding_length", "info")) config.embedding_length = n;
}

std::string public_address(const std::string& url) {
  std::string address = url.substr(0, url.find_first_of("?#"));
  constexpr std::string_view kMark = "://";
  const size_t mark = address.find(kMark);
  if (mark == std::string::npos) return address;
  const size_t host = mark + kMark.size();
  const size_t at = address.substr(0, address.find('/', host)).rfind('@');
  if (at != std::string::npos && at >= host) address.erase(host, at + 1 - host);
  return address;
}

void describe(const GgufFacts& facts, Config& config) {
  if (config.model_format.empty()) config.model_format = "gguf";
  if (config.model_family.empty()) config.model_family = facts.architecture;
  if (config.model_type.empty()) config.model_type = human_count(facts.n_parameters);
  if (config.file_type.empty()) config.file_type = facts.quantization;
  if (!config.context_length) config.context_length = facts.context_length;
  if (!config.embedding_length) config.embedding_length = facts.embedding_length;
  if (facts.architecture.empty()) return;
  if (std::ranges::find(config.model_families, facts.architecture) == config.model_families.end()) {
    config.model_families.push_back(facts.architecture);
  }
}

}  // namespace billow::store
