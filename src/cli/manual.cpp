// billow __man FOLDER: writes the pages of the manual, billow.1 and one for each command, from the
// same declarations that --help shows.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/program.h"

namespace billow::cli {
namespace {

// A text in roff: backslashes and hyphens are escaped, and no line begins with a control character.
std::string roff(const std::string& text) {
  std::string out;
  bool at_line_start = true;
  for (const char c : text) {
    if (at_line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    at_line_start = c == '\n';
  }
  return out;
}

std::string heading(const std::string& page) {
  return fmt::format(".TH {} 1 \"\" \"Billow {}\" \"Billow manual\"\n", roff(page), BILLOW_VERSION);
}

std::string verbatim(const std::string& text) {
  return ".nf\n" + roff(text) + (text.ends_with('\n') ? "" : "\n") + ".fi\n";
}

std::string option_text(const CLI::Option& option) {
  std::string names =
      option.get_positional() ? option.get_name(true) : option.get_name(false, true);
  if (!option.get_positional() && option.get_items_expected_max() > 0)
    names += " " + option.get_type_name();
  std::string text = ".TP\n\\fB" + roff(names) + "\\fR\n" + roff(option.get_description());
  if (const std::string usual = option.get_default_str(); !usual.empty())
    text += roff(" [" + usual + "]");
  return text + "\n";
}

std::string options_text(const CLI::App& command) {
  std::string positionals;
  std::string others;
  for (const CLI::Option* option : shown_options(command))
    (option->get_positional() ? positionals : others) += option_text(*option);
  return (positionals.empty() ? "" : ".SH ARGUMENTS\n" + positionals) +
         (others.empty() ? "" : ".SH OPTIONS\n" + others);
}

// The usage line of --help, without its label.
std::string usage_of(const CLI::App& command) {
  std::string help = command.help("billow");
  const size_t begin = help.find("Usage: ");
  if (begin == std::string::npos) return "billow " + command.get_name() + " [OPTIONS]";
  help = help.substr(begin + 7);
  return help.substr(0, help.find('\n'));
}

std::string footer_text(const std::string& footer) {
  return footer.empty() ? "" : ".SH NOTES\n" + verbatim(footer);
}

std::string command_page(const CLI::App& command) {
  const std::string page = "billow-" + command.get_name();
  return heading(page) + ".SH NAME\n" + roff(page) + " \\- " + roff(command.get_description()) +
         "\n.SH SYNOPSIS\n" + verbatim(usage_of(command)) + options_text(command) +
         footer_text(command.get_footer()) + ".SH SEE ALSO\n\\fBbillow\\fR(1)\n";
}

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  std::vector<const CLI::App*> shown;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty()) shown.push_back(command);
  return shown;
}

std::string main_page(const CLI::App& app) {
  std::string text = heading("billow") +
                     ".SH NAME\nbillow \\- serve language and embedding models from GGUF files\n"
                     ".SH SYNOPSIS\n.nf\nbillow COMMAND [OPTIONS]\n.fi\n.SH DESCRIPTION\n" +
                     roff(app.get_description()) + "\n";
  std::string group;
  for (const CLI::App* command : shown_commands(app)) {
    if (command->get_group() != group) text += ".SS " + roff(group = command->get_group()) + "\n";
    text += ".TP\n\\fB" + roff(command->get_name()) + "\\fR\n" + roff(command->get_description()) +
            "\n";
  }
  text += options_text(app) + footer_text(app.get_footer()) +
          ".SH FILES\n.TP\n~/.ollama/models\nThe models (BILLOW_MODELS).\n"
          ".TP\n~/.config/billow/billow.toml, /etc/billow/billow.toml\nThe options of \\fBbillow "
          "serve\\fR (BILLOW_CONFIG).\n.SH SEE ALSO\n";
  for (const CLI::App* command : shown_commands(app))
    text += (command == shown_commands(app).front() ? "" : ",\n") +
            ("\\fBbillow\\-" + roff(command->get_name()) + "\\fR(1)");
  return text + "\n";
}

void write_page(const std::string& folder, const std::string& name, const std::string& text) {
  const std::string path = folder + "/" + name + ".1";
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw system_error("cannot write the page", path, errno);
}

}  // namespace

void add_manual(CLI::App& app) {
  CLI::App* command = app.add_subcommand("__man", "Write the pages of the manual");
  auto folder = std::make_shared<std::string>();
  command->add_option("FOLDER", *folder, "An existing folder")->required();
  command->callback([&app, folder] {
    write_page(*folder, "billow", main_page(app));
    for (const CLI::App* shown : shown_commands(app))
      write_page(*folder, "billow-" + shown->get_name(), command_page(*shown));
  });
}

}  // namespace billow::cli
