#include "scheduler/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/json.h"

namespace billow::scheduler {
namespace {

struct FloatField {
  const char* name;
  std::optional<double> Sampling::* field;
};
struct IntField {
  const char* name;
  std::optional<int64_t> Sampling::* field;
};
constexpr FloatField kFloats[] = {
    {"temperature", &Sampling::temperature},
    {"top_p", &Sampling::top_p},
    {"min_p", &Sampling::min_p},
    {"typical_p", &Sampling::typical_p},
    {"repeat_penalty", &Sampling::repeat_penalty},
    {"presence_penalty", &Sampling::presence_penalty},
    {"frequency_penalty", &Sampling::frequency_penalty},
    {"mirostat_tau", &Sampling::mirostat_tau},
    {"mirostat_eta", &Sampling::mirostat_eta},
};
constexpr IntField kInts[] = {
    {"top_k", &Sampling::top_k},
    {"repeat_last_n", &Sampling::repeat_last_n},
    {"mirostat", &Sampling::mirostat},
    {"seed", &Sampling::seed},
};

}  // namespace

int64_t whole_number(const Json& value) {
  if (value.is_number_unsigned()) {
    constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return static_cast<int64_t>(std::min(value.get<uint64_t>(), kMax));
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  const double number = value.get<double>();
  constexpr double kLimit = 9.2e18;
  return static_cast<int64_t>(std::clamp(std::isnan(number) ? 0.0 : number, -kLimit, kLimit));
}

Sampling sampling_of(const Json& options) {
  Sampling sampling;
  const auto number = [&](const char* name) -> const Json* {
    const auto found = options.find(name);
    return found != options.end() && found->is_number() ? &*found : nullptr;
  };
  for (const FloatField& one : kFloats)
    if (const Json* value = number(one.name)) sampling.*one.field = value->get<double>();
  for (const IntField& one : kInts)
    if (const Json* value = number(one.name)) sampling.*one.field = whole_number(*value);
  return sampling;
}

Json to_json(const Sampling& sampling) {
  Json json = Json::object();
  for (const FloatField& one : kFloats)
    if (sampling.*one.field) json[one.name] = *(sampling.*one.field);
  for (const IntField& one : kInts)
    if (sampling.*one.field) json[one.name] = *(sampling.*one.field);
  for (const LogitBias& one : sampling.logit_bias)
    json["logit_bias"].push_back({one.token, one.bias ? Json(*one.bias) : Json(nullptr)});
  return json;
}

Sampling overlaid(const Sampling& base, const Sampling& over) {
  Sampling made = base;
  for (const FloatField& one : kFloats)
    if (over.*one.field) made.*one.field = over.*one.field;
  for (const IntField& one : kInts)
    if (over.*one.field) made.*one.field = over.*one.field;
  if (!over.logit_bias.empty()) made.logit_bias = over.logit_bias;
  return made;
}

}  // namespace billow::scheduler
