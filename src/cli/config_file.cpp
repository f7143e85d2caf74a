#include "cli/config_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/suggestion.h"
#include "cli/option_checks.h"
#include "cli/option_variables.h"
#include "cli/program.h"
#include "cli/variable.h"

namespace billow::cli {
namespace {

constexpr uintmax_t kMaxFileBytes = 1 << 20;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kInvalidInput, where + ": " + what);
}

std::string where_of(const std::string& path, const toml::source_region& source) {
  return path + ":" + std::to_string(source.begin.line);
}

std::string value_of(const toml::node& node, const std::string& where, const std::string& key) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) {
    std::ostringstream text;
    text << number->get();
    return text.str();
  }
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  refuse(where, "'" + key + "' must be a text, a number, true or false, or a list of them");
}

Setting setting_of(const std::string& key, const toml::node& node, const std::string& path) {
  Setting setting{
      .key = key, .values = {}, .is_list = false, .where = where_of(path, node.source())};
  if (node.is_table()) {
    refuse(setting.where, "'" + key +
                              "' is a table; write the options of 'billow serve' without "
                              "a table, for example: keep-alive = \"1h\"");
  }
  if (const toml::array* list = node.as_array()) {
    setting.is_list = true;
    for (const toml::node& item : *list)
      setting.values.push_back(value_of(item, setting.where, key));
  } else {
    setting.values.push_back(value_of(node, setting.where, key));
  }
  return setting;
}

std::string text_of(const std::string& name) { return variable(name).value_or(""); }

// Whether the words have the option: "--host X", "--host=X", "-b 8".
bool has_option(const std::vector<std::string>& words, const CLI::Option& option) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with("--")) return option.check_lname(name.substr(2));
    return name.size() > 1 && name[0] == '-' && option.check_sname(name.substr(1, 1));
  });
}

// Splits a value as the library does for options with a delimiter.
std::vector<std::string> parts_of(const std::string& value, char delimiter) {
  if (delimiter == '\0') return {value};
  std::vector<std::string> parts;
  std::istringstream text(value);
  for (std::string part; std::getline(text, part, delimiter);) parts.push_back(part);
  return parts;
}

// The words of one setting, as the command line has them. Refuses values that the option refuses.
void append_words(std::vector<std::string>& words, const Setting& setting,
                  const CLI::Option& option) {
  const std::string name = "--" + setting.key;
  if (option.get_items_expected_max() == 0) {  // a flag
    if (setting.is_list || (setting.values[0] != "true" && setting.values[0] != "false"))
      refuse(setting.where, "'" + setting.key + "' must be true or false");
    if (setting.values[0] == "true") words.push_back(name);
    return;
  }
  std::vector<std::string> values = setting.values;
  const bool takes_list = option.get_items_expected_max() > 1 && option.get_delimiter() == '\0';
  if (setting.is_list && !takes_list) {
    std::string joined;
    for (const std::string& value : setting.values) joined += (joined.empty() ? "" : ",") + value;
    values = {joined};
  }
  for (const std::string& value : values) {
    for (const std::string& part : parts_of(value, option.get_delimiter()))
      if (const std::string fault = fault_of(option, part); !fault.empty())
        refuse_usage(fmt::format("{}: {}: {}", setting.where, name, fault));
    words.emplace_back(name).append("=").append(value);
  }
}

std::string read_text(const std::string& path) {
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) refuse(path, "is a folder; name a TOML file");
  const uintmax_t n_bytes = std::filesystem::file_size(path, failed);
  if (!failed && n_bytes > kMaxFileBytes)
    refuse(path, "is larger than 1 MiB, the max size of a configuration");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw system_error("cannot read the configuration", path, errno);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::string find_config(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("--config=")) return words[i].substr(9);
    if (words[i] == "--config" && i + 1 < words.size()) return words[i + 1];
  }
  if (const std::string path = text_of("BILLOW_CONFIG"); !path.empty()) return path;
  const std::string home = text_of("HOME");
  std::string folder = text_of("XDG_CONFIG_HOME");
  if (folder.empty() && !home.empty()) folder = home + "/.config";
  std::error_code failed;
  if (!folder.empty() && std::filesystem::exists(folder + "/billow/billow.toml", failed))
    return folder + "/billow/billow.toml";
  if (std::filesystem::exists("/etc/billow/billow.toml", failed)) return "/etc/billow/billow.toml";
  return {};
}

std::vector<Setting> parse_config(std::string_view text, const std::string& path) {
  std::vector<Setting> settings;
  try {
    const toml::table table = toml::parse(text);
    for (const auto& [key, node] : table)
      settings.push_back(setting_of(std::string(key.str()), node, path));
  } catch (const toml::parse_error& error) {
    refuse(where_of(path, error.source()), std::string(error.description()));
  }
  return settings;
}

std::vector<std::string> config_words(const CLI::App& command, const std::vector<Setting>& settings,
                                      const std::vector<std::string>& words,
                                      const HasVariable& has_variable) {
  std::vector<std::string> added;
  for (const Setting& setting : settings) {
    const CLI::Option* option = command.get_option_no_throw("--" + setting.key);
    if (option == nullptr || setting.key == "config" || setting.key == "help") {
      std::vector<std::string> keys;
      for (const std::string& name : option_names(command))
        if (name.starts_with("--") && name != "--config" && name != "--help")
          keys.push_back(name.substr(2));
      refuse(setting.where,
             "unknown setting '" + setting.key + "'" + did_you_mean(setting.key, keys));
    }
    const std::string_view name = variable_of(setting.key);
    if (has_option(words, *option) || (!name.empty() && has_variable(name))) continue;
    append_words(added, setting, *option);
  }
  return added;
}

void add_config(const CLI::App& command, std::vector<std::string>& words) {
  const std::string path = find_config(words);
  if (path.empty()) return;
  std::vector<std::string> added =
      config_words(command, parse_config(read_text(path), path), words,
                   [](std::string_view name) { return !deciding_variable(name).empty(); });
  if (!has_option(words, *command.get_option("--config"))) added.push_back("--config=" + path);
  words.insert(words.begin() + 1, added.begin(), added.end());
}

}  // namespace billow::cli
