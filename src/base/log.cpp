#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <optional>

namespace billow::log {
namespace {

using spdlog::level::level_enum;

// Returns the level that BILLOW_LOG names; nullopt if it is not set, empty or wrong.
std::optional<level_enum> wanted_level() {
  const char* text = std::getenv("BILLOW_LOG");
  if (text == nullptr) return std::nullopt;
  const level_enum level = spdlog::level::from_str(text);  // "off" for unknown names
  const bool is_known = level != level_enum::off || std::string_view(text) == "off";
  return is_known ? std::optional(level) : std::nullopt;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = spdlog::stderr_color_mt("billow");
    made->set_pattern("billow: %^%l%$: %v");
    made->set_level(wanted_level().value_or(spdlog::level::warn));
    if (const std::string fault = level_fault(); !fault.empty()) made->warn(fault);
    return made;
  }();
  return *instance;
}

}  // namespace

void debug(std::string_view message) { logger().debug(message); }
void info(std::string_view message) { logger().info(message); }
void warn(std::string_view message) { logger().warn(message); }

void for_a_server(bool debug) {
  logger().set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$: %v");
  if (!wanted_level()) logger().set_level(debug ? level_enum::debug : level_enum::info);
  // The children of the server would repeat the warning.
  if (!level_fault().empty()) ::unsetenv("BILLOW_LOG");
}

void show_info() {
  if (!wanted_level()) logger().set_level(level_enum::info);
}

std::string level_fault() {
  const char* text = std::getenv("BILLOW_LOG");
  if (text == nullptr || *text == '\0' || wanted_level()) return {};
  return "BILLOW_LOG: '" + std::string(text) +
         "' is not debug, info, warn, error or off; the default is used";
}

void hide_info() {
  if (logger().level() < spdlog::level::warn) logger().set_level(spdlog::level::warn);
}

}  // namespace billow::log
