// Names of models: [scheme://][host[:port]/][namespace/]model[:tag]. Parsing is strict, so that
// each part is safe as a file name. Printing omits default parts. Pure functions; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace billow::store {

inline constexpr std::string_view kDefaultHost = "registry.ollama.ai";
inline constexpr std::string_view kDefaultNamespace = "library";
inline constexpr std::string_view kDefaultTag = "latest";

struct Name {
  std::string scheme = "https";  // or "http"; does not matter in a store
  std::string host{kDefaultHost};
  std::string space{kDefaultNamespace};  // the namespace
  std::string model;
  std::string tag{kDefaultTag};

  bool operator==(const Name&) const = default;
};

// Parses a name and fills in missing parts. Returns nullopt if the text violates the grammar.
// Spaces around the name are not removed.
std::optional<Name> parse_name(std::string_view text);

// Returns whether parse_name() could return all parts. Each part is then a file name that cannot
// lead out of its folder.
bool is_valid(const Name& name) noexcept;

// Returns "llama3.2:1b"; includes host and namespace only if they are not the defaults.
std::string display_name(const Name& name);
// Returns "llama3.2" if the tag is the default, too.
std::string short_name(const Name& name);
// Returns "registry.ollama.ai/library/llama3.2:1b".
std::string full_name(const Name& name);

// Returns the path of the manifest: "registry.ollama.ai/library/llama3.2/1b".
std::string manifest_path(const Name& name);

// Returns whether two names mean the same model: all parts except the scheme are equal, ignoring
// case.
bool same_model(const Name& a, const Name& b) noexcept;

// The requested location of a model. The suffixes ":local", ":cloud" and "-cloud" of a tag select
// it, in any case.
enum class Source { kAny, kLocal, kCloud };
struct SourcedName {
  std::string name;  // without ":local" or ":cloud"; "-cloud" stays, because it belongs to the tag
  Source source = Source::kAny;
};
// Splits a name and its source. Throws Error (kInvalidInput) if `text` requests both sources.
SourcedName split_source(std::string_view text);

}  // namespace billow::store
