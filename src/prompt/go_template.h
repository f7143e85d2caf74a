// A template in Go's text/template language, as models of Ollama's registry have it. It is parsed
// once and rendered any number of times. Templates are untrusted: nesting, steps and the length of
// texts are limited. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace billow::prompt {

namespace go {
class Value;
struct Program;
}  // namespace go

inline constexpr size_t kMaxGoTemplateBytes = size_t{1} << 20;

// Limits of one rendering. A long template takes a few hundred steps per message.
struct GoLimits {
  uint64_t n_steps = 2'000'000;
  uint64_t n_bytes = uint64_t{64} << 20;  // of the output and of intermediate texts
};

// How much of the template is rendered.
enum class GoPart {
  kAll,
  kToResponse,  // up to the first action that prints .Response, which runs last
};

class GoTemplate {
 public:
  using Names = std::set<std::string, std::less<>>;

  // Parses `source`. If a template mentions neither .Messages nor .Response, {{ .Response }} is
  // appended. Throws Error "template: :LINE: what" (kInvalidInput; kTooLarge beyond a limit).
  explicit GoTemplate(std::string source, const GoLimits& limits = {});

  // Returns the names of all fields that the template mentions: "Messages", "Role", "Content".
  const Names& variables() const { return variables_; }
  bool mentions(std::string_view name) const { return variables_.contains(name); }

  // Renders with `data` as the dot. `now` is the clock of currentDate; -1: the machine's clock.
  // Throws Error like the constructor if the rendering fails.
  std::string render(const go::Value& data, GoPart part = GoPart::kAll, std::time_t now = -1) const;

  const std::string& source() const;
  // Returns the parsed template, for code that inspects the template.
  const go::Program& program() const { return *program_; }

 private:
  std::shared_ptr<const go::Program> program_;
  GoLimits limits_;
  Names variables_;
  size_t response_order_;  // order of the first action that prints .Response
};

}  // namespace billow::prompt
