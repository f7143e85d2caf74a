#include "process/program_output.h"

#include <gtest/gtest.h>

#include <stop_token>
#include <string>
#include <thread>

#include "base/error.h"

namespace billow::process {
namespace {

TEST(ProgramOutput, ReturnsAllThatTheProgramPrints) {
  EXPECT_EQ(program_output("/bin/echo", {"-n", "a b"}), "a b");
  EXPECT_EQ(program_output("/bin/false", {}), "");
  EXPECT_THROW(program_output("/no/such/program", {}), Error);
  EXPECT_THROW(program_output("/bin/sh", {"-c", "kill -9 $$"}), Error);
}

// Programs that never end: one is silent, one closes its output, and one has a child that keeps the
// output open.
constexpr const char* kEndless[] = {"sleep 1000", "exec >&-; sleep 1000", "sleep 1000 & exit 0"};

TEST(ProgramOutput, KillsAProgramThatTimesOut) {
  for (const char* script : kEndless) {
    try {
      program_output("/bin/sh", {"-c", script}, {.time = std::chrono::milliseconds(50)});
      ADD_FAILURE() << script;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("did not end within"), std::string::npos)
          << error.what();
    }
  }
}

TEST(ProgramOutput, KillsAProgramOnStop) {
  for (const char* script : kEndless) {
    std::stop_source stop;
    std::thread stopper([&] { stop.request_stop(); });
    EXPECT_THROW(program_output("/bin/sh", {"-c", script},
                                {.time = std::chrono::hours(1), .stop = stop.get_token()}),
                 Error)
        << script;
    stopper.join();
  }
}

}  // namespace
}  // namespace billow::process
