// Checks of the values of options. The command line, the configuration file and variables of the
// environment share them. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace billow::cli {

// Throws an error that run_program() reports as wrong usage of the command, with status 2.
[[noreturn]] void refuse_usage(const std::string& message);
// Runs `parse`. Its Error kInvalidInput becomes wrong usage.
void as_usage(const std::function<void()>& parse);

// Accepts whole numbers from `min` to `max`.
CLI::Validator whole_number(uint64_t min, uint64_t max = std::numeric_limits<uint64_t>::max());
// Accepts numbers from `min` to `max`, with or without a fraction.
CLI::Validator number(double min, double max);
// Accepts texts for which `parse` throws no Error. An empty text means the default, so it is
// accepted, too.
CLI::Validator accepted_by(std::function<void(const std::string&)> parse);
// Accepts sizes, like 512M.
CLI::Validator byte_size();
// Accepts sizes of --memory: above 0, or a share like 80%.
CLI::Validator memory_size();

// Adds a check to the options of `command` and of its subcommands whose type is unsigned: they
// refuse what is not a whole number. The library would turn -1 into 2^64 - 1.
void refuse_wrong_counts(CLI::App& command);

// Returns why the checks of an option refuse a value; empty: they accept it.
std::string fault_of(const CLI::Option& option, std::string value);

}  // namespace billow::cli
