// The compiled parts of fmt, spdlog and toml++, made from their headers: Debian has no static
// libraries of them.
#define SPDLOG_COMPILED_LIB
#define SPDLOG_FMT_EXTERNAL
#define TOML_HEADER_ONLY 0
#define TOML_IMPLEMENTATION

#include <fmt/format-inl.h>
#include <spdlog/common-inl.h>
#include <spdlog/details/backtracer-inl.h>
#include <spdlog/details/log_msg-inl.h>
#include <spdlog/details/log_msg_buffer-inl.h>
#include <spdlog/details/os-inl.h>
#include <spdlog/details/periodic_worker-inl.h>
#include <spdlog/details/registry-inl.h>
#include <spdlog/logger-inl.h>
#include <spdlog/pattern_formatter-inl.h>
#include <spdlog/sinks/ansicolor_sink-inl.h>
#include <spdlog/sinks/base_sink-inl.h>
#include <spdlog/sinks/sink-inl.h>
#include <spdlog/sinks/stdout_color_sinks-inl.h>
#include <spdlog/spdlog-inl.h>
#include <toml++/toml.h>

#include <mutex>

namespace fmt::detail {
template void vformat_to(buffer<char>&, basic_string_view<char>,
                         basic_format_args<buffer_context<char>>, locale_ref);
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
}  // namespace fmt::detail

namespace spdlog {
template class sinks::base_sink<std::mutex>;
template class sinks::ansicolor_sink<details::console_mutex>;
template class sinks::ansicolor_sink<details::console_nullmutex>;
template class sinks::ansicolor_stderr_sink<details::console_mutex>;
template std::shared_ptr<logger> stderr_color_mt<synchronous_factory>(const std::string&,
                                                                      color_mode);
}  // namespace spdlog
