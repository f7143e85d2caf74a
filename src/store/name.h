// Names of models, [scheme://][host[:port]/][namespace/]model[:tag]: parsed strictly, so that a
// part can stand as a file name, and printed with what is usual left out. Pure functions; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace billow::store {

inline constexpr std::string_view kDefaultHost = "registry.ollama.ai";
inline constexpr std::string_view kDefaultNamespace = "library";
inline constexpr std::string_view kDefaultTag = "latest";

struct Name {
  std::string scheme = "https";  // or "http"; no part of what the name means in a store
  std::string host{kDefaultHost};
  std::string space{kDefaultNamespace};  // the namespace
  std::string model;
  std::string tag{kDefaultTag};

  bool operator==(const Name&) const = default;
};

// The name that `text` says, what it leaves out filled in; nullopt when it breaks the grammar.
// Blanks around it are not taken off.
std::optional<Name> parse_name(std::string_view text);

// Whether all parts are such as parse_name would give: each is then a file name that cannot lead
// out of its folder.
bool is_valid(const Name& name) noexcept;

// "llama3.2:1b": host and namespace only where they are not the usual ones.
std::string display_name(const Name& name);
// "llama3.2" where the tag is the usual one too.
std::string short_name(const Name& name);
// "registry.ollama.ai/library/llama3.2:1b"
std::string full_name(const Name& name);

// "registry.ollama.ai/library/llama3.2/1b": where its manifest lies.
std::string manifest_path(const Name& name);

// Whether two names mean one model: scheme apart, all parts are equal ignoring case.
bool same_model(const Name& a, const Name& b) noexcept;

// Where a model asked for is to be found, by the endings ":local", ":cloud" and "-cloud" of a tag,
// in any case.
enum class Source { kAny, kLocal, kCloud };
struct SourcedName {
  std::string name;  // without ":local" or ":cloud"; "-cloud" belongs to the tag and stays
  Source source = Source::kAny;
};
// Throws Error (kInvalidInput) when `text` asks for both.
SourcedName split_source(std::string_view text);

}  // namespace billow::store
