#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace billow::log {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = spdlog::stderr_color_mt("billow");
    made->set_pattern("billow: %^%l%$: %v");
    const char* level = std::getenv("BILLOW_LOG");
    made->set_level(level ? spdlog::level::from_str(level) : spdlog::level::warn);
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
  if (std::getenv("BILLOW_LOG") == nullptr)
    logger().set_level(debug ? spdlog::level::debug : spdlog::level::info);
}

void show_info() {
  if (std::getenv("BILLOW_LOG") == nullptr) logger().set_level(spdlog::level::info);
}

void hide_info() {
  if (logger().level() < spdlog::level::warn) logger().set_level(spdlog::level::warn);
}

}  // namespace billow::log
