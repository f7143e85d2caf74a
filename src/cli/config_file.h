// The configuration file of `billow serve`: TOML whose keys are the command's options without "--".
// An option wins over a variable of the environment, and a variable wins over the file. For the
// main thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace billow::cli {

// One setting of a file: {"keep-alive", {"1h"}}. Flags have "true" or "false".
struct Setting {
  std::string key;
  std::vector<std::string> values;
  bool is_list = false;
  std::string where;  // "FILE:LINE"
};

// Returns the settings of a TOML text, in the order of the text. `path` is for errors. Throws Error
// (kInvalidInput) for a text that is no TOML, a table, a date or a list of lists.
std::vector<Setting> parse_config(std::string_view text, const std::string& path);

// Whether the environment has this variable (KEEP_ALIVE) with a value.
using HasVariable = std::function<bool(std::string_view name)>;

// Returns the words of a command line ("--keep-alive", "1h") for the settings that neither `words`
// nor the environment decide. Throws Error (kInvalidInput) for a key that is no option of
// `command`, with suggestions, and wrong usage (option_checks.h) for a value that the option's
// checks refuse. Both name the line.
std::vector<std::string> config_words(const CLI::App& command, const std::vector<Setting>& settings,
                                      const std::vector<std::string>& words,
                                      const HasVariable& has_variable);

// Returns the path of the file: `--config FILE` in `words`, or BILLOW_CONFIG. Otherwise the first
// that exists of $XDG_CONFIG_HOME/billow/billow.toml (~/.config)
// and /etc/billow/billow.toml; an empty path if none does.
std::string find_config(const std::vector<std::string>& words);

// Inserts the settings of the file that find_config() names after the command, and `--config FILE`
// if it is missing. Throws Error if the file cannot be read.
void add_config(const CLI::App& command, std::vector<std::string>& words);

}  // namespace billow::cli
