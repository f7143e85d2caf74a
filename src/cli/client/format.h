// Formats numbers, sizes, times and tables for people. Pure and thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace billow::cli {

// Formats a size: "512 B", "1.3 GB", "12 GB". Units are powers of 1000. Numbers below 10 have one
// decimal, unless they are whole.
std::string human_bytes(uint64_t n_bytes);
// Formats a count of weights: "7B", "1.2B", "137M", "133.70M", "12K", "999".
std::string human_number(uint64_t n);

// A time in a JSON response. Nanoseconds overflow in the year 2262, milliseconds do not. The server
// reports that a model that is kept forever expires in 292 years.
using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;
// Parses RFC 3339. Returns nullopt for other texts.
std::optional<WallTime> parse_time(std::string_view text);
// Returns "2 days ago" or "4 minutes from now"; "Forever" for more than 20 years ahead; "Never" for
// no time.
std::string relative_time(std::optional<WallTime> time, WallTime now);

// Formats a duration like Go: "1m30.5s", "51ms", "1.5µs", "0s".
std::string go_duration(std::chrono::nanoseconds duration);

// Returns the columns that a character takes on a terminal: 2 for a wide character, 0 for a
// combining mark or an invisible format character. A control character counts as 1.
size_t column_width(char32_t c) noexcept;
// Returns the columns that a text takes.
size_t display_width(std::string_view text);

using Row = std::vector<std::string>;
// Formats a table. Each column is as wide as its widest cell plus 4 blanks, also the last column.
// The last title has one blank after it. Without `titles` there is no title line.
std::string table_text(const Row& titles, const std::vector<Row>& rows);

// Encodes as standard base64 with padding.
std::string base64(std::string_view bytes);

}  // namespace billow::cli
