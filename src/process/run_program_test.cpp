#include "process/run_program.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace billow::process {
namespace {

struct Written {
  std::string output;
  std::vector<std::string> lines;
  int status = -1;
};

RunOptions script(std::string text) { return {.command = {"/bin/sh", "-c", std::move(text)}}; }

Written run(RunOptions options) {
  Written written;
  options.on_output = [&](std::span<const std::byte> bytes) {
    written.output.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  options.on_line = [&](std::string_view line) { written.lines.emplace_back(line); };
  written.status = run_program(options);
  return written;
}

TEST(RunProgram, ReturnsBothStreamsAndTheStatus) {
  const Written written = run(script("echo one >&2; printf 'a\\0b'; echo two >&2; exit 3"));
  EXPECT_EQ(written.output, std::string("a\0b", 3));
  EXPECT_EQ(written.lines, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(written.status, 3);
}

TEST(RunProgram, ReturnsMoreThanAPipeHolds) {
  const Written written = run(script("head -c 3000000 /dev/zero; echo end >&2"));
  EXPECT_EQ(written.output.size(), 3000000u);
  EXPECT_EQ(written.lines, std::vector<std::string>{"end"});
}

TEST(RunProgram, DropsALineThatIsTooLong) {
  const Written written =
      run(script("head -c 200000 /dev/zero | tr '\\0' x >&2; echo >&2; echo end >&2"));
  EXPECT_EQ(written.lines, std::vector<std::string>{"end"});
  EXPECT_TRUE(run(script("head -c 65537 /dev/zero | tr '\\0' x >&2")).lines.empty());
}

TEST(RunProgram, AnExceptionFromACallbackEndsTheProgram) {
  RunOptions options = script("echo x; sleep 1000");
  options.on_output = [](std::span<const std::byte>) { throw std::runtime_error("full"); };
  EXPECT_THROW(run_program(options), std::runtime_error);
  options = script("echo x >&2; sleep 1000");
  options.on_line = [](std::string_view) { throw std::runtime_error("full"); };
  EXPECT_THROW(run_program(options), std::runtime_error);
}

TEST(RunProgram, StopEndsASilentProgram) {
  std::stop_source stop;
  RunOptions options = script("sleep 1000");
  options.stop = stop.get_token();
  options.on_line = [](std::string_view) {};
  std::thread stopper([&] { stop.request_stop(); });
  EXPECT_THROW(run_program(options), Error);
  stopper.join();
}

TEST(RunProgram, ASignalOrAMissingProgramIsAnError) {
  const auto code_of = [](const std::string& text) {
    try {
      run(script(text));
      return ErrorCode::kInvalidInput;
    } catch (const Error& error) {
      return error.code();
    }
  };
  EXPECT_EQ(code_of("kill -9 $$"), ErrorCode::kOutOfMemory);
  EXPECT_EQ(code_of("kill -11 $$"), ErrorCode::kIo);
  EXPECT_THROW(run_program({.command = {"/no/such/program"}}), Error);
}

}  // namespace
}  // namespace billow::process
