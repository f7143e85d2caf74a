// Decides how an answer begins. The rendered prompt decides, not the request.
#include <algorithm>
#include <string>
#include <string_view>
#include <variant>

#include "base/text.h"
#include "output/format.h"

namespace billow::output {
namespace {

constexpr size_t kTail = size_t{64} << 10;

bool ends_with_any(std::string_view text, const Texts& ends) {
  text = trimmed(text);
  return std::ranges::any_of(ends, [&](const std::string& end) { return text.ends_with(end); });
}

// Returns where the last of these texts begins, or npos.
size_t last_of(std::string_view text, const Texts& parts) {
  size_t last = text.npos;
  for (const std::string& part : parts) {
    const size_t at = text.rfind(part);
    if (at != text.npos && (last == text.npos || at > last)) last = at;
  }
  return last;
}

struct Openers {
  Texts operator()(const JsonCalls& form) const { return form.open; }
  Texts operator()(const NamedCalls& form) const { return both(form.section_open, form.open); }
  Texts operator()(const TaggedCalls& form) const { return both(form.section_open, form.open); }
  Texts operator()(const PairCalls& form) const { return both(form.section_open, form.open); }
  Texts operator()(const PythonCalls& form) const { return form.open; }
  Texts operator()(const GemmaCalls& form) const { return form.open; }
  Texts operator()(const HarmonyCalls&) const { return {}; }
  static Texts both(Texts a, const Texts& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
};

// Returns the first opener after the last closer: the beginning of an unclosed call. If the form
// has sections, these are the openers and closers of sections.
size_t open_call(std::string_view text, const CallForm& form) {
  const Texts openers = std::visit(Openers{}, form);
  Texts closers;
  if (const auto* json = std::get_if<JsonCalls>(&form)) closers = json->close;
  if (const auto* named = std::get_if<NamedCalls>(&form))
    closers = named->section_close.empty() ? named->close : named->section_close;
  if (const auto* tagged = std::get_if<TaggedCalls>(&form))
    closers = tagged->section_close.empty() ? tagged->close : tagged->section_close;
  if (const auto* pair = std::get_if<PairCalls>(&form)) closers = pair->close;
  if (const auto* python = std::get_if<PythonCalls>(&form)) closers = python->close;
  if (const auto* gemma = std::get_if<GemmaCalls>(&form)) closers = gemma->close;
  const size_t closed = last_of(text, closers);
  size_t first = text.npos;
  for (const std::string& opener : openers)
    first = std::min(first, text.find(opener, closed == text.npos ? 0 : closed));
  return first;
}

// Returns whether this text, the whole answer so far, can begin a call without a marker.
bool may_be_bare(std::string_view text, const Format& format) {
  const bool has_bare = std::ranges::any_of(format.calls, [](const CallForm& form) {
    const bool is_bare_form =
        std::holds_alternative<JsonCalls>(form) || std::holds_alternative<PythonCalls>(form);
    return is_bare_form && std::visit(Openers{}, form).empty();
  });
  return has_bare && (text.starts_with('{') || text.starts_with('['));
}

Start start_of_continuation(const Format& format, std::string_view text) {
  const std::string_view bare = trimmed(text);
  const size_t opened = last_of(text, format.thinking.open);
  const size_t closed = last_of(text, format.thinking.close);
  if (opened != text.npos && (closed == text.npos || closed < opened))
    return {StartState::kThinking, {}};
  for (const CallForm& form : format.calls) {
    const size_t call = open_call(text, form);
    if (call != text.npos) return {StartState::kContinued, std::string(text.substr(call))};
  }
  if (may_be_bare(bare, format)) return {StartState::kText, std::string(bare)};
  return {StartState::kContinued, {}};
}

// Returns the last header that the prompt has begun as the prefix, unless its message is over.
Start start_of_harmony(std::string_view prompt, const StartHints& hints) {
  const size_t header = prompt.rfind("<|start|>");
  if (header == prompt.npos) {
    // The header is before the end of the prompt that was searched.
    std::string prefix;
    if (!trimmed(hints.text).empty()) prefix = "<|start|>assistant<|channel|>final<|message|>";
    if (hints.continues_thinking) prefix = "<|start|>assistant<|channel|>analysis<|message|>";
    return {StartState::kText, std::move(prefix)};
  }
  const std::string_view rest = prompt.substr(header);
  const bool is_over = rest.find("<|end|>") != rest.npos || rest.find("<|call|>") != rest.npos ||
                       rest.find("<|return|>") != rest.npos;
  return {StartState::kText, is_over ? std::string() : std::string(rest)};
}

}  // namespace

Start start_of(const Format& format, std::string_view prompt, const StartHints& hints) {
  prompt = prompt.substr(prompt.size() - std::min(prompt.size(), kTail));
  for (const CallForm& form : format.calls) {
    if (std::holds_alternative<HarmonyCalls>(form)) return start_of_harmony(prompt, hints);
    // The prompt may end with the opener of a name that decides between text and a call.
    const auto* named = std::get_if<NamedCalls>(&form);
    if (named && !named->text_name.empty() && ends_with_any(prompt, named->open))
      return {StartState::kText, named->open.front()};
  }
  const Thinking& thinking = format.thinking;
  if (!trimmed(hints.text).empty()) return start_of_continuation(format, hints.text);
  if (hints.continues_thinking && !thinking.close.empty()) return {StartState::kThinking, {}};
  if (ends_with_any(prompt, thinking.open)) return {StartState::kThinking, {}};
  if (thinking.close.empty() || ends_with_any(prompt, thinking.close))
    return {StartState::kText, {}};
  if (thinking.begins_open) return {StartState::kThinking, {}};
  const bool is_after_result = ends_with_any(prompt, {"<tool_response|>"});
  if (thinking.resumes && is_after_result && hints.thinks) return {StartState::kThinking, {}};
  return {StartState::kMayThink, {}};
}

}  // namespace billow::output
