#include "cli/option_checks.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "cli/program.h"
#include "cpu/memory.h"

namespace billow::cli {
namespace {

// Parses a number as the library does: 12, 0x0c or 014, but without a minus sign.
std::optional<uint64_t> number_of(const std::string& text) {
  const char* const begin = text.c_str() + (text.starts_with('+') ? 1 : 0);
  if (std::isdigit(static_cast<unsigned char>(*begin)) == 0) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const uint64_t number = std::strtoull(begin, &end, 0);
  if (errno != 0 || end != text.c_str() + text.size()) return std::nullopt;
  return number;
}

std::string fault_of_parse(const std::function<void(const std::string&)>& parse,
                           const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

void refuse_usage(const std::string& message) { throw CLI::ParseError(message, kWrongUsage); }

void as_usage(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidInput) throw;
    refuse_usage(error.what());
  }
}

CLI::Validator whole_number(uint64_t min, uint64_t max) {
  const std::string range = max == std::numeric_limits<uint64_t>::max()
                                ? fmt::format("of at least {}", min)
                                : fmt::format("from {} to {}", min, max);
  return {[min, max, range](const std::string& text) {
            const std::optional<uint64_t> number = number_of(text);
            if (number && *number >= min && *number <= max) return std::string();
            const bool only_digits = text.find_first_not_of("0123456789") == std::string::npos;
            if (!number && only_digits && !text.empty()) return text + " is too large";
            return fmt::format("'{}' is not a whole number {}", text, range);
          },
          ""};
}

CLI::Validator number(double min, double max) {
  return {[min, max](const std::string& text) {
            double number = 0.0;
            const char* const end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data(), end, number);
            const bool is_number = error == std::errc() && stop == end;
            if (is_number && number >= min && number <= max) return std::string();  // not for NaN
            return fmt::format("'{}' is not a number from {} to {}", text, min, max);
          },
          ""};
}

CLI::Validator accepted_by(std::function<void(const std::string&)> parse) {
  return {[parse = std::move(parse)](const std::string& text) {
            return text.empty() ? std::string() : fault_of_parse(parse, text);
          },
          ""};
}

CLI::Validator byte_size() {
  return accepted_by([](const std::string& text) { (void)parse_byte_size(text); });
}

CLI::Validator memory_size() {
  const auto parse = [](const std::string& text) {
    if (parse_byte_size(text, cpu::usable_memory()) > 0) return;
    throw Error(ErrorCode::kInvalidInput,
                text + " leaves no memory; give a size like 2G or leave it out");
  };
  return {[parse](const std::string& text) { return fault_of_parse(parse, text); }, ""};
}

void refuse_wrong_counts(CLI::App& command) {
  for (CLI::Option* option : command.get_options([](CLI::Option*) { return true; }))
    if (option->get_type_name().starts_with("UINT")) option->check(whole_number(0));
  for (CLI::App* part : command.get_subcommands([](CLI::App*) { return true; }))
    refuse_wrong_counts(*part);
}

std::string fault_of(const CLI::Option& option, std::string value) {
  auto& checked = const_cast<CLI::Option&>(option);  // the library shows checks of no const option
  for (int i = 0;; ++i) {
    const CLI::Validator* check = nullptr;
    try {
      check = checked.get_validator(i);
    } catch (const CLI::OptionNotFound&) {
      return {};  // there are no more checks
    }
    if (std::string fault = (*check)(value); !fault.empty()) return fault;
  }
}

}  // namespace billow::cli
