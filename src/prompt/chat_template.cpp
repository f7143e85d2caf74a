#include "prompt/chat_template.h"

#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "billow_bridge.h"
#include "billow_bridge_text.h"

namespace billow::prompt {
namespace {

billow_limits bridge_limits(const TemplateLimits& limits) {
  return {limits.n_instructions, limits.memory_bytes, limits.time_ms};
}

void check(billow_status status, std::string_view message) {
  if (status == BILLOW_OK) return;
  const bool has_line = message.starts_with("line ");
  throw Error(bridge_error_code(status),
              (has_line ? "chat template " : "chat template: ") + std::string(message));
}

[[noreturn]] void refuse_input(const std::string& what) {
  throw Error(ErrorCode::kTooLarge, "chat template input: " + what);
}

// Checks the depth, number and bytes of the values. Uses no recursion, because later steps recurse
// and rely on this check.
void check_input(const Json& input) {
  if (!input.is_object()) {
    throw Error(ErrorCode::kInvalidInput, "chat template input: not an object of variables");
  }
  size_t n_values = 0;
  size_t n_bytes = 0;
  std::vector<std::pair<const Json*, size_t>> open{{&input, 1}};
  while (!open.empty()) {
    const auto [value, depth] = open.back();
    open.pop_back();
    if (depth > kMaxInputDepth) {
      refuse_input("nested deeper than " + std::to_string(kMaxInputDepth) + " levels");
    }
    if (const auto* text = value->get_ptr<const Json::string_t*>()) n_bytes += text->size();
    n_values += value->is_structured() ? value->size() : 0;
    if (n_values > kMaxInputValues) {
      refuse_input("more than " + std::to_string(kMaxInputValues) + " values");
    }
    if (!value->is_structured()) continue;
    for (auto item = value->begin(); item != value->end(); ++item) {
      if (value->is_object()) n_bytes += item.key().size();
      open.emplace_back(&*item, depth + (item->is_structured() ? 1 : 0));
    }
    if (n_bytes > kMaxInputBytes) break;
  }
  if (n_bytes > kMaxInputBytes) {
    refuse_input("more than " + std::to_string(kMaxInputBytes) + " bytes of text");
  }
}

std::shared_ptr<const billow_template> compile(const std::string& source,
                                               const TemplateLimits& limits) {
  if (source.size() > kMaxTemplateBytes) {
    throw Error(ErrorCode::kTooLarge, "chat template: " + std::to_string(source.size()) +
                                          " bytes, more than " + std::to_string(kMaxTemplateBytes));
  }
  const billow_limits raw_limits = bridge_limits(limits);
  billow_template* handle = nullptr;
  BridgeText message;
  const billow_status status =
      billow_template_compile(source.data(), source.size(), &raw_limits, &handle, &message.raw);
  check(status, message.view());
  return {handle, [](const billow_template* unused) {
            billow_template_free(const_cast<billow_template*>(unused));
          }};
}

}  // namespace

ChatTemplate::ChatTemplate(const std::string& source, const TemplateLimits& limits)
    : limits_(limits), handle_(compile(source, limits)) {}

std::string ChatTemplate::render(const Json& input) const {
  check_input(input);
  const std::string json = input.dump(-1, ' ', false, Json::error_handler_t::replace);
  const billow_limits raw_limits = bridge_limits(limits_);
  BridgeText text;
  const billow_status status =
      billow_template_render(handle_.get(), json.data(), json.size(), &raw_limits, &text.raw);
  check(status, text.view());
  return std::string(text.view());
}

}  // namespace billow::prompt
