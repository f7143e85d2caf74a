#include "api/ollama/progress.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "api/ollama/errors.h"
#include "api/test_server.h"
#include "base/error.h"
#include "http/status.h"

namespace billow::api::ollama {
namespace {

// Returns the answer to a request whose work is `work`.
std::string answer_of(const std::function<void(Progress&)>& work, bool streams = true) {
  const auto handler = [&](Call& call) {
    Progress progress(call, streams);
    progress.run([&] { work(progress); });
  };
  TestServer server({{.methods = {http::Method::kGet}, .pattern = "/work", .handler = handler}},
                    shape_error);
  return answer_text(server.get("/work"));
}

TEST(Progress, AnyExceptionAfterTheFirstStepIsALine) {
  const auto fails = [](const auto& error) {
    return [error](Progress& progress) {
      progress.report_status("begun");
      throw error;
    };
  };
  const std::string begun = "200 {\"status\":\"begun\"}\n";
  EXPECT_EQ(answer_of(fails(Error(ErrorCode::kIo, "a"))), begun + "{\"error\":\"a\"}\n");
  EXPECT_EQ(answer_of(fails(http::StatusError(400, "b"))), begun + "{\"error\":\"b\"}\n");
  EXPECT_EQ(answer_of(fails(std::runtime_error("c"))), begun + "{\"error\":\"c\"}\n");
}

TEST(Progress, ExceptionsBeforeTheFirstStepHaveAStatus) {
  const auto fails = [](Progress&) { throw http::StatusError(400, "no"); };
  EXPECT_TRUE(answer_of(fails).starts_with("400 "));
  const auto breaks = [](Progress&) { throw std::runtime_error("no"); };
  EXPECT_TRUE(answer_of(breaks).starts_with("500 "));
}

}  // namespace
}  // namespace billow::api::ollama
