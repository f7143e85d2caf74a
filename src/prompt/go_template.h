// A template in Go's text/template language, as models of Ollama's registry carry them: parsed
// once, then rendered any number of times. Templates are untrusted: their nesting, the steps that
// they run and the text that they make are bounded. Immutable; any thread may render.
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

// What one rendering may use. A long template takes some hundred steps per message.
struct GoLimits {
  uint64_t n_steps = 2'000'000;
  uint64_t n_bytes = uint64_t{64} << 20;  // of output, and of texts made on the way to it
};

// How much of the template is rendered.
enum class GoPart {
  kAll,
  kToResponse,  // to the first action that prints .Response: it is the last that runs
};

class GoTemplate {
 public:
  using Names = std::set<std::string, std::less<>>;

  // Parses `source`. A template that mentions neither .Messages nor .Response gets {{ .Response }}
  // at its end. Throws Error "template: :LINE: what" (kInvalidInput, or kTooLarge beyond a limit).
  explicit GoTemplate(std::string source, const GoLimits& limits = {});

  // The names of all fields mentioned anywhere: "Messages", "Role", "Content".
  const Names& variables() const { return variables_; }
  bool mentions(std::string_view name) const { return variables_.contains(name); }

  // Renders with `data` as the dot. `now` is the clock of currentDate; -1 is the machine's. Throws
  // Error as above, of what happens on the way.
  std::string render(const go::Value& data, GoPart part = GoPart::kAll, std::time_t now = -1) const;

  const std::string& source() const;
  // What the parser made of it, for those who ask the template what it is for.
  const go::Program& program() const { return *program_; }

 private:
  std::shared_ptr<const go::Program> program_;
  GoLimits limits_;
  Names variables_;
  size_t response_order_;  // of the first action that prints .Response
};

}  // namespace billow::prompt
