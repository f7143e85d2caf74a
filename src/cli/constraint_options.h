// What an answer is to look like, on the command line.
#pragma once

#include <optional>
#include <string>

#include "constraint/grammar.h"

namespace CLI {
class App;
}

namespace billow::cli {

struct ConstraintFlags {
  std::string json_schema;  // files
  std::string grammar;
  std::string regex;
  bool json_mode = false;
  std::string behind;

  void declare(CLI::App& command);
  // Nullopt where nothing is asked for. Throws Error naming the file that cannot be read, or what
  // in it cannot be held.
  std::optional<constraint::Constraint> constraint() const;
};

}  // namespace billow::cli
