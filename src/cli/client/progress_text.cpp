#include "cli/client/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "cli/client/format.h"

namespace billow::cli {
namespace {

constexpr std::chrono::seconds kRateWindow{5};
constexpr std::chrono::milliseconds kSampleInterval{200};
constexpr size_t kMinBarColumns = 4;

// Returns a bar like " ▕███   ▏ " with `n_columns` columns between its ends.
std::string bar(double share, size_t n_columns) {
  const auto n_filled = static_cast<size_t>(share * static_cast<double>(n_columns));
  std::string text = " ▕";
  for (size_t i = 0; i < n_columns; ++i) text += i < n_filled ? "█" : " ";
  return text + "▏ ";
}

// Formats a duration: "59s", "1m59s", "2h3m".
std::string seconds_text(double seconds) {
  if (seconds > 99 * 3600.0) return "99h+";
  const auto n = static_cast<uint64_t>(std::ceil(seconds));
  if (n < 60) return fmt::format("{}s", n);
  if (n < 3600) return fmt::format("{}m{}s", n / 60, n % 60);
  return fmt::format("{}h{}m", n / 3600, n % 3600 / 60);
}

// The texts after the bar. Each has a fixed width, so that it does not move when numbers grow.
struct Columns {
  std::string sizes;  // "1.2 GB/2.7 GB"
  std::string rate;   // "   50 MB/s"
  std::string time;   // "     30s"
};

Columns columns_of(const TransferProgress& progress, uint64_t n_done) {
  const std::string total = human_bytes(progress.n_total);
  if (n_done >= progress.n_total)
    return {fmt::format("{:>6}{:7}", total, ""), std::string(10, ' '), std::string(8, ' ')};
  Columns columns{fmt::format("{:>6}/{:>6}", human_bytes(n_done), total), std::string(10, ' '),
                  std::string(8, ' ')};
  if (progress.bytes_per_second < 1) return columns;
  const auto n_left = static_cast<double>(progress.n_total - n_done);
  columns.rate =
      fmt::format("  {:>6}/s", human_bytes(static_cast<uint64_t>(progress.bytes_per_second)));
  columns.time = fmt::format("  {:>6}", seconds_text(n_left / progress.bytes_per_second));
  return columns;
}

}  // namespace

void RateMeter::add(Time now, uint64_t n_done) {
  if (!samples_.empty() && n_done < samples_.back().n_done)
    samples_.clear();  // the transfer restarted
  if (!samples_.empty() && now - samples_.back().time < kSampleInterval) return;
  samples_.push_back({now, n_done});
  while (samples_.size() > 2 && now - samples_.front().time > kRateWindow) samples_.pop_front();
}

double RateMeter::bytes_per_second() const {
  if (samples_.size() < 2) return 0;
  const std::chrono::duration<double> time = samples_.back().time - samples_.front().time;
  return static_cast<double>(samples_.back().n_done - samples_.front().n_done) / time.count();
}

std::string cut_to_columns(std::string_view line, size_t n_columns) {
  if (display_width(line) <= n_columns) return std::string(line);
  if (n_columns == 0) return "";
  std::string cut;
  size_t width = 1;  // of the "…"
  for (size_t at = 0; at < line.size();) {
    const utf8::CodePoint c = utf8::decode(line.substr(at));
    width += column_width(c.value);
    if (width > n_columns) break;
    cut += line.substr(at, c.n_bytes);
    at += c.n_bytes;
  }
  return cut + "…";
}

std::string progress_line(std::string_view step, const TransferProgress& progress,
                          size_t n_columns) {
  const uint64_t n_done = std::min(progress.n_done, progress.n_total);
  const double share = progress.n_total == 0
                           ? 1.0
                           : static_cast<double>(n_done) / static_cast<double>(progress.n_total);
  const std::string head =
      fmt::format("{}{}{:3}%", step, step.empty() ? "" : " ", static_cast<int>(share * 100));
  const Columns columns = columns_of(progress, n_done);
  const size_t frame = display_width(bar(0, 0));
  for (const std::string& tail :
       {fmt::format("{}{}{}", columns.sizes, columns.rate, columns.time),
        fmt::format("{}{}", columns.sizes, columns.rate), columns.sizes, std::string()}) {
    const size_t used = display_width(head) + frame + display_width(tail);
    if (used + kMinBarColumns <= n_columns) {
      std::string line = fmt::format("{}{}{}", head, bar(share, n_columns - used), tail);
      line.erase(line.find_last_not_of(' ') + 1);
      return line;
    }
  }
  return cut_to_columns(head, n_columns);
}

}  // namespace billow::cli
