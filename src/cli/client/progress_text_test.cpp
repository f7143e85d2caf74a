#include "cli/client/progress_text.h"

#include <gtest/gtest.h>

#include "cli/client/format.h"

namespace billow::cli {
namespace {

using std::chrono::milliseconds;

TEST(ProgressLine, FillsItsBar) {
  const auto line = [](uint64_t n_done, uint64_t n_total) {
    return progress_line("x", {.n_done = n_done, .n_total = n_total}, 30);
  };
  EXPECT_EQ(line(0, 1000), "x   0% ▕       ▏    0 B/  1 KB");
  EXPECT_EQ(line(500, 1000), "x  50% ▕███    ▏  500 B/  1 KB");
  EXPECT_EQ(line(9999, 1000), "x 100% ▕███████▏   1 KB");
  EXPECT_EQ(line(0, 0), "x 100% ▕███████▏    0 B");
}

// The expected lines are those of Ollama's program on a terminal of 80 columns.
TEST(ProgressLine, MatchesOllama) {
  EXPECT_EQ(progress_line(
                "pulling 6a0746a1ec1a:",
                {.n_done = 1'200'000'000, .n_total = 2'700'000'000, .bytes_per_second = 50e6}, 79),
            "pulling 6a0746a1ec1a:  44% ▕████████          ▏ 1.2 GB/2.7 GB   50 MB/s     30s");
  EXPECT_EQ(progress_line(
                "pulling 6a0746a1ec1a:", {.n_done = 2'700'000'000, .n_total = 2'700'000'000}, 79),
            "pulling 6a0746a1ec1a: 100% ▕██████████████████▏ 2.7 GB");
}

TEST(ProgressLine, ShowsRateAndTimeLeft) {
  TransferProgress progress{.n_done = 400, .n_total = 1'000'400, .bytes_per_second = 10'000};
  EXPECT_TRUE(progress_line("x", progress, 80).ends_with("▏  400 B/1.0 MB   10 KB/s   1m40s"))
      << progress_line("x", progress, 80);
  progress.bytes_per_second = 1'000'000;
  EXPECT_TRUE(progress_line("x", progress, 80).ends_with("    1 MB/s      1s"))
      << progress_line("x", progress, 80);
  progress.bytes_per_second = 1;
  EXPECT_TRUE(progress_line("x", progress, 80).ends_with("     1 B/s    99h+"))
      << progress_line("x", progress, 80);
  progress.n_done = progress.n_total;
  EXPECT_TRUE(progress_line("x", progress, 80).ends_with("▏ 1.0 MB"))
      << progress_line("x", progress, 80);
}

TEST(ProgressLine, IsNeverWiderThanTheTerminal) {
  const TransferProgress progress{
      .n_done = 1'200'000'000, .n_total = 2'700'000'000, .bytes_per_second = 50e6};
  for (const char* step : {"pulling 6a0746a1ec1a:", "copying 模型 sha256:0123456789abcdef", ""}) {
    for (size_t n_columns = 0; n_columns < 120; ++n_columns) {
      const std::string line = progress_line(step, progress, n_columns);
      EXPECT_LE(display_width(line), n_columns) << line;
    }
  }
  EXPECT_EQ(progress_line("pulling 6a0746a1ec1a:", progress, 60),
            "pulling 6a0746a1ec1a:  44% ▕███    ▏ 1.2 GB/2.7 GB   50 MB/s");
  EXPECT_EQ(progress_line("pulling 6a0746a1ec1a:", progress, 50),
            "pulling 6a0746a1ec1a:  44% ▕███    ▏ 1.2 GB/2.7 GB");
  EXPECT_EQ(progress_line("pulling 6a0746a1ec1a:", progress, 40),
            "pulling 6a0746a1ec1a:  44% ▕████      ▏");
  EXPECT_EQ(progress_line("pulling 6a0746a1ec1a:", progress, 30), "pulling 6a0746a1ec1a:  44%");
  EXPECT_EQ(progress_line("pulling 6a0746a1ec1a:", progress, 10), "pulling 6…");
}

TEST(ProgressLine, CutsBetweenCharacters) {
  EXPECT_EQ(cut_to_columns("abc", 3), "abc");
  EXPECT_EQ(cut_to_columns("abcd", 3), "ab…");
  EXPECT_EQ(cut_to_columns("模型模", 4), "模…");
  EXPECT_EQ(cut_to_columns("abc", 0), "");
}

TEST(RateMeter, MeasuresTheLastSeconds) {
  RateMeter rate;
  const RateMeter::Time start{};
  EXPECT_EQ(rate.bytes_per_second(), 0);
  rate.add(start, 1000);
  EXPECT_EQ(rate.bytes_per_second(), 0);
  rate.add(start + milliseconds(10), 2000);  // too early to be counted
  rate.add(start + milliseconds(1000), 3000);
  EXPECT_EQ(rate.bytes_per_second(), 2000);
  for (int i = 2; i < 20; ++i) rate.add(start + milliseconds(1000 * i), 3000);
  EXPECT_EQ(rate.bytes_per_second(), 0);
  rate.add(start + milliseconds(21000), 10);  // fetched again
  EXPECT_EQ(rate.bytes_per_second(), 0);
}

}  // namespace
}  // namespace billow::cli
