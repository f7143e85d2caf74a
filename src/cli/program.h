// The program as a whole: its commands in groups, its exit statuses and its errors. For the main
// thread.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace billow::cli {

// Exit statuses. A command that was interrupted ends with 130.
inline constexpr int kFailed = 1;      // the command could not do its work
inline constexpr int kWrongUsage = 2;  // a command, option or argument is wrong

// Declares every command on `app`, with its group and its examples.
void declare_commands(CLI::App& app);

// Returns the options and arguments that a command's help shows, those of option groups included.
std::vector<const CLI::Option*> shown_options(const CLI::App& command);

// Return the names of a command's visible options ("--model", "-m"), and of the program's visible
// commands with their aliases.
std::vector<std::string> option_names(const CLI::App& command);
std::vector<std::string> command_names(const CLI::App& app);

// Returns the command of this name or alias; null if there is none.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

// Prints "billow: error: MESSAGE" on standard error, in colour on a terminal. Returns kFailed.
int report_error(const std::string& message);

// Reports wrong usage of a command with a pointer to its help. Returns kWrongUsage.
int report_usage(const CLI::App& command, const std::string& message);

// Runs the command that the arguments name and returns the exit status. Throws what the command
// throws.
int run_program(int argc, char** argv);

}  // namespace billow::cli
