// Numbers, sizes, times and tables as people read them. Pure functions; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace billow::cli {

// "512 B", "1.3 GB", "12 GB": powers of 1000, one decimal below 10 unless it is whole.
std::string human_bytes(uint64_t n_bytes);
// "7B", "1.2B", "137M", "133.70M", "12K", "999": a count of weights.
std::string human_number(uint64_t n);

// The time of a JSON reply. Milliseconds reach beyond the year 2262, where nanoseconds end; a model
// that is kept for ever is said to expire 292 years from now.
using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;
// Reads RFC 3339; nullopt for anything else.
std::optional<WallTime> parse_time(std::string_view text);
// "2 days ago", "4 minutes from now", "Forever" for more than 20 years ahead, "Never" for no time.
std::string relative_time(std::optional<WallTime> time, WallTime now);

// As Go prints a duration: "1m30.5s", "51ms", "1.5µs", "0s".
std::string go_duration(std::chrono::nanoseconds duration);

// Columns that a character takes on a terminal: 2 for wide ones, 0 for marks above others.
size_t column_width(char32_t c) noexcept;
// The same for a text.
size_t display_width(std::string_view text);

using Row = std::vector<std::string>;
// Columns as wide as their widest cell and 4 blanks more, behind the last one too; behind the last
// title is one blank. An empty `titles` leaves that line out.
std::string table_text(const Row& titles, const std::vector<Row>& rows);

// Standard base64 with padding.
std::string base64(std::string_view bytes);

}  // namespace billow::cli
