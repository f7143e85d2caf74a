#include "api/quantize_work.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow::api {
namespace {

// A shell script that replaces billow.
class Quantizer {
 public:
  explicit Quantizer(const std::string& script) : path_(folder_.path() + "/billow") {
    std::ofstream(path_) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  }
  std::string run(QuantizeJob job = {.path = "a b.gguf", .type = "q4_K_M"}) {
    std::string bytes;
    quantize_file(path_, job, [&](std::span<const std::byte> piece) {
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    });
    return bytes;
  }
  ErrorCode code_of_failure(const std::string& what) {
    try {
      run();
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), what);
      return error.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorCode::kIo;
  }

 private:
  TestFolder folder_;
  std::string path_;
};

TEST(QuantizeFile, PassesOnTheFileAndTheProgress) {
  Quantizer quantizer(R"(echo '{"completed":1,"total":4}' >&2; printf '%s|' "$@"
                         echo '{"completed":4,"total":4}' >&2)");
  std::vector<uint64_t> done;
  EXPECT_EQ(quantizer.run({.path = "a b.gguf",
                           .type = "q4_K_M",
                           .progress = [&](uint64_t n, uint64_t) { done.push_back(n); }}),
            "quantize|--progress-json|--|a b.gguf|-|q4_K_M|");
  EXPECT_EQ(done, (std::vector<uint64_t>{1, 4}));
}

TEST(QuantizeFile, RethrowsErrorsOfTheProcess) {
  EXPECT_EQ(Quantizer(R"(echo '{"error":"no good","code":"unsupported"}' >&2; exit 1)")
                .code_of_failure("no good"),
            ErrorCode::kUnsupported);
  EXPECT_EQ(Quantizer("echo broken >&2; exit 1").code_of_failure("broken"), ErrorCode::kIo);
  EXPECT_EQ(Quantizer("exit 4").code_of_failure("billow quantize ended with status 4"),
            ErrorCode::kIo);
}

TEST(QuantizeFile, IgnoresOtherLines) {
  Quantizer quantizer(R"(echo '{"completed":-1,"total":"x"}' >&2; echo '[]' >&2; printf x)");
  EXPECT_EQ(quantizer.run(), "x");
}

TEST(QuantizeFile, EndsOnAStopRequest) {
  Quantizer quantizer("echo x; sleep 1000");
  EXPECT_THROW(quantizer.run({.path = "",
                              .type = "",
                              .progress = {},
                              .stop =
                                  [] {
                                    std::stop_source source;
                                    source.request_stop();
                                    return source.get_token();
                                  }()}),
               Error);
}

}  // namespace
}  // namespace billow::api
