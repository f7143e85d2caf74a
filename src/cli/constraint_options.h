// Command line options for the form of an answer.
#pragma once

#include <optional>
#include <string>

#include "constraint/grammar.h"

namespace CLI {
class App;
}

namespace billow::cli {

struct ConstraintFlags {
  std::string json_schema;  // path of a file
  std::string grammar;      // path of a file
  std::string regex;
  bool json_mode = false;
  std::string behind;  // the constraint starts after this text

  void declare(CLI::App& command);
  // Returns the constraint, or nullopt if none is requested. Throws Error if a file cannot be read
  // or has an unsupported constraint; the message names the file.
  std::optional<constraint::Constraint> constraint() const;
};

}  // namespace billow::cli
