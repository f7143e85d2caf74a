#include "llama/log_line.h"

#include <gtest/gtest.h>

#include <cmath>

namespace billow::llama {
namespace {

TEST(LogLine, ParsesLevelAndText) {
  const LogLine error = parse_log_line("0.00.004.113 E load_model: failed to load");
  EXPECT_EQ(error.level, LogLevel::kError);
  EXPECT_EQ(error.text, "load_model: failed to load");
  EXPECT_EQ(parse_log_line("1.02.003.004 W slow").level, LogLevel::kWarning);
  const LogLine info = parse_log_line("0.00.331.0 I srv  init: ready");
  EXPECT_EQ(info.level, LogLevel::kDebug);
  EXPECT_EQ(info.text, "srv  init: ready");
  EXPECT_EQ(parse_log_line("E no time").level, LogLevel::kError);
}

TEST(LogLine, KeepsOtherText) {
  for (const char* text : {"error while loading shared libraries: libllama.so", "1.2.3", "x"}) {
    EXPECT_EQ(parse_log_line(text).text, text);
    EXPECT_EQ(parse_log_line(text).level, LogLevel::kDebug);
  }
  EXPECT_EQ(parse_log_line("").text, "");
  EXPECT_EQ(parse_log_line("\xff").text, "\xef\xbf\xbd");
}

TEST(BufferLine, ParsesBufferSize) {
  const BufferLine kv =
      parse_buffer_line("llama_kv_cache:        CPU KV buffer size =    45.00 MiB");
  EXPECT_EQ(kv.kind, BufferKind::kKv);
  EXPECT_EQ(kv.device, "CPU");
  EXPECT_EQ(kv.bytes, 45u << 20);
  const BufferLine weights =
      parse_buffer_line("load_tensors:   CPU_Mapped model buffer size =    92.10 MiB");
  EXPECT_EQ(weights.kind, BufferKind::kWeights);
  EXPECT_EQ(weights.device, "CPU_Mapped");
  EXPECT_NEAR(static_cast<double>(weights.bytes), 92.10 * 1024 * 1024, 1.0);
  EXPECT_EQ(parse_buffer_line("sched_reserve:  CUDA0 compute buffer size =   15.51 MiB").kind,
            BufferKind::kScratch);
  EXPECT_EQ(parse_buffer_line("llama_context:  CPU  output buffer size =     0.75 MiB").kind,
            BufferKind::kScratch);
}

TEST(BufferLine, IgnoresOtherLines) {
  for (const char* text : {"", " KV buffer size", "CPU KV buffer size = x MiB",
                           "CPU KV buffer size = -1 MiB", "CPU KV buffer size = 1e300 MiB",
                           "CPU KV buffer size = nan MiB", "CPU KV buffer size MiB = 1"})
    EXPECT_EQ(parse_buffer_line(text).kind, BufferKind::kNone) << text;
}

}  // namespace
}  // namespace billow::llama
