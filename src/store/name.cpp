#include "store/name.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "base/text.h"

namespace billow::store {
namespace {

struct PartRule {
  size_t max_bytes;
  std::string_view marks;  // allowed in addition to letters, digits and '_', but not first
};
constexpr PartRule kHostRule{350, "-.:"};
constexpr PartRule kNamespaceRule{80, "-"};
constexpr PartRule kModelRule{80, "-."};
constexpr PartRule kTagRule{80, "-."};

bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool obeys(std::string_view part, const PartRule& rule) noexcept {
  if (part.empty() || part.size() > rule.max_bytes || !is_word(part.front())) return false;
  return std::ranges::all_of(
      part, [&](char c) { return is_word(c) || rule.marks.find(c) != std::string_view::npos; });
}

// Removes the last `separator` and the text after it from `text`, and returns that text. Returns
// nullopt if there is no separator.
std::optional<std::string_view> take_last(std::string_view& text, char separator) {
  const size_t at = text.rfind(separator);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view last = text.substr(at + 1);
  text.remove_suffix(text.size() - at);
  return last;
}

// Removes "http://" or "https://" from `text` and returns the scheme; empty if there is none.
std::string take_scheme(std::string_view& text) {
  for (const std::string_view scheme : {"https", "http"}) {
    const size_t n = scheme.size();
    if (equal_ignoring_case(text.substr(0, n), scheme) && text.substr(n).starts_with("://")) {
      text.remove_prefix(n + 3);
      return std::string(scheme);
    }
  }
  return "";
}

bool ends_ignoring_case(std::string_view text, std::string_view end) noexcept {
  return text.size() >= end.size() &&
         equal_ignoring_case(text.substr(text.size() - end.size()), end);
}

}  // namespace

std::optional<Name> parse_name(std::string_view text) {
  Name name;
  const std::string scheme = take_scheme(text);
  // A colon before a slash belongs to a port.
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && text.find('/', colon) == std::string_view::npos) {
    name.tag = *take_last(text, ':');
  }
  if (const auto model = take_last(text, '/')) {
    name.model = *model;
    if (const auto space = take_last(text, '/')) {
      name.space = *space;
      name.host = text;
    } else {
      if (!scheme.empty()) return std::nullopt;  // a scheme needs a host
      name.space = text;
    }
  } else {
    if (!scheme.empty()) return std::nullopt;
    name.model = text;
  }
  if (!scheme.empty()) name.scheme = scheme;
  if (!is_valid(name)) return std::nullopt;
  return name;
}

bool is_valid(const Name& name) noexcept {
  return obeys(name.host, kHostRule) && obeys(name.space, kNamespaceRule) &&
         obeys(name.model, kModelRule) && obeys(name.tag, kTagRule);
}

std::string display_name(const Name& name) {
  std::string text;
  const bool foreign = !equal_ignoring_case(name.host, kDefaultHost);
  if (foreign) text += name.host + "/";
  if (foreign || !equal_ignoring_case(name.space, kDefaultNamespace)) text += name.space + "/";
  return text + name.model + ":" + name.tag;
}

std::string short_name(const Name& name) {
  std::string text = display_name(name);
  if (equal_ignoring_case(name.tag, kDefaultTag)) text.resize(text.size() - name.tag.size() - 1);
  return text;
}

std::string full_name(const Name& name) {
  return name.host + "/" + name.space + "/" + name.model + ":" + name.tag;
}

std::string manifest_path(const Name& name) {
  return name.host + "/" + name.space + "/" + name.model + "/" + name.tag;
}

bool same_model(const Name& a, const Name& b) noexcept {
  return equal_ignoring_case(a.host, b.host) && equal_ignoring_case(a.space, b.space) &&
         equal_ignoring_case(a.model, b.model) && equal_ignoring_case(a.tag, b.tag);
}

SourcedName split_source(std::string_view text) {
  std::string_view rest = text;
  bool local = false;
  bool cloud = false;
  for (bool found = true; found;) {
    found = false;
    for (const auto& [end, flag] : {std::pair{std::string_view(":local"), &local},
                                    std::pair{std::string_view(":cloud"), &cloud}}) {
      if (!ends_ignoring_case(rest, end)) continue;
      rest.remove_suffix(end.size());
      *flag = found = true;
    }
  }
  // The "-cloud" suffix counts only in a tag.
  const size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos && rest.find('/', colon) == std::string_view::npos &&
      ends_ignoring_case(rest.substr(colon), "-cloud")) {
    cloud = true;
  }
  if (local && cloud) {
    throw Error(ErrorCode::kInvalidInput,
                "use either :local or :cloud, not both: \"" + std::string(text) + "\"");
  }
  return {std::string(rest), local ? Source::kLocal : cloud ? Source::kCloud : Source::kAny};
}

}  // namespace billow::store
