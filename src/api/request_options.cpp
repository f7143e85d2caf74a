#include "api/request_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "http/status.h"
#include "scheduler/keep_alive.h"
#include "store/parameters.h"

namespace billow::api {
namespace {

using http::StatusError;

struct SamplingOption {
  std::string_view name;
  bool is_integer;
};
constexpr std::array kSampling{
    SamplingOption{"temperature", false},
    SamplingOption{"top_k", true},
    SamplingOption{"top_p", false},
    SamplingOption{"min_p", false},
    SamplingOption{"typical_p", false},
    SamplingOption{"repeat_last_n", true},
    SamplingOption{"repeat_penalty", false},
    SamplingOption{"presence_penalty", false},
    SamplingOption{"frequency_penalty", false},
    SamplingOption{"seed", true},
};

// Integers may come with a fraction, which does not count.
int64_t whole(const Json& value) {
  if (value.is_number_unsigned()) {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return static_cast<int64_t>(std::min(value.get<uint64_t>(), kMost));
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  const double number = value.get<double>();
  constexpr double kLimit = 9.2e18;
  return static_cast<int64_t>(std::clamp(std::isnan(number) ? 0.0 : number, -kLimit, kLimit));
}

Json object_of(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? json : Json::object();
}

}  // namespace

RequestOptions merged_options(const std::string& model_json, const std::string& request_json) {
  Json all = object_of(model_json);
  const Json own = object_of(request_json);
  for (const auto& [name, value] : own.items())
    if (!value.is_null()) all[name] = value;
  try {
    store::check_options(all);
  } catch (const Error& error) {
    throw StatusError(500, error.what());
  }
  RequestOptions options;
  Json sampling = Json::object();
  for (const SamplingOption& option : kSampling) {
    const auto found = all.find(option.name);
    if (found == all.end() || found->is_null()) continue;
    if (option.is_integer)
      sampling[std::string(option.name)] = whole(*found);
    else
      sampling[std::string(option.name)] = *found;
  }
  options.sampling_json = sampling.dump();
  const auto stop = all.find("stop");
  if (stop != all.end() && stop->is_array()) options.stop = stop->get<std::vector<std::string>>();
  std::erase(options.stop, "");
  const auto num_predict = all.find("num_predict");
  if (num_predict != all.end() && num_predict->is_number())
    options.num_predict = whole(*num_predict);
  const auto num_ctx = all.find("num_ctx");
  if (num_ctx != all.end() && num_ctx->is_number())
    options.num_ctx = static_cast<size_t>(std::max<int64_t>(0, whole(*num_ctx)));
  return options;
}

std::optional<scheduler::Duration> keep_alive_of(const std::string& json) {
  if (json.empty()) return std::nullopt;
  const Json value = Json::parse(json, nullptr, false);
  if (value.is_number()) return scheduler::keep_alive_from_seconds(value.get<double>());
  if (value.is_string()) {
    try {
      return scheduler::keep_alive_from_text(value.get<std::string>());
    } catch (const Error& error) {
      throw StatusError(400, error.what());
    }
  }
  if (value.is_null()) return std::nullopt;
  const char* type = value.is_boolean()  ? "bool"
                     : value.is_object() ? "map[string]interface {}"
                                         : "[]interface {}";
  throw StatusError(400, std::string("Unsupported type: '") + type + "'");
}

void check_format(const std::string& json) {
  if (json.empty()) return;
  const Json format = Json::parse(json, nullptr, false);
  if (format.is_null() || (format.is_string() && format.get_ref<const std::string&>().empty()))
    return;
  if (format != "json" && !format.is_object()) {
    throw StatusError(
        500, "invalid format: " + json + "; expected \"json\" or a valid JSON Schema object");
  }
  throw StatusError(501,
                    "format is not supported yet: answers cannot be held to JSON or a schema; "
                    "leave it out and ask for JSON in the prompt");
}

}  // namespace billow::api
