#include "cli/client/tables.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace billow::cli {
namespace {

const WallTime kNow{std::chrono::sys_days{std::chrono::year(2026) / 1 / 4}};

TEST(ListTable, HasALineForEachModel) {
  const Json reply = {
      {"models",
       {{{"name", "llama3.2:1b"},
         {"size", 1'321'098'329},
         {"digest", "baf6a787fdffd633537aa2eb51cfd54cb93ff08e28040095462bb63daf552878"},
         {"modified_at", "2026-01-02T00:00:00Z"}},
        {{"name", "Cloud:latest"},
         {"size", 300},
         {"digest", "0123456789abcdef"},
         {"remote_model", "x"},
         {"modified_at", "2026-01-02T00:00:00Z"}}}}};
  EXPECT_EQ(list_table(reply, "", kNow),
            "NAME            ID              SIZE      MODIFIED   \n"
            "llama3.2:1b     baf6a787fdff    1.3 GB    2 days ago    \n"
            "Cloud:latest    0123456789ab    -         2 days ago    \n");
  EXPECT_EQ(list_table(reply, "LLAMA", kNow),
            "NAME           ID              SIZE      MODIFIED   \n"
            "llama3.2:1b    baf6a787fdff    1.3 GB    2 days ago    \n");
  EXPECT_EQ(list_table({{"models", nullptr}}, "", kNow), "NAME    ID    SIZE    MODIFIED \n");
}

TEST(PsTable, ShowsProcessorAndExpiry) {
  const Json reply = {{"models",
                       {{{"name", "m:latest"},
                         {"size", 2'500'000'000},
                         {"digest", "0123456789abcdef"},
                         {"expires_at", "2026-01-04T00:04:00Z"},
                         {"size_vram", 0},
                         {"context_length", 4096}},
                        {{"name", "n:latest"},
                         {"size", 5},
                         {"digest", "f"},
                         {"expires_at", "2026-01-03T00:00:00Z"},
                         {"size_vram", 5},
                         {"context_length", 1}},
                        {{"name", "o:latest"},
                         {"size", 5},
                         {"digest", "f"},
                         {"expires_at", "2318-01-03T00:00:00Z"},
                         {"size_vram", 5},
                         {"context_length", 1}}}}};
  EXPECT_EQ(
      ps_table(reply, "", kNow),
      "NAME        ID              SIZE      PROCESSOR    CONTEXT    UNTIL              \n"
      "m:latest    0123456789ab    2.5 GB    100% CPU     4096       4 minutes from now    \n"
      "n:latest    f               5 B       100% GPU     1          Stopping...           \n"
      "o:latest    f               5 B       100% GPU     1          Forever               \n");
  EXPECT_EQ(ps_table(reply, "N", kNow), "NAME    ID    SIZE    PROCESSOR    CONTEXT    UNTIL \n");
}

TEST(ProcessorText, ShowsTheSharesOfCpuAndGpu) {
  EXPECT_EQ(processor_text(100, 0), "100% CPU");
  EXPECT_EQ(processor_text(0, 0), "100% CPU");
  EXPECT_EQ(processor_text(100, 100), "100% GPU");
  EXPECT_EQ(processor_text(100, 101), "Unknown");
  EXPECT_EQ(processor_text(0, 1), "Unknown");
  EXPECT_EQ(processor_text(1000, 755), "25%/75% CPU/GPU");
}

}  // namespace
}  // namespace billow::cli
