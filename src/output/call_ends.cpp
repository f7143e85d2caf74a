// Recognises the markers that end calls.
#include <algorithm>
#include <string>
#include <string_view>
#include <variant>

#include "base/text.h"
#include "output/format.h"

namespace billow::output {
namespace {

struct IsEnd {
  std::string_view text;

  bool operator()(const JsonCalls& form) const { return is_one_of(form.close); }
  bool operator()(const NamedCalls& form) const {
    return is_one_of(form.close) || is_one_of(form.section_close);
  }
  bool operator()(const TaggedCalls& form) const {
    return is_one_of(form.close) || is_one_of(form.section_close);
  }
  bool operator()(const PairCalls& form) const {
    return is_one_of(form.close) || is_one_of(form.section_close);
  }
  bool operator()(const PythonCalls& form) const { return is_one_of(form.close); }
  bool operator()(const GemmaCalls& form) const {
    return is_one_of(form.close) || is_one_of(form.ends);
  }
  bool operator()(const HarmonyCalls&) const { return text == "<|call|>"; }

 private:
  bool is_one_of(const Texts& texts) const {
    return std::ranges::any_of(
        texts, [this](const std::string& end) { return !end.empty() && trimmed(end) == text; });
  }
};

}  // namespace

bool ends_calls(const Format& format, std::string_view text) {
  if (trimmed(text).size() < 2) return false;  // "]" can also be a part of arguments
  return std::ranges::any_of(
      format.calls, [&](const CallForm& form) { return std::visit(IsEnd{trimmed(text)}, form); });
}

}  // namespace billow::output
